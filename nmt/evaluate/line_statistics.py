"""The contribution of each line to a corpus score, from which the score of any selection of lines is computed.

Shapes are written with L lines, C counts of a metric, and S selections of lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nmt.evaluate.metrics import MetricName, Reference, check_lines, make_scorer

Floats = npt.NDArray[np.float64]

Formula = Literal["bleu", "chrf", "ter", "mean"]
"""How a corpus score is computed from sums over lines; `mean` is the mean of line scores, as for neural metrics."""

_BLEU_ORDERS = 4


@dataclass(frozen=True)
class Metric:
    """A metric by which systems are compared."""

    name: str
    """bleu, chrf, ter, or the name of the segment scores."""
    formula: Formula
    signature: str
    """The signature of the metric. Scores with different signatures are not comparable."""
    higher_is_better: bool


@dataclass(frozen=True)
class LineCounts:
    """The contribution of each line of a system's translations to a corpus score."""

    metric: Metric
    counts: Floats
    """The counts (L, C); with the formula `mean`, a column of scores and a column of ones."""

    def score(self) -> float:
        """Return the corpus score of all lines."""
        return float(self.scores(self.counts.sum(0, keepdims=True))[0])

    def scores(self, sums: Floats) -> Floats:
        """Return the corpus scores (S,) for sums of counts (S, C), as sacrebleu computes them."""
        match self.metric.formula:
            case "bleu":
                return _bleu(sums)
            case "chrf":
                return chrf(sums[:, 0::3], sums[:, 1::3], sums[:, 2::3])
            case "ter":
                edits, length = sums[:, 0], sums[:, 1]
                with np.errstate(divide="ignore", invalid="ignore"):
                    return np.where(length > 0, 100 * edits / length, np.where(edits > 0, 100.0, 0.0))
            case "mean":
                return sums[:, 0] / sums[:, 1]

    def line_scores(self) -> Floats:
        """Return the score of each single line, (L,)."""
        return self.scores(self.counts)


def count_lines(
    metric: MetricName,
    systems: Sequence[Sequence[str]],
    refs: Sequence[Reference],
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> list[LineCounts]:
    """Count the n-grams or edits of each line of each system, as sacrebleu does.

    The other arguments are described at `corpus_score`. Raises DataError as `corpus_score` does.
    """
    for hyps in systems:
        check_lines(hyps, refs)
    scorer = make_scorer(metric, refs, tgt_lang, lowercase, tokenize)
    name = "chrF2" if metric == "chrf" else metric.upper()  # as sacrebleu calls it
    counted = Metric(metric, metric, f"{name}|{scorer.get_signature()}", metric != "ter")
    # the method that sacrebleu's own paired tests use; there is no public one
    return [
        LineCounts(counted, np.array(scorer._extract_corpus_statistics(hyps, None), np.float64)) for hyps in systems
    ]


def of_line_scores(name: str, scores: Sequence[float], signature: str, higher_is_better: bool = True) -> LineCounts:
    """Return the line counts of a metric whose corpus score is the mean of its line scores."""
    values = np.asarray(scores, np.float64)
    return LineCounts(Metric(name, "mean", signature, higher_is_better), np.stack([values, np.ones_like(values)], 1))


def _bleu(sums: Floats) -> Floats:
    """Compute BLEU with exponential smoothing (mteval-v13a) from lengths and n-gram matches and totals by order."""
    n_hyp, n_ref = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2 : 2 + _BLEU_ORDERS], sums[:, 2 + _BLEU_ORDERS :]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, 0.5**halvings) / totals
        logs = np.where(totals > 0, np.log(precisions), -np.inf).sum(1) / _BLEU_ORDERS
        penalty = np.where(n_hyp < n_ref, np.exp(1 - n_ref / n_hyp), 1.0)
    return np.where(matches.any(1), 100 * penalty * np.exp(logs), 0.0)


def chrf(n_hyp: Floats, n_ref: Floats, n_match: Floats) -> Floats:
    """Compute chrF with beta 2 from the n-gram counts of each order in the hypothesis, the reference and both.

    chrF is the F-score of the mean precision and recall of character n-grams (Popović, 2015). The orders are the last
    dimension, the others are broadcast.
    """
    counted = (n_hyp > 0) & (n_ref > 0)
    n_orders = np.maximum(counted.sum(-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(counted, n_match / n_hyp, 0.0).sum(-1) / n_orders
        recall = np.where(counted, n_match / n_ref, 0.0).sum(-1) / n_orders
        score = 500 * precision * recall / (4 * precision + recall)
    return np.where(precision + recall > 0, score, 0.0)
