"""Comparison of single systems and of groups: scores, differences, intervals and p."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from nmt.evaluate.comet import SegmentScores
from nmt.evaluate.compare import compare
from nmt.evaluate.compare.systems import Group, System, TextToTranslate
from nmt.evaluate.metrics import METRICS, corpus_score, count_lines
from nmt.evaluate.significance import (
    bootstrap_scores,
    holm,
    interval,
    randomization_tests,
    seeds_and_lines,
    what_to_add,
)
from tiny_run import words

WORDS = words(60)
TRIALS = 200


def made_up(name: str, errors: float, seed: int = 0) -> System:
    """Return a system in which a share of the words of the references is replaced."""
    rng = random.Random(f"{name} {seed}")
    return System(name, tuple(
        " ".join(rng.choice(WORDS) if rng.random() < errors else word for word in line.split()) for line in REFS
    ))  # fmt: skip


_rng = random.Random(1)
REFS = [" ".join(_rng.choices(WORDS, k=_rng.randint(4, 8))) for _ in range(40)]
TEXT = TextToTranslate("made-up", tuple(REFS))
GOOD, FAIR, BAD = made_up("good", 0.1), made_up("fair", 0.3), made_up("bad", 0.5)


def alone(*systems: System) -> list[Group]:
    return [Group(system.name, (system,)) for system in systems]


def group(name: str, errors: float, n: int) -> Group:
    return Group(name, tuple(made_up(f"{name}-{seed}", errors, seed) for seed in range(n)))


def test_single_systems_have_corrected_p_over_lines() -> None:
    comparison = compare(TEXT, alone(FAIR, GOOD, BAD), baseline=1, trials=TRIALS)
    assert [result.metric.name for result in comparison.results] == [*METRICS]
    for result, metric in zip(comparison.results, METRICS, strict=True):
        systems = [system.translations for system in (FAIR, GOOD, BAD)]
        counts = count_lines(metric, systems, REFS)
        resampled = bootstrap_scores(counts, TRIALS)
        p = [randomization_tests([(counts[1], counts[i])], TRIALS)[0] for i in (0, 2)]
        assert result.entries[1].difference is None
        for i, corrected in zip((0, 2), holm(p), strict=True):
            assert result.entries[i].score.value == pytest.approx(corpus_score(metric, systems[i], REFS).value)
            assert result.entries[i].score.interval == interval(resampled[i])
            assert result.entries[i].score.seed_deviation is None
            difference = result.entries[i].difference
            assert difference is not None
            assert difference.value == result.entries[i].score.value - result.entries[1].score.value
            assert difference.interval == interval(resampled[i] - resampled[1])
            assert (difference.p, difference.p_holm) == (p[i // 2], corrected)
            assert difference.line_error == pytest.approx((resampled[i] - resampled[1]).std())
            assert difference.seed_error is difference.degrees_of_freedom is difference.advice is None
    assert (comparison.baseline, comparison.trials) == (1, TRIALS)
    assert len(comparison.notes) == 1 and "test lines only" in comparison.notes[0]


def test_groups_of_three_are_tested_over_seeds_and_lines() -> None:
    plain, better = group("plain", 0.3, 3), group("better", 0.2, 4)
    comparison = compare(TEXT, [plain, better], trials=TRIALS)
    for result in comparison.results:
        counts = [entry.counts for entry in result.entries]
        assert [len(of_group) for of_group in counts] == [3, 4]
        test = seeds_and_lines(counts[0], counts[1])
        difference, score = result.entries[1].difference, result.entries[1].score
        assert difference is not None
        assert difference.value == pytest.approx(test.value)
        assert (difference.interval, difference.p, difference.p_holm) == (test.interval, test.p, test.p)
        assert (difference.line_error, difference.seed_error) == (test.line_error, test.seed_error)
        assert (difference.degrees_of_freedom, difference.advice) == (test.degrees_of_freedom, what_to_add(test))
        assert score.by_system == tuple(system.score() for system in counts[1])
        mean = sum(score.by_system) / 4
        assert score.value == pytest.approx(mean)
        assert score.seed_deviation == pytest.approx((sum((each - mean) ** 2 for each in score.by_system) / 3) ** 0.5)
        assert score.interval == interval(sum(bootstrap_scores(counts[1], TRIALS)) / 4)  # type: ignore[arg-type]
    assert comparison.notes == ()


def test_groups_of_two_have_no_p() -> None:
    comparison = compare(TEXT, [group("plain", 0.3, 2), group("better", 0.2, 3)], trials=TRIALS)
    difference = comparison.results[0].entries[1].difference
    assert difference is not None
    assert difference.p is difference.p_holm is difference.degrees_of_freedom is None
    deviations = [entry.score.seed_deviation for entry in comparison.results[0].entries]
    assert None not in deviations
    assert difference.seed_error == pytest.approx((deviations[0] ** 2 / 2 + deviations[1] ** 2 / 3) ** 0.5)  # type: ignore[operator]
    assert difference.interval.low < difference.value < difference.interval.high
    assert len(comparison.notes) == 1 and comparison.notes[0].startswith("groups of 2 are too small")


def test_only_chosen_metrics_are_compared() -> None:
    (result,) = compare(TEXT, alone(FAIR, GOOD), trials=10, metrics=["chrf++"]).results
    assert (result.metric.name, result.metric.formula, result.caution) == ("chrf++", "chrf", None)
    assert result.entries[1].score.value == pytest.approx(corpus_score("chrf++", GOOD.translations, REFS).value)


def test_bleu_says_little_about_references_without_four_words() -> None:
    text = TextToTranslate("terms", tuple(line.split()[0] for line in REFS))
    groups = alone(*(System(s.name, tuple(line.split()[0] for line in s.translations)) for s in (FAIR, GOOD)))
    bleu, *others = compare(text, groups, trials=10).results
    assert bleu.caution is not None and {result.caution for result in others} == {None}
    assert compare(TEXT, alone(FAIR, GOOD), trials=10).results[0].caution is None


def scored(system: System, *values: float, signature: str = "comet|1") -> System:
    return replace(system, segment_scores={"comet": SegmentScores(values, signature, higher_is_better=False)})


def test_segment_scores_of_all_systems_are_compared() -> None:
    high, low = [0.9] * len(REFS), [0.5, 0.7] * (len(REFS) // 2)
    comparison = compare(TEXT, alone(scored(FAIR, *high), scored(GOOD, *low)), trials=TRIALS)
    result = comparison.results[-1]
    assert vars(result.metric) == {
        "name": "comet",
        "formula": "mean",
        "signature": "comet|1",
        "higher_is_better": False,
    }
    assert [entry.score.value for entry in result.entries] == [pytest.approx(0.9), pytest.approx(0.6)]
