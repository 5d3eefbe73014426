"""Typos in words of alphabets."""

from __future__ import annotations

import re
from random import Random

from nmt.text.constraints import spans
from nmt.text.modifiers.draw import below, pick, some

SHARE = 0.1
"""Share of the words of a line that have a typo, besides the one that has it for certain."""

# Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic, Georgian
_LETTER = (
    r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0386-\u03ff\u0400-\u0481\u048a-\u052f\u0531-\u0556\u0561-\u0587"
    r"\u05d0-\u05ea\u0621-\u064a\u0671-\u06d3\u10d0-\u10fa\u1e00-\u1fff"
)
_WORD = re.compile(rf"(?<![\w\u0300-\u036f])[{_LETTER}]{{4,}}(?![\w\u0300-\u036f])")
_ROWS = (
    "qwertyuiop", "asdfghjkl", "zxcvbnm",
    "йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю",
    "ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ",
)  # fmt: skip
_NEIGHBOURS = {row[i]: row[max(i - 1, 0) : i] + row[i + 1 : i + 2] for row in _ROWS for i in range(len(row))}


def typos(src: str, tgt: str, rng: Random) -> tuple[str, str]:
    """Return the source with typos in some words of at least four letters, and the target."""
    matches = words(src)
    if not matches:
        return src, tgt
    parts, end = list[str](), 0
    for match in some(rng, matches, SHARE):
        parts += src[end : match.start()], _mistyped(match[0], rng)
        end = match.end()
    return "".join([*parts, src[end:]]), tgt


def words(line: str) -> list[re.Match[str]]:
    """Return the words of at least four letters, but for what a translation must copy."""
    protected = {i for span in spans(line) for i in range(span.start, span.end)}
    return [match for match in _WORD.finditer(line) if protected.isdisjoint(range(match.start(), match.end()))]


def _mistyped(word: str, rng: Random) -> str:
    """Return the word with one typo; its first letter is right."""
    i = 1 + below(rng, len(word) - 2)
    return word[:i] + typo(word[i], word[i + 1], rng) + word[i + 2 :]


def typo(first: str, second: str, rng: Random) -> str:
    """Return two letters of a word with a typo in the first: swapped, left out, doubled, or its neighbour on the
    keyboard.
    """
    kind = pick(rng, ("swapped", "left out", "doubled", "neighbour"))
    if kind == "swapped" and first != second:
        return second + first
    if kind == "doubled":
        return first + first + second
    if kind == "neighbour" and (neighbours := _NEIGHBOURS.get(first.lower())):
        return pick(rng, neighbours.upper() if first.isupper() else neighbours) + second
    return second
