"""Differences between groups of runs: variances against their definitions, and how often equal groups differ."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from made_systems import reference, with_errors
from nmt.errors import DataError
from nmt.evaluate.line_statistics import Floats, LineCounts, count_lines, of_line_scores
from nmt.evaluate.significance import SeedTest, bootstrap_scores, seeds_and_lines, two_sided_p, what_to_add


def groups(
    rng: np.random.Generator, sizes: tuple[int, int], seeds: float, lines: float, both: float, shift: float = 0.0
) -> tuple[list[LineCounts], list[LineCounts]]:
    """Two groups of runs on 200 lines; standard deviations of a line's score over seeds, of the difference between the
    groups over lines, and of what is of this line and seed alone."""
    common = rng.normal(0, 3, 200)
    expected = [common, common + shift + rng.normal(0, lines, 200)]

    def run(mean: Floats) -> LineCounts:
        return of_line_scores("m", list(mean + rng.normal(0, seeds) + rng.normal(0, both, 200)), "")

    first, second = ([run(mean) for _ in range(n)] for mean, n in zip(expected, sizes, strict=True))
    return first, second


def half_width(test: SeedTest) -> float:
    return (test.interval.high - test.interval.low) / 2


def test_variance_components_of_mean_metric():
    baseline, other = groups(np.random.default_rng(3), (3, 4), seeds=0.2, lines=1, both=2)
    test = seeds_and_lines(baseline, other)
    scores = [[run.score() for run in runs] for runs in (baseline, other)]
    assert test.value == pytest.approx(statistics.fmean(scores[1]) - statistics.fmean(scores[0]))
    between = [statistics.variance(values) / len(values) for values in scores]
    assert test.seed_error == pytest.approx(math.sqrt(sum(between)))
    lines = [np.array([run.counts[:, 0] for run in runs]) for runs in (baseline, other)]
    over_lines = float((lines[1].mean(0) - lines[0].mean(0)).var(ddof=1)) / 200
    assert test.line_error == pytest.approx(math.sqrt(over_lines))
    # the mean square of the interaction in a table of runs and lines
    both = 0.0
    for table in lines:
        k = len(table)
        residuals = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
        both += float((residuals**2).sum()) / ((k - 1) * 199) / 200 / k
    total = sum(between) + over_lines - both
    assert both > 0.2 * total  # it matters
    freedom = total**2 / (between[0] ** 2 / 2 + between[1] ** 2 / 3)
    assert test.degrees_of_freedom == pytest.approx(freedom)
    assert test.p == pytest.approx(two_sided_p(test.value / math.sqrt(total), freedom))
    low, high = test.interval
    assert (low + high) / 2 == pytest.approx(test.value)
    assert two_sided_p(half_width(test) / math.sqrt(total), freedom) == pytest.approx(0.05)


def test_difference_is_antisymmetric():
    baseline, other = groups(np.random.default_rng(4), (3, 4), 0.2, 1, 2)
    test, back = seeds_and_lines(baseline, other), seeds_and_lines(other, baseline)
    assert back.value == pytest.approx(-test.value)
    assert back.p == pytest.approx(test.p)
    assert list(back.interval) == pytest.approx([-test.interval.high, -test.interval.low])


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_line_error_equals_bootstrap(metric):
    correct = reference(150)
    systems = [with_errors(correct, rate, seed) for rate, seed in ((0.3, 1), (0.3, 2), (0.2, 3), (0.2, 4))]
    counted = count_lines(metric, systems, correct)
    test = seeds_and_lines(counted[:2], counted[2:])
    scores = bootstrap_scores(counted, 2000)
    differences = scores[2:].mean(0) - scores[:2].mean(0)
    assert test.line_error == pytest.approx(differences.std(), rel=0.08)


@pytest.mark.parametrize(("seeds", "lines", "both"), [(0.0, 0.0, 2.0), (0.15, 2.0, 2.0), (1.0, 0.0, 0.1)])
def test_false_positive_rate_of_three_runs(seeds: float, lines: float, both: float):
    """400 times: 5 % are 20 of them, 6 to 35 within 3.5 standard errors.

    With what varies with both counted twice it would be 0.1 % of the first case; by lines alone 20 to 100 %.
    """
    rng = np.random.default_rng(1)
    rejected = sum(seeds_and_lines(*groups(rng, (3, 3), seeds, lines, both)).p <= 0.05 for _ in range(400))
    assert 6 <= rejected <= 35


def test_large_difference_is_significant():
    rng = np.random.default_rng(2)
    found = sum(seeds_and_lines(*groups(rng, (3, 3), 0.2, 1, 1, shift=1.5)).p <= 0.05 for _ in range(50))
    assert found >= 45


def test_advice_names_runs_or_lines():
    rng = np.random.default_rng(5)
    seeds = seeds_and_lines(*groups(rng, (3, 3), seeds=1, lines=1, both=0.1))
    assert what_to_add(seeds).startswith("more runs would help most: the interval is ±")
    assert seeds.half_width_of_twice_the_lines == pytest.approx(half_width(seeds), rel=0.05)
    assert seeds.half_width_of_twice_the_runs < 0.75 * half_width(seeds)
    lines = seeds_and_lines(*groups(rng, (3, 3), seeds=0.01, lines=4, both=0.1))
    assert what_to_add(lines).startswith("more test lines would help most")
    assert lines.half_width_of_twice_the_lines == pytest.approx(half_width(lines) / math.sqrt(2), rel=0.03)
    assert f"twice the lines ±{lines.half_width_of_twice_the_lines:.2f}" in what_to_add(lines)
    alike = seeds_and_lines(*groups(rng, (12, 12), seeds=0.15, lines=0.7, both=2))
    assert what_to_add(alike).startswith("more runs or more test lines would help alike")


def test_equal_runs_leave_line_error_only():
    rng = np.random.default_rng(6)
    (first,), (second,) = groups(rng, (1, 1), 0, 1, 1)
    test = seeds_and_lines([first] * 3, [second] * 3)
    assert (test.seed_error, test.degrees_of_freedom) == (0, math.inf)
    assert test.p == pytest.approx(two_sided_p(test.value / test.line_error, math.inf))
    same = seeds_and_lines([first] * 3, [first] * 4)
    assert (same.value, same.p) == (0, 1)
    assert half_width(same) < 1e-9
    assert "±0.00" in what_to_add(same)


def test_one_line_raises():
    one = of_line_scores("m", [0.5], "")
    with pytest.raises(DataError, match="one line"):
        seeds_and_lines([one] * 3, [one] * 3)
