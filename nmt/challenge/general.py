"""Changes that need no knowledge of a language: digits, letters of names, clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.text.words import UNSPACED

SHORTEST = 3
"""Minimum number of words of a clause that is dropped, and of what is left."""
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[^\W\d_]{3,}")
_COMMA = re.compile(r", |[،؛;] ?|[，；、]")
_SENTENCE_END = re.compile(r"[.!?…。！？]+(?=[\s\"“”»«')]|$)")
_PAIRED = re.compile('["“”„«»()\\[\\]{}]')
_COUNTED = re.compile(rf"[{UNSPACED}]|\w+")


def digits(line: str) -> Iterator[str]:
    """Yield the line with one digit changed. The number 1 is left alone: its noun would show the change."""
    for number in _NUMBER.finditer(line):
        if int(number[0]) == 1:
            continue
        for place in range(number.start(), number.end()):
            digit = int(line[place])
            zero = ord(line[place]) - digit
            for other in range(10):
                changed = line[:place] + chr(zero + other) + line[place + 1 :]
                is_plain = changed[number.start() : number.end()].lstrip(chr(zero)) not in ("", chr(zero + 1))
                if other != digit and is_plain and (other or place > number.start()):
                    yield changed


def names(source: str, reference: str) -> Iterator[str]:
    """Yield the reference with two adjacent letters swapped in a capitalised word that the source has, too."""
    known = set(_NAME.findall(source))
    for word in _NAME.finditer(reference):
        if word[0] not in known or not word[0][0].isupper():
            continue
        for place in range(word.start() + 1, word.end() - 1):
            first, second = reference[place], reference[place + 1]
            if first.lower() != second.lower():
                yield reference[:place] + second + first + reference[place + 2 :]


def clauses(line: str, conjunctions: str) -> Iterator[str]:
    """Yield the line without the end of a sentence, from a comma or one of the conjunctions, separated by `|`."""
    starts = [match.start() for match in _COMMA.finditer(line)]
    if conjunctions:
        starts += [match.start() for match in re.finditer(rf" (?:{conjunctions})\b", line)]
    for start in sorted({*starts}):
        if line[:start].endswith((",", ";")):  # the comma is a start of its own
            continue
        end = _SENTENCE_END.search(line, start)
        rest = line[end.start() :] if end else ""
        dropped, kept = line[start : len(line) - len(rest)], _SENTENCE_END.split(line[:start])[-1]
        if not _PAIRED.search(dropped) and min(map(n_words, (dropped, kept))) >= SHORTEST:
            yield line[:start] + rest


def n_words(text: str) -> int:
    """Count words, and characters in scripts without spaces between words."""
    return len(_COUNTED.findall(text))
