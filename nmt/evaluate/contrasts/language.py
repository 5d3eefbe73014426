"""What is known of a target language, and the changes that follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nmt.evaluate.contrasts import rewriting as general
from nmt.evaluate.contrasts.rewriting import Edit, Rule, exchanged, rewritten

Change = Callable[[str], Iterator[Edit]]
"""From a translation: all edits of a kind that make it wrong."""


@dataclass(frozen=True)
class Language:
    """Words and rules of a language; of most languages nothing is known."""

    numbers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For each number in words, other numbers."""
    conjunctions: str = ""
    """Words that a clause or the rest of a list may begin with, separated by `|`."""
    removals: Sequence[Rule] = ()
    """From negated to not negated."""
    insertions: Sequence[Rule] = ()
    """From not negated to negated."""
    negated: re.Pattern[str] | None = None
    """Found in a line that has a negation."""
    agreement: Mapping[str, Change] = field(default_factory=dict)
    """Further kinds of changes."""

    def changes(self) -> dict[str, Change]:
        """Return the kinds of changes of a translation, by name."""
        changes: dict[str, Change] = {"number": self._number, "clause dropped": self._clause}
        if self.negated is not None:
            changes |= {"negation removed": self._remove_negation, "negation inserted": self._insert_negation}
        return {**changes, **self.agreement}

    def _number(self, line: str) -> Iterator[Edit]:
        yield from general.digits(line)
        yield from exchanged(line, self.numbers)

    def _clause(self, line: str) -> Iterator[Edit]:
        return general.clauses(line, self.conjunctions)

    def _remove_negation(self, line: str) -> Iterator[Edit]:
        if "?" not in line:  # a negated question often asks the same as a plain one
            yield from rewritten(line, self.removals)

    def _insert_negation(self, line: str) -> Iterator[Edit]:
        if "?" not in line and self.negated is not None and not self.negated.search(line):
            yield from rewritten(line, self.insertions)
