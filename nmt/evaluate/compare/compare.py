"""Comparison of systems by all metrics: scores, differences from the baseline, and their significance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from nmt.errors import DataError
from nmt.evaluate.compare.systems import Comparison, Difference, Group, GroupScore, Result, System, TextToTranslate
from nmt.evaluate.line_statistics import Floats, LineCounts, count_lines, of_line_scores
from nmt.evaluate.metrics import METRICS
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
    """Compare groups of systems with one of them, by BLEU, chrF, TER and the segment scores that all systems have.

    `lowercase` and `tokenize` are those of `corpus_score`; `trials` and `seed` those of the tests over lines.
    Raises DataError as `corpus_score` does.
    """
    systems = [system for group in groups for system in group.systems]
    tgt_lang = text.languages[1] if text.languages else None
    by_metric = [
        count_lines(metric, [system.translations for system in systems], text.references, tgt_lang, lowercase, tokenize)
        for metric in METRICS
    ]
    by_metric += _segment_scores(systems, len(text.references))
    # the lines are drawn once for all metrics, which takes longest
    resampled = bootstrap_scores([*chain.from_iterable(by_metric)], trials, seed)
    p_values = _p_over_lines(by_metric, groups, baseline, trials, seed)
    results = tuple(
        _result(counts, scores, groups, baseline, p)
        for counts, scores, p in zip(by_metric, np.split(resampled, len(by_metric)), p_values, strict=True)
    )
    return Comparison(text, tuple(groups), baseline, results, trials, seed, (*text.notes, *_notes(groups)))


def _segment_scores(systems: Sequence[System], n_lines: int) -> Iterator[list[LineCounts]]:
    """Yield the counts of each further metric for which all systems have scores."""
    for name in systems[0].segment_scores:
        scores = [system.segment_scores[name] for system in systems if name in system.segment_scores]
        if len(scores) < len(systems):
            continue
        if {len(each.values) for each in scores} != {n_lines}:
            raise DataError(f"{name}: its scores and the {n_lines:,} references must pair line by line")
        if len({each.signature for each in scores}) > 1:
            raise DataError(f"{name}: its scores of {systems[0].name} have another signature than those of others")
        yield [of_line_scores(name, each.values, each.signature, each.higher_is_better) for each in scores]


class _Side(NamedTuple):
    """A group by one metric."""

    counts: tuple[LineCounts, ...]
    """Of each system."""
    resampled: Floats
    """The group's score on resampled test sets."""
    score: GroupScore


def _side(counts: Sequence[LineCounts], resampled: Floats) -> _Side:
    """Return a group's side from the scores of its systems on resampled test sets, (systems, S)."""
    by_system, mean = tuple(system.score() for system in counts), resampled.mean(0)
    deviation = stdev(by_system) if len(by_system) > 1 else None
    return _Side(tuple(counts), mean, GroupScore(fmean(by_system), interval(mean), by_system, deviation))


def _p_over_lines(
    by_metric: Sequence[Sequence[LineCounts]], groups: Sequence[Group], baseline: int, trials: int, seed: int
) -> list[dict[int, float]]:
    """Test the differences of single systems over lines; return p of each metric by the position of the group."""
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
        counts: of each system.
        resampled: the scores of each on resampled test sets.
        p_over_lines: by the position of a group, where both it and the baseline are single systems.
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
    """Return a difference with its test over lines or, if both groups have enough runs, over lines and seeds."""
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
            "these tests are about the choice of test lines. They cannot say whether another training with another "
            f"seed would give the same order: train at least {MIN_RUNS} of each and compare them with --group"
        )
    elif smallest < MIN_RUNS:
        yield (
            f"groups of {smallest} are too few to tell how much scores vary between seeds: there is no p, and the "
            f"intervals reflect the choice of test lines only; train at least {MIN_RUNS} of each"
        )
