"""Changes that need no knowledge of a language: digits, letters of names, clauses."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator

from nmt.challenge.rewriting import Edit
from nmt.text.words import UNSPACED

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
