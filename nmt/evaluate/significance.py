"""Significance tests of differences between systems, over test lines and over seeds.

Shapes are written with L lines, C counts of a metric, and S resamples.

A run's score varies with its seed, with the test lines, and with both together: on each line, a different seed does
best. The variance between the runs of a group, measured on one test set, contains this interaction, and so does the
variance over lines, measured with these runs. It is counted once, as in the analysis of variance of any experiment
whose subjects (runs) and items (lines) are both samples (Clark, 1973, The language-as-fixed-effect fallacy).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from nmt.errors import DataError
from nmt.evaluate.metrics import Floats, LineCounts

_NORMAL_FROM = 1e5  # degrees of freedom; p of the t distribution differs from the normal one's by less than 3e-6
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)  # of a quadrature over [-1, 1]


def error_and_freedom(variances: Sequence[float], sizes: Sequence[int], known: float = 0.0) -> tuple[float, float]:
    """Return the standard error of a sum or difference of means and its degrees of freedom (Welch, 1947).

    Args:
        variances: the variance of each mean.
        sizes: the number of values that each variance was estimated from.
        known: a further part of the variance, which is known exactly.
    """
    total = sum(variances) + known
    spread = sum(variance**2 / (n - 1) for variance, n in zip(variances, sizes, strict=True))
    degrees_of_freedom = total**2 / spread if spread else math.inf
    return math.sqrt(total), degrees_of_freedom


def two_sided_p(t: float, degrees_of_freedom: float) -> float:
    """Return the probability that the t distribution gives a value at least as far from 0 as `t`."""
    if degrees_of_freedom >= _NORMAL_FROM:
        return math.erfc(abs(t) / math.sqrt(2))
    # t = sqrt(degrees of freedom) tan(x) makes the density a power of cos(x), which is integrated from 0 to t
    angle = math.atan(abs(t) / math.sqrt(degrees_of_freedom))
    inside = angle / 2 * float(_WEIGHTS @ np.cos(angle / 2 * (_NODES + 1)) ** (degrees_of_freedom - 1))
    return max(0.0, 1 - 2 * inside * _gamma_ratio(degrees_of_freedom) / math.sqrt(math.pi))


def _gamma_ratio(degrees_of_freedom: float) -> float:
    half = degrees_of_freedom / 2
    return math.exp(math.lgamma(half + 0.5) - math.lgamma(half))


def quantile(confidence: float, degrees_of_freedom: float) -> float:
    """Return t such that the t distribution has the probability `confidence` between -t and t."""
    t = NormalDist().inv_cdf((1 + confidence) / 2)
    if degrees_of_freedom >= _NORMAL_FROM:
        return t
    peak = _gamma_ratio(degrees_of_freedom) / math.sqrt(degrees_of_freedom * math.pi)
    step = t
    while step > 1e-12 * t:  # Newton's method: p is convex, and t is smaller than the solution
        density = peak * (1 + t * t / degrees_of_freedom) ** (-degrees_of_freedom / 2 - 0.5)
        step = (two_sided_p(t, degrees_of_freedom) - (1 - confidence)) / (2 * density)
        t += step
    return t


TRIALS = 10_000
SEED = 12345
CONFIDENCE = 0.95
_CHUNK = 1 << 23  # numbers of a matrix of resamples


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


def randomization_tests(pairs: Sequence[tuple[LineCounts, LineCounts]], trials: int, seed: int = SEED) -> list[float]:
    """Return the two-sided p-value of the difference between the systems of each pair (Riezler and Maxwell, 2005).

    The null hypothesis is that both systems' translations of a line can be exchanged. Each trial exchanges them on
    lines chosen at random, and p is the share of trials, including the observed one, with a difference at least as
    large as the observed one. (`sacrebleu --paired-ar` counts only larger ones, which gives equal systems the smallest
    p.) All systems have the same lines, and the lines to exchange are drawn once for all pairs.
    """
    if not pairs:
        return []
    n_lines = len(pairs[0][0].counts)
    changes = [second.counts - first.counts for first, second in pairs]
    totals = [(first.counts.sum(0), second.counts.sum(0)) for first, second in pairs]
    least = [abs(first.score() - second.score()) - 1e-9 for first, second in pairs]  # allows for rounding
    rng = np.random.default_rng(seed)
    n_as_large = np.zeros(len(pairs), np.int64)
    for size in _chunks(trials, n_lines):
        exchanged = rng.integers(0, 2, (size, n_lines)).astype(np.float64)
        for number, change in enumerate(_sums(exchanged, changes)):
            scores, (first, second) = pairs[number][0].scores, totals[number]
            differences = scores(first + change) - scores(second - change)
            n_as_large[number] += (np.abs(differences) >= least[number]).sum()
    return [float(n + 1) / (trials + 1) for n in n_as_large]


def bootstrap_scores(systems: Sequence[LineCounts], samples: int, seed: int = SEED) -> Floats:
    """Return scores on resampled test sets, (len(systems), S): lines are drawn with replacement (Koehn, 2004).

    All systems and metrics get the same lines, as do calls with the same number of lines and the same seed.
    """
    n_lines = len(systems[0].counts)
    rng = np.random.default_rng(seed)
    result = []
    for size in _chunks(samples, n_lines):
        rows = rng.integers(0, n_lines, (size, n_lines))
        rows += n_lines * np.arange(size)[:, None]
        drawn = np.bincount(rows.ravel(), minlength=size * n_lines).reshape(size, n_lines).astype(np.float64)
        sums = _sums(drawn, [system.counts for system in systems])
        result.append(np.stack([system.scores(of_system) for system, of_system in zip(systems, sums, strict=True)]))
    return np.concatenate(result, axis=1)


def _sums(drawn: Floats, counts: Sequence[Floats]) -> list[Floats]:
    """Return the sums of each system's counts (L, C) over lines, where `drawn` (S, L) counts the draws of each line.

    A single matrix product is faster than one per system.
    """
    ends = np.cumsum([columns.shape[1] for columns in counts])
    return np.split(drawn @ np.hstack(counts), ends[:-1], axis=1)


def interval(values: Floats) -> Interval:
    """Return the 95 % percentile interval of resampled values (S,)."""
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple comparisons (Holm, 1979), in the same order."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def _chunks(n: int, width: int) -> Iterator[int]:
    """Yield chunk sizes that add up to `n`; a matrix of chunk size by `width` numbers fits into memory."""
    most = max(1, _CHUNK // max(1, width))
    for start in range(0, n, most):
        yield min(most, n - start)


MIN_RUNS = 3
"""Minimum number of runs per group for a test over seeds."""
_CLEARLY = 0.9  # a predicted width that is smaller than the other by this factor is clearly smaller


@dataclass(frozen=True)
class SeedTest:
    """A test of the difference between the mean scores of two groups of runs, over seeds and lines."""

    value: float
    """The mean of the other group minus the mean of the baseline."""
    interval: Interval
    p: float
    """The two-sided p-value by the t distribution."""
    line_error: float
    """Standard error over lines with these runs."""
    seed_error: float
    """Standard error over seeds with these lines. Both errors contain the interaction of seeds and lines, so the
    squared error of the difference is less than the sum of their squares."""
    degrees_of_freedom: float
    """Infinite if all runs of a group have the same score, in both groups."""
    half_width_of_twice_the_runs: float
    """Half of the expected width of the interval with twice as many runs per group."""
    half_width_of_twice_the_lines: float
    """Half of the expected width of the interval with twice as many lines."""


def seeds_and_lines(baseline: Sequence[LineCounts], other: Sequence[LineCounts]) -> SeedTest:
    """Test the difference between the mean scores of two groups of at least two runs each.

    The variance of the difference is s_A²/k_A + s_B²/k_B plus the variance over lines minus the interaction, which is
    already in the first two terms. The degrees of freedom are computed as by Welch and Satterthwaite, with the variance
    over lines as known.

    Raises DataError if there is only one line.
    """
    runs = [*baseline, *other]
    if len(runs[0].counts) < 2:
        raise DataError("the test set has only one line: a test over seeds and lines needs at least two")
    sizes = (len(baseline), len(other))
    covariance = _over_lines(runs)
    weights = np.repeat((-1 / sizes[0], 1 / sizes[1]), sizes)
    over_lines = max(0.0, float(weights @ covariance @ weights))  # rounding may make it negative
    scores = [[run.score() for run in group] for group in (baseline, other)]
    between = [statistics.variance(of_group) / len(of_group) for of_group in scores]
    n = sizes[0]
    shared = [_interaction(covariance[:n, :n]), _interaction(covariance[n:, n:])]
    lines = max(0.0, over_lines - sum(shared))  # remains with infinitely many runs; known, as there are many lines
    value = statistics.mean(scores[1]) - statistics.mean(scores[0])  # exactly 0 for equal runs
    error, freedom = error_and_freedom(between, sizes, lines)
    half = error * quantile(CONFIDENCE, freedom)
    twice_runs = error_and_freedom([variance / 2 for variance in between], [2 * n for n in sizes], lines)
    seeds_on_twice_lines = [seeds - min(seeds, of_group) / 2 for seeds, of_group in zip(between, shared, strict=True)]
    twice_lines = error_and_freedom(seeds_on_twice_lines, sizes, lines / 2)
    p = two_sided_p(value / error, freedom) if error else float(value == 0)
    return SeedTest(
        value,
        Interval(value - half, value + half),
        p,
        line_error=math.sqrt(over_lines),
        seed_error=math.sqrt(sum(between)),
        degrees_of_freedom=freedom,
        half_width_of_twice_the_runs=twice_runs[0] * quantile(CONFIDENCE, twice_runs[1]),
        # fewer degrees of freedom can make the estimate wider, but more lines do not
        half_width_of_twice_the_lines=min(half, twice_lines[0] * quantile(CONFIDENCE, twice_lines[1])),
    )


def what_to_add(test: SeedTest) -> str:
    """Return advice on whether more runs or more lines would make the interval narrower."""
    runs = test.half_width_of_twice_the_runs
    lines = test.half_width_of_twice_the_lines
    if runs < _CLEARLY * lines:
        verdict = "more runs would help most"
    elif lines < _CLEARLY * runs:
        verdict = "more test lines would help most"
    else:
        verdict = "more runs or more test lines would help alike"
    now = (test.interval.high - test.interval.low) / 2
    return (
        f"{verdict}: the interval is ±{now:.2f}, with twice the runs it would be about ±{runs:.2f}, with twice the "
        f"lines ±{lines:.2f}"
    )


def _over_lines(runs: Sequence[LineCounts]) -> Floats:
    """Return the covariances between the scores of runs over lines, by the jackknife."""
    without = np.stack([run.scores(run.counts.sum(0) - run.counts) for run in runs])  # (runs, L), each without a line
    deviations = without - without.mean(1, keepdims=True)
    n_lines = deviations.shape[1]
    covariance: Floats = deviations @ deviations.T * ((n_lines - 1) / n_lines)
    return covariance


def _interaction(covariance: Floats) -> float:
    """Return the part of the variance over lines of a group's mean score that is specific to its runs."""
    n = len(covariance)
    shared = (covariance.sum() - np.trace(covariance)) / (n * (n - 1))
    return max(0.0, float(np.trace(covariance) / n - shared)) / n
