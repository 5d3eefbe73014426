"""Is the difference between two groups of runs more than the choice of seeds and test lines?

A run's score varies with its seed and with the test lines, and a part of it with both: on each line, another seed is
lucky. The variance between the runs of a group, measured on one test set, contains that part, and so does the variance
over lines, measured with these runs. It is counted once, as in the analysis of variance of any experiment whose
subjects (runs) and items (lines) are both samples (Clark, 1973, The language-as-fixed-effect fallacy).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nmt.errors import DataError
from nmt.significance.lines import Floats, LineCounts
from nmt.significance.paired import CONFIDENCE, Interval
from nmt.significance.student import error_and_freedom, quantile, two_sided_p

MIN_RUNS = 3
"""Runs a side from which on a test over seeds is worth reporting."""
_CLEARLY = 0.9  # a prediction that is smaller than the other by this factor


@dataclass(frozen=True)
class SeedTest:
    """The difference of the mean scores of two groups of runs: over seeds and lines."""

    value: float
    """The other group less the baseline."""
    interval: Interval
    p: float
    """Two-sided, by the t distribution."""
    line_error: float
    """Standard error over lines with these runs."""
    seed_error: float
    """Standard error over seeds with these lines. Both errors contain what varies with seed and line together, so that
    the squared error of the difference is less than the sum of their squares."""
    degrees_of_freedom: float
    """Infinite if the runs of each group have the same score."""
    half_width_of_twice_the_runs: float
    """Half of the interval's expected width with twice as many runs a side."""
    half_width_of_twice_the_lines: float


@dataclass(frozen=True)
class _Variances:
    """Parts of the variance of a difference. A pair has a value for each group."""

    seeds: tuple[float, float]
    """Of the mean over runs, on these lines."""
    both: tuple[float, float]
    """Of seed and line together; a part of `seeds`, too."""
    lines: float
    """Of lines alone: what infinitely many runs would leave."""
    runs: tuple[int, int]

    def error_and_freedom(self) -> tuple[float, float]:
        """Return the standard error of the difference and its degrees of freedom.

        The variance over lines counts as known: there are hundreds of lines.
        """
        return error_and_freedom(self.seeds, self.runs, known=self.lines)

    def half_width(self) -> float:
        """Return half of the width of the interval."""
        error, freedom = self.error_and_freedom()
        return error * quantile(CONFIDENCE, freedom)

    def twice_the_runs(self) -> _Variances:
        """Return the variances to be expected with twice as many runs."""
        (first, second), (n_first, n_second) = self.seeds, self.runs
        return replace(self, seeds=(first / 2, second / 2), runs=(2 * n_first, 2 * n_second))

    def twice_the_lines(self) -> _Variances:
        """Return the variances to be expected with twice as many lines."""
        first, second = (seeds - min(seeds, both) / 2 for seeds, both in zip(self.seeds, self.both, strict=True))
        return replace(self, seeds=(first, second), lines=self.lines / 2)


def seeds_and_lines(baseline: Sequence[LineCounts], other: Sequence[LineCounts]) -> SeedTest:
    """Test the difference between two groups of runs, of which each has at least two.

    The variance of the difference is s_A²/k_A + s_B²/k_B + the variance over lines less what of it is in the first two
    already. The degrees of freedom are those of Welch and Satterthwaite with the variance over lines as known.

    Raises DataError if there is a single line.
    """
    runs = [*baseline, *other]
    if len(runs[0].counts) < 2:
        raise DataError("the test set has one line: how scores vary between lines needs at least two")
    sizes, covariance = (len(baseline), len(other)), _over_lines(runs)
    weights = np.repeat((-1 / sizes[0], 1 / sizes[1]), sizes)
    over_lines = max(0.0, float(weights @ covariance @ weights))  # rounding
    first, second = slice(0, sizes[0]), slice(sizes[0], None)
    scores = [run.score() for run in baseline], [run.score() for run in other]
    between = statistics.variance(scores[0]) / sizes[0], statistics.variance(scores[1]) / sizes[1]
    both = (_both(covariance[first, first]), _both(covariance[second, second]))
    variances = _Variances(between, both, max(0.0, over_lines - sum(both)), sizes)
    value = statistics.mean(scores[1]) - statistics.mean(scores[0])  # exact: 0 for equal runs
    error, freedom = variances.error_and_freedom()
    half = variances.half_width()
    p = two_sided_p(value / error, freedom) if error else float(value == 0)
    return SeedTest(
        value,
        Interval(value - half, value + half),
        p,
        line_error=math.sqrt(over_lines),
        seed_error=math.sqrt(sum(between)),
        degrees_of_freedom=freedom,
        half_width_of_twice_the_runs=variances.twice_the_runs().half_width(),
        half_width_of_twice_the_lines=variances.twice_the_lines().half_width(),
    )


def what_to_add(test: SeedTest) -> str:
    """Return a sentence that says whether more runs or more lines would tell the difference better."""
    runs, lines = test.half_width_of_twice_the_runs, test.half_width_of_twice_the_lines
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
    """Return the covariances of the scores of runs over lines, by the jackknife."""
    without = np.stack([run.scores(run.counts.sum(0) - run.counts) for run in runs])  # each line in turn
    deviations = without - without.mean(1, keepdims=True)
    n_lines = deviations.shape[1]
    covariance: Floats = deviations @ deviations.T * ((n_lines - 1) / n_lines)
    return covariance


def _both(covariance: Floats) -> float:
    """Return how much of the variance over lines of a group's mean score its runs do not share."""
    n = len(covariance)
    shared = (covariance.sum() - np.trace(covariance)) / (n * (n - 1))
    return max(0.0, float(np.trace(covariance) / n - shared)) / n
