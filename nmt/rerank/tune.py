"""Weights that give the best corpus score on a development set.

What each candidate contributes to the score is counted once, so that the score of a choice is a sum over lines.
Shapes are written with F features, L lines, K candidates, and C counts of a metric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.evaluate.line_statistics import Floats, LineCounts, Metric, corpus_scores, count_lines
from nmt.evaluate.metrics import MetricName
from nmt.rerank.features import Feature
from nmt.rerank.table import Ints, Table

N_RANDOM = 1000
"""Random weights that are tried."""
N_STARTS = 5
"""The best of these are improved one weight at a time."""
FINEST = 1 / 64
"""Smallest step of a weight, in units: with a weight of one unit a feature varies as much as the score of search."""
SEED = 1

Weights = tuple[float, ...]


@dataclass(frozen=True)
class Counts:
    """What each candidate contributes to a metric."""

    metric: Metric
    counts: Floats
    """(L, K, C)"""

    @classmethod
    def of(cls, metric: MetricName, table: Table, refs: Sequence[str], tgt_lang: str | None) -> Counts:
        """Count by the references of the lines. Raises DataError if there is not one for each."""
        by_rank = count_lines(metric, [*zip(*table.texts, strict=True)], refs, tgt_lang)
        return cls(by_rank[0].metric, np.stack([each.counts for each in by_rank], 1))

    def score(self, chosen: Ints) -> float:
        """Return the corpus score of one candidate (L,) of each line."""
        return LineCounts(self.metric, self.counts[np.arange(len(chosen)), chosen]).score()

    def best(self) -> Ints:
        """Return the number (L,) of each line's candidate with the highest score of its own."""
        n_lines, n_candidates, _ = self.counts.shape
        scores = corpus_scores(self.metric.formula, self.counts.reshape(n_lines * n_candidates, -1))
        chosen: Ints = scores.reshape(n_lines, n_candidates).argmax(1)
        return chosen


@dataclass(frozen=True)
class Tuned:
    """Weights, and what they are worth on the development set."""

    weights: Weights
    metric: Metric
    direct: float
    """The score of the ranking by search."""
    reranked: float
    oracle: float
    """The score of the candidates that have the highest chrF of their line."""
    n_tried: int


def tune(
    table: Table, features: Sequence[Feature], refs: Sequence[str], metric: MetricName, tgt_lang: str | None
) -> Tuned:
    """Find the weights of features with the best score; that of the first, the score of search, is 1.

    Raises DataError if there is not one reference for each line.
    """
    counts = Counts.of(metric, table, refs, tgt_lang)
    by_chrf = counts if metric == "chrf" else Counts.of("chrf", table, refs, tgt_lang)
    weights, scores = find_weights(table, features, counts.score)
    return Tuned(
        weights, counts.metric, scores[direct_weights(features)], scores[weights], counts.score(by_chrf.best()),
        len(scores),
    )  # fmt: skip


def direct_weights(features: Sequence[Feature]) -> Weights:
    """Return the weights with which search alone ranks."""
    return 1.0, *(0.0 for _ in features[1:])


def find_weights(
    table: Table, features: Sequence[Feature], score: Callable[[Ints], float]
) -> tuple[Weights, dict[Weights, float]]:
    """Return the weights whose choice has the best score, the first of several, and the scores of all that were tried.

    The ranking by search and the default weights are among them.
    """
    units, lowest = _units(table), [-np.inf if feature.is_signed else 0.0 for feature in features]
    scores: dict[Weights, float] = {}

    def try_weights(weights: Weights) -> float:
        if weights not in scores:
            scores[weights] = score(table.choose(weights))
        return scores[weights]

    def changed(weights: Weights, at: int, by: float) -> Weights:
        value = max(weights[at] + by * units[at], lowest[at])
        return *weights[:at], float(f"{value:.4g}"), *weights[at + 1 :]

    search_alone = direct_weights(features)
    try_weights(search_alone)
    try_weights((1.0, *(feature.default for feature in features[1:])))
    rng = np.random.default_rng(SEED)
    for _ in range(N_RANDOM):
        weights = search_alone
        for at in range(1, len(features)):
            if rng.random() < 0.8:  # else it stays 0
                sign = rng.choice([-1, 1]) if features[at].is_signed else 1
                weights = changed(weights, at, sign * rng.exponential())
        try_weights(weights)
    for weights in sorted(scores, key=lambda tried: -scores[tried])[:N_STARTS]:
        step = 1.0
        while step >= FINEST:
            others = [changed(weights, at, by) for at in range(1, len(features)) for by in (step, -step)]
            best = max(others, key=try_weights)
            weights, step = (best, step) if scores[best] > scores[weights] else (weights, step / 2)
    return max(scores, key=lambda tried: scores[tried]), scores


def _units(table: Table) -> Floats:
    """Return for each feature (F,) the weight with which it varies within lines as much as the first; 0 if it does not
    vary."""
    centred = table.values - table.values.mean(2, keepdims=True)
    spread = np.sqrt((centred**2).mean((1, 2)))
    units: Floats = np.divide(spread[0], spread, out=np.zeros_like(spread), where=spread > 0)
    return units
