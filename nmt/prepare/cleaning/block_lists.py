"""Lists of words and expressions whose pairs are dropped, read from files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from nmt.errors import DataError
from nmt.prepare.cleaning.script import is_spaced
from nmt.text.lines import read_lines


def block_list(path: Path, language: str) -> Callable[[str], bool]:
    """Return a test whether a text has a word or expression of a file.

    Each line is a word or several, found as whole words in any case, or `/.../`, a regular expression. A line that
    begins with # is a comment. In a language written without spaces, words are found anywhere.
    Raises DataError if the file cannot be read or an expression is invalid.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; it is named in block_lists")
    entries = [(number, line.strip()) for number, line in enumerate(read_lines(path), 1)]
    entries = [(number, entry) for number, entry in entries if entry and not entry.startswith("#")]
    if not entries:
        raise DataError(f"{path}: has no words; write one word or expression in each line")
    return _has_any(entries, path, is_spaced(language))


def _has_any(entries: Iterable[tuple[int, str]], path: Path, is_spaced: bool) -> Callable[[str], bool]:
    patterns, words, parts = [], [], []
    for number, entry in entries:
        if len(entry) > 2 and entry[0] == entry[-1] == "/":
            patterns.append(_expression(entry[1:-1], f"{path}:{number}"))
        elif not is_spaced:
            parts.append(entry.casefold())
        elif _word().sub("", entry).isspace() or _word().fullmatch(entry):
            words.append(entry.casefold())
        else:  # signs, or words with them: c++
            before, after = (r"\b" if char.isalnum() else "" for char in (entry[0], entry[-1]))
            patterns.append(re.compile(f"{before}{re.escape(entry)}{after}", re.IGNORECASE))
    has_word = _whole_words(words)

    def test(text: str) -> bool:
        folded = text.casefold()
        return (
            has_word(folded)
            or any(part in folded for part in parts)
            or any(pattern.search(text) for pattern in patterns)
        )

    return test


def _expression(text: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise DataError(f"{where}: not a regular expression: {error}") from error


@cache
def _word() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(1 << 16) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"[\w{marks}]+")  # \w has no vowel signs


def _whole_words(entries: Iterable[str]) -> Callable[[str], bool]:
    """Return a test for words, and for several words that follow each other."""
    by_first: dict[str, list[str]] = {}
    for entry in entries:
        words = _word().findall(entry)
        by_first.setdefault(words[0], []).append(f" {' '.join(words)} ")
    firsts = by_first.keys()

    def test(text: str) -> bool:
        words = _word().findall(text)
        found = firsts & set(words)
        if not found:
            return False
        line = f" {' '.join(words)} "
        return any(entry in line for first in found for entry in by_first[first])

    return test
