"""Comparison of systems: scores, differences from a baseline, and their significance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from nmt.evaluate.compare.systems import Comparison, Difference, Group, GroupScore, Result, TextToTranslate
from nmt.evaluate.line_statistics import Floats, LineCounts, count_lines, of_line_scores
from nmt.evaluate.metrics import METRICS, unspaced_notes
from nmt.evaluate.significance import (
    MIN_RUNS,
    SEED,
    TRIALS,
    bootstrap_scores,
    holm,
    interval,
    randomization_tests,
    seeds_and_lines,
    what_to_add,
)


def compare(
    text: TextToTranslate,
    groups: Sequence[Group],
    baseline: int = 0,
    *,
    lowercase: bool = False,
    tokenize: str | None = None,
    trials: int = TRIALS,
    seed: int = SEED,
) -> Comparison:
    """Compare groups of systems with a baseline by BLEU, chrF, TER and segment scores.

    All systems must have segment scores by the same metrics, for every line.

    Args:
        text: the test set.
        groups: the groups to compare.
        baseline: the position of the baseline among the groups.
        lowercase, tokenize: see `corpus_score`.
        trials: the number of bootstrap samples and of randomization trials.
        seed: the seed of both.

    Raises DataError as `corpus_score` does.
    """
    systems = [system for group in groups for system in group.systems]
    tgt_lang = text.languages[1] if text.languages else text.tgt_lang
    by_metric = [
        count_lines(metric, [system.translations for system in systems], text.references, tgt_lang, lowercase, tokenize)
        for metric in METRICS
    ]
    for name in systems[0].segment_scores:
        scores = [system.segment_scores[name] for system in systems]
        by_metric.append([of_line_scores(name, each.values, each.signature, each.higher_is_better) for each in scores])
    # lines are drawn once for all metrics, because that takes longest
    resampled = bootstrap_scores([*chain.from_iterable(by_metric)], trials, seed)
    p_values = _p_over_lines(by_metric, groups, baseline, trials, seed)
    results = tuple(
        _result(counts, scores, groups, baseline, p)
        for counts, scores, p in zip(by_metric, np.split(resampled, len(by_metric)), p_values, strict=True)
    )
    notes = *text.notes, *unspaced_notes(text.references, tgt_lang, tokenize), *_notes(groups)
    return Comparison(text, tuple(groups), baseline, results, trials, seed, notes)


class _Side(NamedTuple):
    """The scores of a group by one metric."""

    counts: tuple[LineCounts, ...]
    """The line counts of each system."""
    resampled: Floats
    """The group's score on resampled test sets, (S,)."""
    score: GroupScore


def _side(counts: Sequence[LineCounts], resampled: Floats) -> _Side:
    """Return the scores of a group from the counts of its systems and their scores on resampled test sets."""
    by_system, mean = tuple(system.score() for system in counts), resampled.mean(0)
    deviation = stdev(by_system) if len(by_system) > 1 else None
    return _Side(tuple(counts), mean, GroupScore(fmean(by_system), interval(mean), by_system, deviation))


def _p_over_lines(
    by_metric: Sequence[Sequence[LineCounts]], groups: Sequence[Group], baseline: int, trials: int, seed: int
) -> list[dict[int, float]]:
    """Test the differences of single systems over lines; return the p-values of each metric by group index."""
    if len(groups[baseline].systems) > 1:
        return [{} for _ in by_metric]
    starts = [0, *accumulate(len(group.systems) for group in groups)]
    single = [n for n, group in enumerate(groups) if n != baseline and len(group.systems) == 1]
    pairs = [(counts[starts[baseline]], counts[starts[n]]) for counts in by_metric for n in single]
    p = iter(randomization_tests(pairs, trials, seed))
    return [{n: next(p) for n in single} for _ in by_metric]


def _result(
    counts: Sequence[LineCounts],
    resampled: Floats,
    groups: Sequence[Group],
    baseline: int,
    p_over_lines: dict[int, float],
) -> Result:
    """Compare the groups by one metric.

    Args:
        counts: the line counts of each system.
        resampled: the score of each system on resampled test sets, (systems, S).
        groups: the groups that the systems belong to.
        baseline: the position of the baseline among the groups.
        p_over_lines: p by the position of the group, if the group and the baseline are single systems.
    """
    sides, start = [], 0
    for group in groups:
        end = start + len(group.systems)
        sides.append(_side(counts[start:end], resampled[start:end]))
        start = end
    differences = {
        position: _difference(sides[baseline], side, p_over_lines.get(position))
        for position, side in enumerate(sides)
        if position != baseline
    }
    p_values = {position: difference.p for position, difference in differences.items() if difference.p is not None}
    for position, corrected in zip(p_values, holm([*p_values.values()]), strict=True):
        differences[position] = replace(differences[position], p_holm=corrected)
    return Result(
        counts[0].metric,
        tuple(side.score for side in sides),
        tuple(map(differences.get, range(len(sides)))),
        tuple(side.counts for side in sides),
    )


def _difference(baseline: _Side, other: _Side, p_over_lines: float | None) -> Difference:
    """Return the difference of a group from the baseline, tested over lines and, with enough runs, over seeds."""
    sizes = len(baseline.counts), len(other.counts)
    value, resampled = other.score.value - baseline.score.value, other.resampled - baseline.resampled
    if min(sizes) >= MIN_RUNS:
        test = seeds_and_lines(baseline.counts, other.counts)
        return Difference(
            value, test.interval, test.p, None, test.line_error, test.seed_error, test.degrees_of_freedom,
            what_to_add(test),
        )  # fmt: skip
    seed_error = None
    if baseline.score.seed_deviation is not None and other.score.seed_deviation is not None:
        seed_error = math.hypot(
            baseline.score.seed_deviation / math.sqrt(sizes[0]), other.score.seed_deviation / math.sqrt(sizes[1])
        )
    return Difference(value, interval(resampled), p_over_lines, None, float(resampled.std()), seed_error, None, None)


def _notes(groups: Sequence[Group]) -> Iterator[str]:
    """Yield notes on the limits of the comparison."""
    smallest = min(len(group.systems) for group in groups)
    if smallest == 1:
        yield (
            "these tests reflect the choice of test lines only. Runs with other seeds may rank differently: train at "
            f"least {MIN_RUNS} runs of each system and compare them with --group"
        )
    elif smallest < MIN_RUNS:
        yield (
            f"groups of {smallest} are too small to estimate how much scores vary between seeds: there is no p, and "
            f"the intervals reflect the choice of test lines only; train at least {MIN_RUNS} runs of each system"
        )
