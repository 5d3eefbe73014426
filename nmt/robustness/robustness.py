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

SCORES: tuple[MetricName, ...] = ("chrf", "bleu")

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
    chrf, bleu = (_summed(metric, translations, text.references, text.languages[1]) for metric in SCORES)
    between = _both_ways(_summed("chrf", translations, translations[0], text.languages[1]))
    original = chrf.line_scores()[0]
    rows = [
        Row(
            variant.change,
            variant.rate,
            n_changed=sum(map(str.__ne__, variant.sources, text.sources)),
            chrf=float(of_chrf),
            chrf_kept=float(100 * of_chrf / original) if original else None,
            bleu=float(of_bleu),
            consistency=float(consistency),
            signs=count_signs(variant.sources, lines, text.references, text.languages),
        )
        for variant, lines, of_chrf, of_bleu, consistency in zip(
            variants, translations, chrf.line_scores(), bleu.line_scores(), between, strict=True
        )
    ]
    return Measured(variants, translations, rows, (chrf.metric.signature, bleu.metric.signature))


def _summed(
    metric: MetricName, translations: Sequence[Sequence[str]], references: Sequence[str], language: str
) -> LineCounts:
    """Return what each text, rather than each line, contributes to a score. Each distinct pair is counted once."""
    places: dict[tuple[str, str], int] = {}
    rows = [
        [places.setdefault(pair, len(places)) for pair in zip(lines, references, strict=True)] for lines in translations
    ]
    (lines,) = count_lines(metric, [[line for line, _ in places]], [reference for _, reference in places], language)
    return LineCounts(lines.metric, np.stack([lines.counts[of_text].sum(0) for of_text in rows]))


def _both_ways(chrf: LineCounts) -> Floats:
    """Return the harmonic mean of chrF and of chrF with translations and references exchanged."""
    n_grams = chrf.counts.reshape(len(chrf.counts), -1, 3)  # of translation, reference, and both
    one, other = chrf.line_scores(), chrf.scores(n_grams[:, :, [1, 0, 2]].reshape(chrf.counts.shape))
    return 2 * one * other / np.maximum(one + other, np.finfo(float).tiny)
