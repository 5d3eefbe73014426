"""Rewriting a line at one place, the case kept: what all kinds of contrasts are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

WORD = re.compile(r"[^\W\d_]+")

Rule = tuple[re.Pattern[str], str]
"""A pattern and what stands in place of a match; groups as in `re.Match.expand`."""


def rule(pattern: str, replacement: str, ignore_case: bool = True) -> Rule:
    """Return a rule; a typewriter apostrophe in its pattern stands for a typographic one, too."""
    return re.compile(pattern.replace("'", "['’]"), re.IGNORECASE if ignore_case else 0), replacement


def rewritten(line: str, rules: Sequence[Rule]) -> Iterator[str]:
    """Yield the line changed at one place, for each match of each rule."""
    for pattern, replacement in rules:
        for match in pattern.finditer(line):
            yield replaced(line, match, match.expand(replacement))


def exchanged(line: str, table: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the line with one word exchanged, for each word in `table`, as it stands or in lower case, and each of its
    alternatives."""
    for match in WORD.finditer(line):
        for word in table.get(match[0].lower()) or table.get(match[0], ()):
            yield replaced(line, match, word.upper() if len(match[0]) > 1 and match[0].isupper() else word)


def replaced(line: str, match: re.Match[str], by: str) -> str:
    """Return the line with other text in place of a match; what stands there begins with a capital if the match did."""
    rest = by + line[match.end() :]
    if match[0][:1].isupper():
        rest = rest[:1].upper() + rest[1:]
    return line[: match.start()] + rest


def alternatives(*groups: str) -> dict[str, list[str]]:
    """Return for each word of each group, words separated by spaces, the other words of that group."""
    words = [group.split() for group in groups]
    return {word: [other for other in group if other != word] for group in words for word in group}
