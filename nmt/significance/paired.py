"""Is the difference between two systems more than the choice of test lines? Tests over lines, which systems share.

Shapes are written with L lines, C counts of a metric, and S resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nmt.significance.lines import Floats, LineCounts

TRIALS = 10_000
SEED = 12345
CONFIDENCE = 0.95
_CHUNK = 1 << 23  # numbers of a matrix of resamples


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


def approximate_randomization(first: LineCounts, second: LineCounts, trials: int = TRIALS, seed: int = SEED) -> float:
    """Return the two-sided p of the difference between two systems (Riezler and Maxwell, 2005).

    The null hypothesis is that both systems' translations of a line could be exchanged: in each trial they are, of
    lines chosen at random, and p is the share of trials, the observed one among them, whose difference is at least that
    of the systems. `sacrebleu --paired-ar` counts larger ones only: the same unless few lines differ, but systems that
    do not differ at all have its smallest p.
    """
    return randomization_tests([(first, second)], trials, seed)[0]


def randomization_tests(
    pairs: Sequence[tuple[LineCounts, LineCounts]], trials: int = TRIALS, seed: int = SEED
) -> list[float]:
    """Return p of each pair as `approximate_randomization` does; the lines that are exchanged are drawn once for all.

    All systems have the same lines.
    """
    if not pairs:
        return []
    n_lines, changes = len(pairs[0][0].counts), [second.counts - first.counts for first, second in pairs]
    totals = [(first.counts.sum(0), second.counts.sum(0)) for first, second in pairs]
    least = [abs(first.score() - second.score()) - 1e-9 for first, second in pairs]  # another order rounds otherwise
    rng, n_as_large = np.random.default_rng(seed), np.zeros(len(pairs), np.int64)
    for size in _chunks(trials, n_lines):
        exchanged = rng.integers(0, 2, (size, n_lines)).astype(np.float64)
        for number, change in enumerate(_sums(exchanged, changes)):
            scores, (first, second) = pairs[number][0].scores, totals[number]
            differences = scores(first + change) - scores(second - change)
            n_as_large[number] += (np.abs(differences) >= least[number]).sum()
    return [float(n + 1) / (trials + 1) for n in n_as_large]


def bootstrap_scores(systems: Sequence[LineCounts], samples: int = TRIALS, seed: int = SEED) -> Floats:
    """Return scores on resampled test sets, (len(systems), S): lines are drawn with replacement (Koehn, 2004).

    They are the same lines for all systems and metrics, and in each call with as many lines and the same seed.
    """
    n_lines, rng = len(systems[0].counts), np.random.default_rng(seed)
    result = []
    for size in _chunks(samples, n_lines):
        rows = rng.integers(0, n_lines, (size, n_lines))
        rows += n_lines * np.arange(size)[:, None]
        drawn = np.bincount(rows.ravel(), minlength=size * n_lines).reshape(size, n_lines).astype(np.float64)
        sums = _sums(drawn, [system.counts for system in systems])
        result.append(np.stack([system.scores(of_system) for system, of_system in zip(systems, sums, strict=True)]))
    return np.concatenate(result, axis=1)


def _sums(drawn: Floats, counts: Sequence[Floats]) -> list[Floats]:
    """Return the sums of each of the counts (L, C) over lines that are drawn so often (S, L): one product, since
    several take longer."""
    return np.split(drawn @ np.hstack(counts), np.cumsum([each.shape[1] for each in counts])[:-1], axis=1)


def interval(values: Floats) -> Interval:
    """Return the percentile interval of resampled values (S,)."""
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values corrected for their number (Holm, 1979), in the same order."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def _chunks(n: int, width: int) -> Iterator[int]:
    """Yield sizes that add up to `n`, so that a matrix of that many rows of `width` numbers fits into memory."""
    most = max(1, _CHUNK // max(1, width))
    for start in range(0, n, most):
        yield min(most, n - start)
