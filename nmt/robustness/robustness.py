"""Translate a text as it is and changed, and compare the translations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nmt.errors import DataError
from nmt.evaluate.metrics import MetricName
from nmt.robustness.changes import changed_line
from nmt.robustness.signs import Signs, count_signs
from nmt.significance.lines import Floats, LineCounts, count_lines
from nmt.significance.paired import Interval, bootstrap_scores, interval

SCORES: tuple[MetricName, ...] = ("chrf", "bleu")
SAMPLES = 1000
"""Of the bootstrap."""

Translate = Callable[[Sequence[str], Sequence[int]], Sequence[str]]
"""From lines, and the numbers of the lines that they were made of, to their translations."""


@dataclass(frozen=True)
class Text:
    """A test set."""

    name: str
    """The split, or the file of references."""
    sources: Sequence[str]
    references: Sequence[str]
    languages: tuple[str, str]
    """Source and target."""
    numbers: Sequence[int]
    """Of the lines, from 1."""

    def sampled(self, n: int) -> Text:
        """Return a text of at most `n` lines, spread evenly over this one."""
        total = len(self.sources)
        rows = sorted({i * total // n for i in range(n)})
        return replace(
            self,
            sources=[self.sources[row] for row in rows],
            references=[self.references[row] for row in rows],
            numbers=[self.numbers[row] for row in rows],
        )


@dataclass(frozen=True)
class Plan:
    """What is changed."""

    changes: Sequence[str]
    rates: Sequence[float]
    """In percent."""
    seed: int


@dataclass(frozen=True)
class Variant:
    """The sources as they are, or with a kind of change at a rate."""

    change: str | None
    rate: float
    """In percent."""
    sources: Sequence[str]

    @property
    def name(self) -> str:
        """The name of its files."""
        return "original" if self.change is None else f"{self.change}-{self.rate:g}"


@dataclass(frozen=True)
class Row:
    """How a variant was translated."""

    change: str | None
    rate: float
    """In percent."""
    n_changed: int
    """Lines that differ from the original."""
    chrf: float
    chrf_kept: float | None
    """Percent of the chrF of the original; None if that is 0."""
    chrf_kept_interval: Interval | None
    """Over lines: how much would be kept of other lines of the same kind."""
    bleu: float
    consistency: float
    """chrF between the translations of the original and of the variant: harmonic mean of both directions."""
    signs: Signs


@dataclass(frozen=True)
class Measured:
    """All variants with their translations; the original is the first."""

    variants: Sequence[Variant]
    translations: Sequence[Sequence[str]]
    rows: Sequence[Row]
    signatures: tuple[str, str]
    """Of chrF and BLEU."""


def make_variants(text: Text, plan: Plan) -> list[Variant]:
    """Return the original and each change at each rate, but for changes without any effect on the text.

    Raises DataError if no change has one.
    """
    variants, shares = [Variant(None, 0.0, text.sources)], [rate / 100 for rate in plan.rates]
    for change in plan.changes:
        # the rate 1 changes all places
        lines = [changed_line(line, text.languages[0], change, [*shares, 1.0], plan.seed) for line in text.sources]
        *by_rate, everywhere = zip(*lines, strict=True)
        if everywhere != tuple(text.sources):
            variants += [Variant(change, rate, sources) for rate, sources in zip(plan.rates, by_rate, strict=True)]
    if len(variants) == 1:
        raise DataError(f"{text.name}: {', '.join(plan.changes)} would change nothing in {len(text.sources):,} lines")
    return variants


def measure(text: Text, variants: Sequence[Variant], translate: Translate) -> Measured:
    """Translate each distinct line once and score all variants, of which the first is the original."""
    distinct: dict[str, int] = {}  # the original ones first
    for variant in variants:
        for line, number in zip(variant.sources, text.numbers, strict=True):
            distinct.setdefault(line, number)
    translated = dict(zip(distinct, translate(list(distinct), list(distinct.values())), strict=True))
    translations = [[translated[line] for line in variant.sources] for variant in variants]
    chrf, bleu = (_counted(metric, translations, text.references, text.languages[1]) for metric in SCORES)
    between = _both_ways(_counted("chrf", translations, translations[0], text.languages[1]))
    scores = [of_text.score() for of_text in chrf]
    rows = [
        Row(
            variant.change,
            variant.rate,
            n_changed=sum(map(str.__ne__, variant.sources, text.sources)),
            chrf=scores[number],
            chrf_kept=100 * scores[number] / scores[0] if scores[0] else None,
            chrf_kept_interval=kept,
            bleu=bleu[number].score(),
            consistency=float(between[number]),
            signs=count_signs(variant.sources, translations[number], text.references, text.languages),
        )
        for number, (variant, kept) in enumerate(zip(variants, _kept(chrf), strict=True))
    ]
    return Measured(variants, translations, rows, (chrf[0].metric.signature, bleu[0].metric.signature))


def _counted(
    metric: MetricName, translations: Sequence[Sequence[str]], references: Sequence[str], language: str
) -> list[LineCounts]:
    """Return what each line of each text contributes to a score. Each distinct pair is counted once."""
    places: dict[tuple[str, str], int] = {}
    rows = [
        [places.setdefault(pair, len(places)) for pair in zip(lines, references, strict=True)] for lines in translations
    ]
    (lines,) = count_lines(metric, [[line for line, _ in places]], [reference for _, reference in places], language)
    return [LineCounts(lines.metric, lines.counts[of_text]) for of_text in rows]


def _kept(chrf: Sequence[LineCounts]) -> list[Interval | None]:
    """Return the intervals of the percent of the chrF of the first text, by paired bootstrap over lines."""
    original, *_ = scores = bootstrap_scores(chrf, SAMPLES)
    usable = original > 0
    if not usable.any():
        return [None] * len(chrf)
    return [interval(100 * of_text[usable] / original[usable]) for of_text in scores]


def _both_ways(chrf: Sequence[LineCounts]) -> Floats:
    """Return the harmonic mean of chrF and of chrF with translations and references exchanged, of each text."""
    sums = np.stack([of_text.counts.sum(0) for of_text in chrf])
    n_grams = sums.reshape(len(sums), -1, 3)  # of translation, reference, and both
    one, other = chrf[0].scores(sums), chrf[0].scores(n_grams[:, :, [1, 0, 2]].reshape(sums.shape))
    return 2 * one * other / np.maximum(one + other, np.finfo(float).tiny)
