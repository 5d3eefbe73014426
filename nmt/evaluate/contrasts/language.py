"""What is known of a target language, the changes that follow from it, and those of any language."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nmt.text.words import UNSPACED

WORD = re.compile(r"[^\W\d_]+")


class Edit(NamedTuple):
    """Other text in place of some characters of a line."""

    start: int
    end: int
    text: str

    def apply(self, line: str) -> str:
        """Return the changed line."""
        return line[: self.start] + self.text + line[self.end :]


Rule = tuple[re.Pattern[str], str]
"""A pattern and what replaces a match; groups as in `re.Match.expand`."""


def rule(pattern: str, replacement: str, ignore_case: bool = True) -> Rule:
    """Return a rule; a typewriter apostrophe in its pattern, outside classes, stands for a typographic one, too."""
    return re.compile(pattern.replace("'", "['’]"), re.IGNORECASE if ignore_case else 0), replacement


def not_after(words: str) -> str:
    """Return a pattern that matches unless one of these words (separated by spaces) and a space precede."""
    return "".join(rf"(?<!\b(?i:{word}) )" for word in words.split())


def rewritten(line: str, rules: Sequence[Rule]) -> Iterator[Edit]:
    """Yield an edit for each match of each rule."""
    for pattern, replacement in rules:
        for match in pattern.finditer(line):
            yield replaced(line, match, match.expand(replacement))


def exchanged(line: str, table: Mapping[str, Sequence[str]]) -> Iterator[Edit]:
    """Yield edits that exchange one word, for each word in `table`, as it stands or in lower case, by its
    alternatives."""
    for match in WORD.finditer(line):
        for word in table.get(match[0].lower()) or table.get(match[0], ()):
            yield replaced(line, match, word.upper() if len(match[0]) > 1 and match[0].isupper() else word)


def replaced(line: str, match: re.Match[str], by: str) -> Edit:
    """Return the edit that replaces a match; the replacement is capitalised if the match was."""
    end = match.end()
    if match[0][:1].isupper():
        if not by:
            by, end = line[end : end + 1], end + 1
        by = by[:1].upper() + by[1:]
    return Edit(match.start(), end, by)


def alternatives(*groups: str) -> dict[str, list[str]]:
    """Return for each word of each group, words separated by spaces, the other words of that group."""
    words = [group.split() for group in groups]
    return {word: [other for other in group if other != word] for group in words for word in group}


SHORTEST = 3
"""Minimum number of words of a clause that is dropped, and of what is left of its sentence."""
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[^\W\d_]{3,}")
_COMMA = re.compile(r", |[،؛;] ?|[，；、]")
_SENTENCE_END = re.compile(r"[.!?…。！？]+(?=[\s\"“”»«')]|$)")
_PAIRED = re.compile('["“”„«»()\\[\\]{}]')
_COUNTED = re.compile(rf"[{UNSPACED}]|\w+")


def digits(line: str) -> Iterator[Edit]:
    """Yield edits that change one digit. The number 1 is neither changed nor made: its noun would tell."""
    for number in _NUMBER.finditer(line):
        lowest = 2 if len(number[0]) == 1 else 1  # "2" to "0" or "1" and "12" to "02" look wrong by themselves
        for place in range(number.start(), number.end()) if number[0] != "1" else ():
            digit = int(line[place])
            zero = ord(line[place]) - digit  # of its script
            for other in range(lowest if place == number.start() else 0, 10):
                if other != digit:
                    yield Edit(place, place + 1, chr(zero + other))


def names(source: str, reference: str) -> Iterator[Edit]:
    """Yield edits that swap two adjacent letters in a capitalised word that the source has, too."""
    known = set(_NAME.findall(source))
    for word in _NAME.finditer(reference):
        if word[0] not in known or not word[0][0].isupper():
            continue
        for place in range(word.start() + 1, word.end() - 1):
            first, second = reference[place], reference[place + 1]
            if first.lower() != second.lower():
                yield Edit(place, place + 2, second + first)


def clauses(line: str, conjunctions: str) -> Iterator[Edit]:
    """Yield edits that drop the end of a sentence, from a comma or one of the conjunctions, separated by `|`."""
    starts = {match.start() for match in _COMMA.finditer(line)}
    if conjunctions:
        starts |= {match.start() for match in re.finditer(rf"(?<![,;]) (?:{conjunctions})\b", line)}
    ends = list(_SENTENCE_END.finditer(line))
    stops, resumes = [match.start() for match in ends], [0, *(match.end() for match in ends)]
    for start in sorted(starts):
        sentence = bisect(stops, start)
        stop = stops[sentence] if sentence < len(stops) else len(line)
        kept, dropped = line[resumes[sentence] : start], line[start:stop]
        if not _PAIRED.search(dropped) and min(map(n_words, (kept, dropped))) >= SHORTEST:
            yield Edit(start, stop, "")


def n_words(text: str) -> int:
    """Count words, and characters in scripts without spaces between words."""
    return len(_COUNTED.findall(text))


Change = Callable[[str], Iterator[Edit]]
"""From a translation: all edits of a kind that make it wrong."""


@dataclass(frozen=True)
class Language:
    """Words and rules of a language; empty for most languages."""

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
        yield from digits(line)
        yield from exchanged(line, self.numbers)

    def _clause(self, line: str) -> Iterator[Edit]:
        return clauses(line, self.conjunctions)

    def _remove_negation(self, line: str) -> Iterator[Edit]:
        if "?" not in line:  # a negated question often asks the same as a plain one
            yield from rewritten(line, self.removals)

    def _insert_negation(self, line: str) -> Iterator[Edit]:
        if "?" not in line and self.negated is not None and not self.negated.search(line):
            yield from rewritten(line, self.insertions)
