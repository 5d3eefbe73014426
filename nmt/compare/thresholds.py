"""How often people agree with a metric about which of two systems is better, by the difference between their scores.

Kocmi, Zouhar, Federmann and Post: Navigating the Metrics Maze: Reconciling Score Magnitudes and Accuracies (ACL 2024,
arXiv:2401.06760), from the human judgements of pairs of systems of WMT and others.
"""

from __future__ import annotations

from typing import NamedTuple

from nmt.significance.lines import Metric

SOURCE = "Kocmi et al., 2024, arXiv:2401.06760"


class Threshold(NamedTuple):
    """Differences from which on people agree with the metric in so many of a hundred pairs of systems."""

    for_65: float
    for_80: float


def threshold_of(metric: Metric) -> Threshold | None:
    """Return the published threshold of a metric; None if there is none."""
    if metric.formula == "bleu":
        return Threshold(1.06, 2.34)
    if metric.formula == "chrf":
        return Threshold(0.76, 1.63)
    if "wmt22-comet-da" in metric.signature:
        return Threshold(0.0026, 0.0056)  # published for scores times 100
    return None


def agreement(metric: Metric, difference: float) -> str | None:
    """Return the share of pairs of systems with such a difference in which people agree; None if it is not known."""
    threshold = threshold_of(metric)
    if threshold is None:
        return None
    if abs(difference) >= threshold.for_80:
        return "over 80 %"
    return "65 to 80 %" if abs(difference) >= threshold.for_65 else "under 65 %"
