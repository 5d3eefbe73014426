"""Writing systems: the scripts of letters and texts, and what distinguishes scripts.

A script is given by its code of ISO 15924, such as Latn. Chinese characters, kana and bopomofo count as one script,
Hani.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KANA = "\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff"
"""Ranges of the letters and their marks by which Japanese text differs from Chinese text."""


@dataclass(frozen=True)
class Script:
    """A row of scripts.tsv."""

    code: str
    name: str
    is_unspaced: bool
    """Whether texts have no spaces between words."""
    is_right_to_left: bool
    density: float
    """Characters of English text that say as much as one character, on average."""
    sentence_ends: str
    """The marks that end sentences in this script only. Those of `Zyyy` end sentences in many scripts."""
    ranges: tuple[tuple[int, ...], ...]
    """First and last code points of its characters. Marks and digits of several scripts may be among them."""


@cache
def scripts() -> dict[str, Script]:
    """Return all scripts by code. Several codes may stand for one script: Hans, Hant and Jpan for Hani."""
    by_code: dict[str, Script] = {}
    for code, other_codes, traits, ends, ranges, name in rows_of("scripts.tsv"):
        script = Script(
            code,
            name,
            "unspaced" in traits,
            "right-to-left" in traits,
            float(traits.partition("density=")[2] or 1),
            ends,
            tuple(tuple(int(number, 16) for number in pair.split("-")) for pair in ranges.split()),
        )
        by_code |= dict.fromkeys([code, *other_codes.split()], script)
    return by_code


def rows_of(name: str) -> list[list[str]]:
    """Return the rows of a table in this folder, without its header."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[1:]]


@cache
def _ranges() -> list[tuple[int, int, str]]:
    return sorted({(first, last, script.code) for script in scripts().values() for first, last in script.ranges})


@cache
def script_of(character: str) -> str | None:
    """Return the script of a letter; None for other characters, and for letters that belong to no script."""
    if not character.isalpha():
        return None
    code = ord(unicodedata.normalize("NFKC", character)[0])  # full and half width are not scripts
    ranges = _ranges()
    first, last, script = ranges[bisect(ranges, (code + 1,)) - 1]
    return script if first <= code <= last else None


def script_of_text(lines: Iterable[str], least: float) -> str | None:
    """Return the script of more than half of the letters of a text; None if its share is less than `least`."""
    counts = Counter(map(script_of, "".join(lines)))
    del counts[None]  # no letters
    if not counts:
        return None
    script, n = counts.most_common(1)[0]
    return script if n >= least * counts.total() else None


def character_class(names: Iterable[str]) -> str:
    """Return the content of a regular expression's character class with the characters of some scripts."""
    table = scripts()
    ranges = [limits for name in names for limits in table[name].ranges]
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
