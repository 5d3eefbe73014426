"""Lists of words and expressions, `clean.block_lists`, whose pairs are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from nmt.errors import DataError
from nmt.languages.codes import is_spaced
from nmt.prepare.cleaning.filters import SideTest
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.text.case import lower
from nmt.text.letters import comparable
from nmt.text.lines import read_lines
from nmt.text.words import words


def block_lists(clean: CleanConfig, languages: Iterable[str], root: Path) -> dict[str, SideTest]:
    """Return the tests of the block lists of languages. `root`: their folder. Raises DataError as `block_list` does."""
    names = clean.block_lists or {}
    return {language: block_list(root / names[language], language) for language in languages if language in names}


def block_list(path: Path, language: str) -> SideTest:
    """Return a test for texts that contain any of the words or expressions listed in a file.

    Each line is a word or several, found as whole words in any case and form (see `comparable`), or `/.../`, a regular
    expression. A line that begins with # is a comment. In a language written without spaces, words are found anywhere.
    Raises DataError if the file cannot be read or an expression is invalid.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; it is listed in block_lists")
    patterns = []
    parts = []
    entries = dict[str, list[str]]()
    to_lower = lower(language)
    for number, line in enumerate(read_lines(path), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        folded = comparable(to_lower(entry), language).casefold()
        if len(entry) > 2 and entry[0] == entry[-1] == "/":
            try:
                patterns.append(re.compile(entry[1:-1], re.IGNORECASE))
            except re.error as error:
                raise DataError(f"{path}:{number}: not a regular expression: {error}") from error
        elif not is_spaced(language):
            parts.append(folded)
        elif (listed := words(folded)) == (named := _without_marks(listed)):
            entries.setdefault(named[0], []).append(f" {' '.join(named)} ")
        else:  # punctuation, or words with it: c++
            pattern = re.escape(entry)
            if entry[0].isalnum():
                pattern = rf"\b{pattern}"
            if entry[-1].isalnum():
                pattern = rf"{pattern}\b"
            patterns.append(re.compile(pattern, re.IGNORECASE))
    if not (patterns or parts or entries):
        raise DataError(f"{path}: has no words; write one word or expression on each line")

    def has_words(text: str) -> bool:
        all_words = words(text)
        candidates = [entry for first in entries.keys() & set(all_words) for entry in entries[first]]
        if not candidates:
            return False
        line = f" {' '.join(_without_marks(all_words))} "
        return any(entry in line for entry in candidates)

    def test(text: str) -> bool:
        folded = comparable(to_lower(text), language).casefold()
        return (
            has_words(folded)
            or any(part in folded for part in parts)
            or any(pattern.search(text) for pattern in patterns)
        )

    return test


def _without_marks(units: list[str]) -> list[str]:
    """Return the units that are words, not punctuation."""
    return [unit for unit in units if unit[0].isalnum() or unit[0] == "_"]
