"""Significance tests over lines and over seeds, compared with sacrebleu and with theory."""

from __future__ import annotations

import math
import random
import statistics
from math import comb, sqrt

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from made_systems import reference, with_errors
from nmt.errors import DataError
from nmt.evaluate.metrics import METRICS, Floats, LineCounts, count_lines, make_scorer, of_line_scores
from nmt.evaluate.significance import (
    SEED,
    SeedTest,
    bootstrap_scores,
    holm,
    interval,
    quantile,
    randomization_tests,
    seeds_and_lines,
    two_sided_p,
    what_to_add,
)


def of(scores: list[float]) -> LineCounts:
    return of_line_scores("m", scores, "")


def p_of(first: LineCounts, second: LineCounts, trials: int, seed: int = SEED) -> float:
    return randomization_tests([(first, second)], trials, seed)[0]


def some_scores(n: int, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.random() for _ in range(n)]


@pytest.mark.parametrize("two_references", [False, True])
def test_scores_and_p_equal_sacrebleu(two_references: bool):
    """Both p-values are from 1,000 random trials and must agree up to 4 standard errors of their difference."""
    trials, correct = 1000, reference(60)
    streams = [correct, with_errors(correct, 0.2, 9)][: 1 + two_references]
    refs = list(zip(*streams, strict=True))
    systems = [with_errors(correct, rate, seed) for rate, seed in ((0.2, 1), (0.2, 2), (0.35, 3))]
    named = [(str(i), hyps) for i, hyps in enumerate(systems)]
    metrics = {metric: make_scorer(metric, refs) for metric in METRICS}
    _, expected = PairedTest(named, metrics, None, test_type="ar", n_samples=trials)()
    ps = []
    for metric in METRICS:
        counted = count_lines(metric, systems, refs)
        name = counted[0].metric.signature.partition("|")[0]
        assert [system.score() for system in counted] == pytest.approx([r.score for r in expected[name]], abs=1e-9)
        for other, result in zip(counted[1:], expected[name][1:], strict=True):
            p = p_of(counted[0], other, trials)
            mean = (p + result.p_value) / 2
            assert p == pytest.approx(result.p_value, abs=4 * sqrt(2 * mean * (1 - mean) / trials) + 1 / trials)
            ps.append(p)
    assert min(ps) < 0.01 and max(ps) > 0.2  # both ends were compared


def test_bootstrap_scores_equal_sacrebleu():
    correct = reference(60)
    systems = [with_errors(correct, 0.2, seed) for seed in (1, 2)]
    refs = list(zip(correct, strict=True))
    named = [*zip("ab", systems, strict=True)]
    _, expected = PairedTest(named, {"chrf": make_scorer("chrf", refs)}, None, "bs", 1000)()
    counted = count_lines("chrf", systems, refs)
    for system, scores, result in zip(counted, bootstrap_scores(counted, 1000), expected["chrF2"], strict=True):
        assert system.score() == pytest.approx(result.score, abs=1e-9)
        assert scores.mean() == pytest.approx(result.mean, abs=0.15)
        low, high = interval(scores)
        assert (high - low) / 2 == pytest.approx(result.ci, rel=0.1)


def test_p_of_few_lines_equals_exact_enumeration():
    """On five lines, each better by the same amount, two of the 32 exchanges are as large, so p is 1/16."""
    assert p_of(of([0.0] * 5), of([1.0] * 5), 20_000) == pytest.approx(1 / 16, abs=0.008)
    # six of eight better by one: exchanges with 6, 7 or 8, or 0, 1 or 2 on one side are as large
    p = p_of(of([0.0] * 6 + [1.0] * 2), of([1.0] * 6 + [0.0] * 2), 20_000)
    assert p == pytest.approx(2 * (comb(8, 6) + comb(8, 7) + 1) / 256, abs=0.015)


def test_randomization_p_is_two_sided_and_repeatable():
    rng = random.Random(5)
    first, second = ([rng.gauss(mean, 1) for _ in range(100)] for mean in (0, 0.3))
    p = p_of(of(first), of(second), 4000)
    assert p_of(of(first), of(second), 4000) == p_of(of(second), of(first), 4000) == p
    assert p_of(of(first), of(second), 4000, seed=1) != p
    differences = np.array(second) - np.array(first)
    z = abs(differences.mean()) / sqrt(float((differences**2).mean()) / 100)  # under the null hypothesis the mean is 0
    assert p == pytest.approx(2 * (1 - statistics.NormalDist().cdf(z)), abs=0.02)


def test_bootstrap_draws_the_same_lines_in_each_call():
    first, second = some_scores(30, seed=1), some_scores(30, seed=2)
    together = bootstrap_scores([of(first), of(second)], 200)
    assert (bootstrap_scores([of(second)], 200)[0] == together[1]).all()
    other_metric = LineCounts(of(first).metric, np.stack([np.array(second), np.ones(30)], 1))
    assert (bootstrap_scores([other_metric], 200)[0] == together[1]).all()
    assert not (bootstrap_scores([of(first)], 200, seed=6)[0] == together[0]).any()


@pytest.mark.parametrize(
    ("p", "corrected"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.2, 0.005, 0.011, 0.02, 0.6], [0.4, 0.025, 0.044, 0.06, 0.6]),
        ([0.5, 0.6], [1, 1]),
        ([0.03], [0.03]),
        ([], []),
    ],
)
def test_holm_correction_equals_values_computed_by_hand(p: list[float], corrected: list[float]):
    assert holm(p) == pytest.approx(corrected)


# --- Differences between groups of runs: variances against their definitions, and how often e ---


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


def test_variance_components_equal_analysis_of_variance():
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


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_standard_error_over_lines_equals_bootstrap(metric):
    correct = reference(150)
    systems = [with_errors(correct, rate, seed) for rate, seed in ((0.3, 1), (0.3, 2), (0.2, 3), (0.2, 4))]
    counted = count_lines(metric, systems, correct)
    test = seeds_and_lines(counted[:2], counted[2:])
    scores = bootstrap_scores(counted, 2000)
    assert test.line_error == pytest.approx((scores[2:].mean(0) - scores[:2].mean(0)).std(), rel=0.08)


@pytest.mark.parametrize(("seeds", "lines", "both"), [(0.0, 0.0, 2.0), (0.15, 2.0, 2.0), (1.0, 0.0, 0.1)])
def test_false_positive_rate_of_three_runs_is_five_percent(seeds: float, lines: float, both: float):
    """400 times: 5 % are 20 of them, 6 to 35 within 3.5 standard errors.

    With what varies with both counted twice it would be 0.1 % of the first case; by lines alone 20 to 100 %.
    """
    rng = np.random.default_rng(1)
    rejected = sum(seeds_and_lines(*groups(rng, (3, 3), seeds, lines, both)).p <= 0.05 for _ in range(400))
    assert 6 <= rejected <= 35


def test_advice_recommends_more_runs_or_more_lines():
    rng = np.random.default_rng(5)
    seeds = seeds_and_lines(*groups(rng, (3, 3), seeds=1, lines=1, both=0.1))
    assert what_to_add(seeds).startswith("more runs would help most: the interval is ±")
    assert seeds.half_width_of_twice_the_lines == pytest.approx(half_width(seeds), rel=0.05)
    assert seeds.half_width_of_twice_the_runs < 0.75 * half_width(seeds)
    assert seeds.half_width_of_twice_the_lines <= half_width(seeds)
    lines = seeds_and_lines(*groups(rng, (3, 3), seeds=0.01, lines=4, both=0.1))
    assert what_to_add(lines).startswith("more test lines would help most")
    assert lines.half_width_of_twice_the_lines == pytest.approx(half_width(lines) / math.sqrt(2), rel=0.03)
    assert f"twice the lines ±{lines.half_width_of_twice_the_lines:.2f}" in what_to_add(lines)
    alike = seeds_and_lines(*groups(rng, (12, 12), seeds=0.15, lines=0.7, both=2))
    assert what_to_add(alike).startswith("more runs or more test lines would help alike")


def test_seed_test_of_single_line_raises():
    one = of_line_scores("m", [0.5], "")
    with pytest.raises(DataError, match="one line"):
        seeds_and_lines([one] * 3, [one] * 3)


# --- Student's t distribution against published tables ---


# t of two-sided 95 % and 99 %
TABLE = {
    1: (12.706, 63.657), 2: (4.303, 9.925), 3: (3.182, 5.841), 4: (2.776, 4.604), 5: (2.571, 4.032),
    8: (2.306, 3.355), 10: (2.228, 3.169), 30: (2.042, 2.750), 120: (1.980, 2.617), math.inf: (1.960, 2.576),
}  # fmt: skip


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_equal_published_tables(freedom: float):
    for confidence, t in zip((0.95, 0.99), TABLE[freedom], strict=True):
        assert quantile(confidence, freedom) == pytest.approx(t, abs=6e-4)
        assert two_sided_p(quantile(confidence, freedom), freedom) == pytest.approx(1 - confidence, rel=1e-9)
