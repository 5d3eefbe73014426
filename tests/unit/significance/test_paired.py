"""Tests over lines: beside sacrebleu's, beside theory, and what they do in extreme cases."""

from __future__ import annotations

import random
import statistics
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest

import nmt.evaluate.significance
from made_systems import reference, with_errors
from nmt.evaluate.line_statistics import LineCounts, count_lines, of_line_scores
from nmt.evaluate.metrics import METRICS, make_scorer
from nmt.evaluate.significance import (
    approximate_randomization,
    bootstrap_scores,
    holm,
    interval,
)


def of(scores: list[float]) -> LineCounts:
    return of_line_scores("m", scores, "")


def some_scores(n: int, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.random() for _ in range(n)]


@pytest.mark.parametrize("two_references", [False, True])
def test_scores_and_p_equal_sacrebleu(two_references: bool):
    """Both p are from 1,000 random trials, so they agree up to chance: 4 standard errors of their difference."""
    trials, correct = 1000, reference(60)
    streams = [correct, with_errors(correct, 0.2, 9)][: 1 + two_references]
    refs = list(zip(*streams, strict=True))
    systems = [with_errors(correct, rate, seed) for rate, seed in ((0.2, 1), (0.2, 2), (0.35, 3))]
    named = [(str(i), hyps) for i, hyps in enumerate(systems)]
    metrics = {metric: make_scorer(metric, refs) for metric in METRICS}
    _, expected = PairedTest(named, metrics, None, test_type="ar", n_samples=trials)()
    ps = []
    for metric, name in zip(METRICS, ("BLEU", "chrF2", "TER"), strict=True):
        counted = count_lines(metric, systems, refs)
        assert [system.score() for system in counted] == pytest.approx([r.score for r in expected[name]], abs=1e-9)
        for other, result in zip(counted[1:], expected[name][1:], strict=True):
            p = approximate_randomization(counted[0], other, trials)
            mean = (p + result.p_value) / 2
            assert p == pytest.approx(result.p_value, abs=4 * sqrt(2 * mean * (1 - mean) / trials) + 1 / trials)
            ps.append(p)
    assert min(ps) < 0.01 and max(ps) > 0.2  # both ends were compared


def test_bootstrap_scores_equal_sacrebleu():
    correct = reference(60)
    systems = [with_errors(correct, 0.2, seed) for seed in (1, 2)]
    refs = list(zip(correct, strict=True))
    _, expected = PairedTest(
        [("a", systems[0]), ("b", systems[1])], {"chrf": make_scorer("chrf", refs)}, None, "bs", 1000
    )()
    counted = count_lines("chrf", systems, refs)
    resampled = bootstrap_scores(counted, 1000)
    for system, scores, result in zip(counted, resampled, expected["chrF2"], strict=True):
        assert system.score() == pytest.approx(result.score, abs=1e-9)
        assert scores.mean() == pytest.approx(result.mean, abs=0.15)
        low, high = interval(scores)
        assert (high - low) / 2 == pytest.approx(result.ci, rel=0.1)


def test_exact_p_of_few_lines():
    """Five lines, all better by the same: of 32 exchanges two are as large, so p is 1/16."""
    p = approximate_randomization(of([0.0] * 5), of([1.0] * 5), 20_000)
    assert p == pytest.approx(1 / 16, abs=0.008)
    # six of eight better by one: exchanges with 6, 7 or 8, or 0, 1 or 2 on one side are as large
    p = approximate_randomization(of([0.0] * 6 + [1.0] * 2), of([1.0] * 6 + [0.0] * 2), 20_000)
    assert p == pytest.approx(2 * (comb(8, 6) + comb(8, 7) + 1) / 256, abs=0.015)


def test_equal_systems_do_not_differ():
    scores = some_scores(50, seed=3)
    assert approximate_randomization(of(scores), of(scores), 500) == 1
    shifted = [*scores[:7], scores[7] + 0.5, *scores[8:]]  # one line says nothing
    assert approximate_randomization(of(scores), of(shifted), 500) == 1


def test_p_is_two_sided_and_repeatable():
    rng = random.Random(5)
    first, second = ([rng.gauss(mean, 1) for _ in range(100)] for mean in (0, 0.3))
    p = approximate_randomization(of(first), of(second), 4000)
    assert approximate_randomization(of(first), of(second), 4000) == p
    assert approximate_randomization(of(second), of(first), 4000) == p
    assert approximate_randomization(of(first), of(second), 4000, seed=1) != p
    differences = np.array(second) - np.array(first)
    z = abs(differences.mean()) / sqrt(float((differences**2).mean()) / 100)  # under the null hypothesis the mean is 0
    assert p == pytest.approx(2 * (1 - statistics.NormalDist().cdf(z)), abs=0.02)


def test_smallest_p_is_one_over_trials():
    assert approximate_randomization(of([0.0] * 200), of([1.0] * 200), 99) == pytest.approx(0.01)


def test_bootstrap_interval_of_mean_is_normal():
    rng = random.Random(7)
    first = [rng.gauss(0, 2) for _ in range(400)]
    second = [score + rng.gauss(0.1, 0.5) for score in first]
    low_of_first, high_of_first = interval(bootstrap_scores([of(first)], 4000)[0])
    expected = 1.96 * statistics.pstdev(first) / 20
    assert (high_of_first - low_of_first) / 2 == pytest.approx(expected, rel=0.06)
    assert (high_of_first + low_of_first) / 2 == pytest.approx(statistics.fmean(first), abs=0.1 * expected)
    scores = bootstrap_scores([of(first), of(second)], 4000)  # the same lines: most of the variance cancels out
    low, high = interval(scores[1] - scores[0])
    pairs = zip(first, second, strict=True)
    assert (high - low) / 2 == pytest.approx(1.96 * statistics.pstdev(b - a for a, b in pairs) / 20, rel=0.06)


def test_bootstrap_draws_the_same_lines_in_each_call():
    first, second = some_scores(30, seed=1), some_scores(30, seed=2)
    together = bootstrap_scores([of(first), of(second)], 200)
    assert (bootstrap_scores([of(second)], 200)[0] == together[1]).all()
    other_metric = LineCounts(of(first).metric, np.stack([np.array(second), np.ones(30)], 1))
    assert (bootstrap_scores([other_metric], 200)[0] == together[1]).all()
    assert not (bootstrap_scores([of(first)], 200, seed=6)[0] == together[0]).any()


def test_results_do_not_depend_on_chunk_size(monkeypatch: pytest.MonkeyPatch):
    first, second = some_scores(32, seed=1), some_scores(32, seed=2)
    p, scores = approximate_randomization(of(first), of(second), 300), bootstrap_scores([of(first)], 300)
    monkeypatch.setattr(nmt.evaluate.significance, "_CHUNK", 32 * 7)
    assert bootstrap_scores([of(first)], 300).shape == (1, 300)
    assert bootstrap_scores([of(first)], 300) == pytest.approx(scores)
    assert approximate_randomization(of(first), of(second), 300) == pytest.approx(p, abs=0.1)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.2, 0.005, 0.011, 0.02, 0.6]) == pytest.approx([0.4, 0.025, 0.044, 0.06, 0.6])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=6))
def test_holm_never_lowers_p_and_keeps_order(ps: list[float]):
    corrected = holm(ps)
    assert all(p <= q <= min(1, len(ps) * p) for p, q in zip(ps, corrected, strict=True))
    order = sorted(range(len(ps)), key=ps.__getitem__)
    assert [corrected[i] for i in order] == sorted(corrected)
