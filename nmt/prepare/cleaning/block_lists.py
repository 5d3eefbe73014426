"""Lists of words and expressions whose pairs are dropped, read from files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from nmt.errors import DataError
from nmt.prepare.cleaning.script import is_spaced
from nmt.text.lines import read_lines

_WORD = re.compile(r"\w+")


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
    patterns, words = [], []
    for number, entry in entries:
        if len(entry) > 2 and entry[0] == entry[-1] == "/":
            patterns.append(_expression(entry[1:-1], f"{path}:{number}"))
        else:
            words.append(entry.casefold())
    has_word = _whole_words(words) if is_spaced(language) else _substrings(words)

    def test(text: str) -> bool:
        return has_word(text.casefold()) or any(pattern.search(text) for pattern in patterns)

    return test


def _expression(text: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise DataError(f"{where}: not a regular expression: {error}") from error


def _substrings(words: Iterable[str]) -> Callable[[str], bool]:
    return lambda text: any(word in text for word in words)


def _whole_words(entries: Iterable[str]) -> Callable[[str], bool]:
    """Return a test for words, and for several words that follow each other."""
    by_first: dict[str, list[str]] = {}
    for entry in entries:
        if words := _WORD.findall(entry):
            by_first.setdefault(words[0], []).append(f" {' '.join(words)} ")
    firsts = by_first.keys()

    def test(text: str) -> bool:
        words = _WORD.findall(text)
        found = firsts & set(words)
        if not found:
            return False
        line = f" {' '.join(words)} "
        return any(entry in line for first in found for entry in by_first[first])

    return test
