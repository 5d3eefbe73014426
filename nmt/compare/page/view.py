"""What the page shows of a comparison: one system of each group, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nmt.compare.page.words import find_words
from nmt.compare.types import Comparison, Result, System
from nmt.console import printable_sentence
from nmt.significance.lines import Floats, LineCounts

Words = tuple[str, ...]


@dataclass(frozen=True)
class View:
    """A comparison, and the system whose translations are shown of each group."""

    comparison: Comparison
    shown: tuple[int, ...]
    """By group: the position of its system."""

    @property
    def baseline(self) -> int:
        """The position of the baseline among the groups."""
        return self.comparison.baseline

    @cached_property
    def others(self) -> list[int]:
        """The positions of the other groups."""
        return [number for number in range(len(self.names)) if number != self.baseline]

    @cached_property
    def names(self) -> list[str]:
        """The names of the groups."""
        return [group.name for group in self.comparison.groups]

    @cached_property
    def systems(self) -> list[System]:
        """The systems that are shown, by group."""
        return [group.systems[n] for group, n in zip(self.comparison.groups, self.shown, strict=True)]

    @cached_property
    def sources(self) -> list[str] | None:
        """The source of each line, with escapes for characters that would control the page, as all text here."""
        sources = self.comparison.text.sources
        return None if sources is None else [*map(printable_sentence, sources)]

    @cached_property
    def unescaped_references(self) -> list[str]:
        """The reference of each line; of several, the first."""
        return [ref if isinstance(ref, str) else ref[0] for ref in self.comparison.text.references]

    @cached_property
    def references(self) -> list[str]:
        """The same with escapes."""
        return [*map(printable_sentence, self.unescaped_references)]

    @cached_property
    def translations(self) -> list[list[str]]:
        """The translation of each line, by group."""
        return [[*map(printable_sentence, system.translations)] for system in self.systems]

    @cached_property
    def reference_words(self) -> list[Words]:
        """The words of each reference."""
        return [tuple(find_words(line)) for line in self.references]

    @cached_property
    def translation_words(self) -> list[list[Words]]:
        """The words of each translation, by group."""
        return [[tuple(find_words(line)) for line in lines] for lines in self.translations]

    @cached_property
    def by_line(self) -> Result:
        """The result whose scores of lines are drawn: chrF, if it was computed."""
        results = self.comparison.results
        return next((result for result in results if result.metric.name == "chrf"), results[0])

    def counts(self, result: Result) -> list[LineCounts]:
        """Return the counts of the systems that are shown, by group."""
        return [counts[n] for counts, n in zip(result.counts, self.shown, strict=True)]

    def line_scores(self, result: Result) -> Floats:
        """Return the scores (groups, L) of each line alone."""
        return np.stack([counts.line_scores() for counts in self.counts(result)])

    @cached_property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target, if they are known."""
        return self.comparison.text.languages or (None, None)

    @cached_property
    def gains(self) -> Floats:
        """How much better each group translates each line than the baseline, (groups, L)."""
        scores = self.line_scores(self.by_line)
        gains: Floats = scores - scores[self.baseline]
        return gains if self.by_line.metric.higher_is_better else -gains


def make_view(comparison: Comparison) -> View:
    """Choose a system of each group: the one whose score by the first metric is the median, or just below it."""
    first = comparison.results[0]
    return View(comparison, tuple(_median(score.by_system) for score in first.scores))


def _median(values: Sequence[float]) -> int:
    return sorted(range(len(values)), key=values.__getitem__)[(len(values) - 1) // 2]
