"""Changes of source lines that do not change their meaning. What a translation must copy stays as it is.

A kind of change has places in a line: those where it has an effect. The rate is the share of them that are changed.
Which ones, and how, is a function of (seed, kind, line), and a higher rate changes the same places and others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from random import Random
from typing import NamedTuple

from nmt.text.constraints import spans
from nmt.text.modifiers.draw import pick
from nmt.text.modifiers.surface import lower_case, title_case, upper_case
from nmt.text.modifiers.typos import typo
from nmt.text.modifiers.typos import words as long_words


class Edit(NamedTuple):
    """A place of a line, and what replaces it."""

    start: int
    end: int
    text: str


Change = Callable[[str, str, Random], Iterator[Edit]]
"""Yields the edits at all places of a line; the second argument is the code of its language."""

_WORD = re.compile(r"[^\W\d_][\w'’\u0300-\u036f]*")
_IN_WORDS = "'’-‐‑/·"

# marks that stand for one another, without another meaning of the sentence
_ALIKE = (".!…", ",;", "。！", "，；、", "،؛", "।॥", '"“”„«»', "'‘’‚‹›", "-–—")
_OTHERS = {mark: marks.replace(mark, "") for marks in _ALIKE for mark in marks}

_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ẞ": "Ss"}
# letters of Latin script that are none with an accent, for Unicode
_STROKES = str.maketrans({
    "æ": "ae", "œ": "oe", "ß": "ss", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i",
    "Æ": "Ae", "Œ": "Oe", "ẞ": "Ss", "Ø": "O", "Ł": "L", "Đ": "D", "Ð": "D", "Þ": "Th", "Ħ": "H",
})  # fmt: skip
_WITH_ACCENTS = ("LATIN", "GREEK")


def changed_line(line: str, language: str, change: str, rates: Sequence[float], seed: int) -> list[str]:
    """Return the line with this kind of change, at each of the rates (0 to 1)."""
    rng = Random(f"{seed}\n{change}\n{line}")
    drawn = [(edit, rng.random()) for edit in list(CHANGES[change](line, language, rng))]
    return [_edited(line, [edit for edit, number in drawn if number < rate]) for rate in rates]


def default_changes(language: str) -> tuple[str, ...]:
    """Return the kinds of changes for a source language: German has its umlauts spelled out, others lose accents."""
    left_out = "accents" if re.split("[_-]", language)[0] == "de" else "umlauts"
    return tuple(change for change in CHANGES if change != left_out)


def _edited(line: str, edits: Sequence[Edit]) -> str:
    parts, end = list[str](), 0
    for edit in edits:
        if edit.start >= end:  # else letters that were just swapped
            parts += line[end : edit.start], edit.text
            end = edit.end
    return "".join([*parts, line[end:]])


def _typos(line: str, _: str, rng: Random) -> Iterator[Edit]:
    """Places: letters inside words of at least four, neither the first nor the last one."""
    for word in long_words(line):
        for i in range(word.start() + 1, word.end() - 1):
            wrong = typo(line[i], line[i + 1], rng)
            if wrong.endswith(line[i + 1]):
                yield Edit(i, i + 1, wrong[:-1])
            else:
                yield Edit(i, i + 2, wrong)


def _words(change: Callable[[str, str], str], line: str, language: str, _: Random) -> Iterator[Edit]:
    """Places: words that the change, a function of word and language, has an effect on."""
    protected = _protected(line)
    for word in _WORD.finditer(line):
        new = change(word[0], language)
        has_effect = new not in (word[0], unicodedata.normalize("NFC", word[0]))
        if has_effect and protected.isdisjoint(range(*word.span())):
            yield Edit(word.start(), word.end(), new)


def _upper_case(word: str, language: str) -> str:
    return upper_case(word, "", Random(), (language, ""))[0]


def _title_case(word: str, language: str) -> str:
    return title_case(word, "", Random(), (language, ""))[0]


def _lower_case(word: str, language: str) -> str:
    return lower_case(word, "", Random(), (language, ""))[0]


def _spelled_out(word: str, _: str) -> str:
    composed = unicodedata.normalize("NFC", word)
    new = "".join(_UMLAUTS.get(letter, letter) for letter in composed)
    return new.upper() if composed.isupper() and len(composed) > 1 else new


def _without_accents(word: str, _: str) -> str:
    kept, base = list[str](), ""
    for character in unicodedata.normalize("NFD", word):
        if not unicodedata.combining(character):
            base = character
        elif unicodedata.name(base, "").startswith(_WITH_ACCENTS):
            continue
        kept.append(character)
    new = unicodedata.normalize("NFC", "".join(kept).translate(_STROKES))
    return new.upper() if word.isupper() and len(word) > 1 else new


def _punctuation_removed(line: str, _: str, __: Random) -> Iterator[Edit]:
    """Places: marks, several of the same in a row as one; one that stands alone goes with the space before it."""
    for start, end in _marks(line):
        alone = start > 0 and line[start - 1].isspace() and (end == len(line) or line[end].isspace())
        yield Edit(start - alone, end, "")


def _punctuation_changed(line: str, _: str, rng: Random) -> Iterator[Edit]:
    """Places: marks that others can stand for."""
    for start, end in _marks(line):
        if others := _OTHERS.get(line[start:end]):
            yield Edit(start, end, pick(rng, others))


def _marks(line: str) -> Iterator[tuple[int, int]]:
    """Yield where punctuation begins and ends, but for apostrophes and hyphens in words."""
    protected, start = _protected(line), 0
    for mark, group in groupby(line):
        end = start + sum(1 for _ in group)
        is_inside = mark in _IN_WORDS and line[start - 1 : start].isalnum() and line[end : end + 1].isalnum()
        if unicodedata.category(mark).startswith("P") and not is_inside and protected.isdisjoint(range(start, end)):
            yield start, end
        start = end


def _protected(line: str) -> set[int]:
    return {i for span in spans(line) for i in range(span.start, span.end)}


CHANGES: Mapping[str, Change] = {
    "typos": _typos,
    "upper_case": partial(_words, _upper_case),
    "lower_case": partial(_words, _lower_case),
    "title_case": partial(_words, _title_case),
    "punctuation_removed": _punctuation_removed,
    "punctuation_changed": _punctuation_changed,
    "umlauts": partial(_words, _spelled_out),
    "accents": partial(_words, _without_accents),
}
"""The kinds of changes, in the order of the table."""
