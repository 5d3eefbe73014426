"""Edits of a line at one place: what all kinds of contrasts are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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
    """Return a pattern that matches where none of these words, separated by spaces, and a space stand before."""
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
    """Return the edit that replaces a match; what stands there then begins with a capital if the match did."""
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
