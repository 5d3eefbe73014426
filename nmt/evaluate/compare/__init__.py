"""Comparison of systems: scores, differences from a baseline, and their significance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean, stdev

import numpy as np

from nmt.evaluate.compare.systems import Group, TextToTranslate, all_systems
from nmt.evaluate.metrics import (
    METRICS,
    Floats,
    LineCounts,
    Metric,
    MetricName,
    count_lines,
    few_four_grams,
    of_line_scores,
    unspaced_notes,
)
from nmt.evaluate.significance import (
    MIN_RUNS,
    TRIALS,
    Interval,
    bootstrap_scores,
    holm,
    interval,
    randomization_tests,
    seeds_and_lines,
    what_to_add,
)


@dataclass(frozen=True)
class GroupScore:
    """The score of a group by a metric: the mean over its systems."""

    value: float
    interval: Interval
    """95 % interval of the score on other lines of the same kind."""
    by_system: tuple[float, ...]
    seed_deviation: float | None
    """Standard deviation over the systems; None for a single system."""


@dataclass(frozen=True)
class Difference:
    """The score of a group minus the score of the baseline."""

    value: float
    interval: Interval
    """95 % interval over lines, or over lines and seeds if both groups have at least three systems."""
    p: float | None
    """Two-sided p-value: by approximate randomization over lines for single systems, by the t distribution over lines
    and seeds for groups of at least three; otherwise None."""
    p_holm: float | None
    """The p-value corrected for the number of comparisons with the baseline (Holm, 1979)."""
    line_error: float
    """Standard error over lines."""
    seed_error: float | None
    """Standard error over seeds; None unless both groups have several systems."""
    degrees_of_freedom: float | None = None
    """The degrees of freedom of the t distribution; None if it was not used."""
    advice: str | None = None
    """Advice on whether more runs or more lines would make the interval narrower; None if p is not over seeds."""


@dataclass(frozen=True)
class Entry:
    """The results of a group by one metric."""

    group: Group
    score: GroupScore
    difference: Difference | None = None
    """The difference from the baseline; None for the baseline."""
    counts: tuple[LineCounts, ...] = field(default=(), repr=False)
    """The line counts of each system, with which the page scores parts of the test set."""
    resampled: Floats = field(default_factory=lambda: np.zeros(0), repr=False)
    """The group's score on resampled test sets, (S,)."""


@dataclass(frozen=True)
class MetricResult:
    """The results of a comparison by one metric."""

    metric: Metric
    entries: tuple[Entry, ...]
    """The results of each group."""
    caution: str | None = None
    """Why the metric says little about these references; None if it says enough."""

    @property
    def scores(self) -> tuple[GroupScore, ...]:
        """The score of each group."""
        return tuple(entry.score for entry in self.entries)

    @property
    def differences(self) -> tuple[Difference | None, ...]:
        """The difference of each group from the baseline; None for the baseline."""
        return tuple(entry.difference for entry in self.entries)


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison by all metrics."""

    text: TextToTranslate
    groups: tuple[Group, ...]
    baseline: int
    """The position of the baseline among the groups."""
    results: tuple[MetricResult, ...]
    trials: int
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as the limits of a comparison of single runs."""


def compare(
    text: TextToTranslate,
    groups: Sequence[Group],
    baseline: int = 0,
    *,
    lowercase: bool = False,
    tokenize: str | None = None,
    trials: int = TRIALS,
    metrics: Sequence[MetricName] = METRICS,
) -> Comparison:
    """Compare groups of systems with a baseline by the given metrics and by segment scores.

    All systems must have segment scores by the same metrics, for every line.

    Args:
        text: the test set.
        groups: the groups to compare.
        baseline: the position of the baseline among the groups.
        lowercase, tokenize: see `corpus_score`.
        trials: the number of bootstrap samples and of randomization trials.

    Raises DataError as `corpus_score` does.
    """
    systems = all_systems(groups)
    translations = [system.translations for system in systems]
    tgt_lang = text.languages[1] if text.languages else text.tgt_lang
    by_metric = [
        count_lines(metric, translations, text.references, tgt_lang, lowercase, tokenize) for metric in metrics
    ]
    for name in systems[0].segment_scores:
        scores = [system.segment_scores[name] for system in systems]
        by_metric.append([of_line_scores(name, s.values, s.signature, s.higher_is_better) for s in scores])
    # lines are drawn once for all metrics, because that takes longest
    resampled = np.split(bootstrap_scores([*chain.from_iterable(by_metric)], trials), len(by_metric))
    results = []
    for counts, of_systems in zip(by_metric, resampled, strict=True):
        entries = []
        start = 0
        for group in groups:
            end = start + len(group.systems)
            entries.append(_entry(group, counts[start:end], of_systems[start:end]))
            start = end
        metric = counts[0].metric
        caution = few_four_grams(text.references, tgt_lang, tokenize) if metric.name == "bleu" else None
        results.append(MetricResult(metric, tuple(entries), caution))
    tested = _p_over_lines(results, baseline, trials)
    results = [_with_differences(result, baseline, p_values) for result, p_values in zip(results, tested, strict=True)]
    of_bleu = unspaced_notes(text.references, tgt_lang, tokenize) if "bleu" in metrics else ()
    return Comparison(text, tuple(groups), baseline, tuple(results), trials, (*text.notes, *of_bleu, *_notes(groups)))


def _entry(group: Group, counts: Sequence[LineCounts], resampled: Floats) -> Entry:
    """Return the scores of a group from the counts of its systems and their scores on resampled test sets."""
    by_system = tuple(system.score() for system in counts)
    mean = resampled.mean(0)
    deviation = stdev(by_system) if len(by_system) > 1 else None
    score = GroupScore(fmean(by_system), interval(mean), by_system, deviation)
    return Entry(group, score, counts=tuple(counts), resampled=mean)


def _p_over_lines(results: Sequence[MetricResult], baseline: int, trials: int) -> list[dict[int, float]]:
    """Test the differences of single systems over lines; return the p-values of each metric by group index."""
    sizes = [len(entry.counts) for entry in results[0].entries]
    if sizes[baseline] > 1:
        return [{} for _ in results]
    single = [position for position, size in enumerate(sizes) if position != baseline and size == 1]
    pairs = []
    for result in results:
        (baseline_counts,) = result.entries[baseline].counts
        pairs += [(baseline_counts, result.entries[position].counts[0]) for position in single]
    p_values = iter(randomization_tests(pairs, trials))
    return [{position: next(p_values) for position in single} for _ in results]


def _with_differences(result: MetricResult, baseline: int, p_over_lines: dict[int, float]) -> MetricResult:
    """Compare the groups by one metric. p_over_lines: p by the position of a group, if single systems are compared."""
    differences = {}
    p_values = {}
    for position, entry in enumerate(result.entries):
        if position == baseline:
            continue
        difference = _difference(result.entries[baseline], entry, p_over_lines.get(position))
        differences[position] = difference
        if difference.p is not None:
            p_values[position] = difference.p
    for position, corrected in zip(p_values, holm([*p_values.values()]), strict=True):
        differences[position] = replace(differences[position], p_holm=corrected)
    entries = [replace(entry, difference=differences.get(n)) for n, entry in enumerate(result.entries)]
    return replace(result, entries=tuple(entries))


def _difference(baseline: Entry, other: Entry, p_over_lines: float | None) -> Difference:
    """Return the difference of a group from the baseline, tested over lines and, with enough runs, over seeds."""
    sizes = len(baseline.counts), len(other.counts)
    value = other.score.value - baseline.score.value
    if min(sizes) >= MIN_RUNS:
        test = seeds_and_lines(baseline.counts, other.counts)
        return Difference(
            value, test.interval, test.p, None, test.line_error, test.seed_error, test.degrees_of_freedom,
            what_to_add(test),
        )  # fmt: skip
    resampled = other.resampled - baseline.resampled
    seed_error = None
    if baseline.score.seed_deviation is not None and other.score.seed_deviation is not None:
        seed_error = math.hypot(
            baseline.score.seed_deviation / math.sqrt(sizes[0]), other.score.seed_deviation / math.sqrt(sizes[1])
        )
    return Difference(value, interval(resampled), p_over_lines, None, float(resampled.std()), seed_error)


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
