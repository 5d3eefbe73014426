"""Word boundaries, and counts of the characters of a text."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable

import numpy as np

_CHARACTERS = 1 << 16  # counted at a time


def count_characters(lines: Iterable[str]) -> Counter[str]:
    """Count the occurrences of each character in lines."""
    text = "".join(lines)
    counts = np.zeros(sys.maxunicode + 1, np.int64)
    for start in range(0, len(text), _CHARACTERS):
        part = np.bincount(np.frombuffer(text[start : start + _CHARACTERS].encode("utf-32-le"), "<u4"))
        counts[: len(part)] += part
    codes = np.flatnonzero(counts)
    return Counter(dict(zip(map(chr, codes.tolist()), counts[codes].tolist(), strict=True)))


# Thai, Lao, Burmese, Khmer, Chinese, Japanese
UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\uff00-\uffef\U00020000-\U0003ffff"
)
"""Letters and punctuation of scripts without spaces between words, as the content of a character class."""

WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+|[^\w\s]")
"""A pattern of words, letters of scripts without spaces between words, and other marks."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_JOINERS = "_\u200c\u200d"


def is_boundary(text: str, index: int) -> bool:
    """Return whether a word may begin or end before character `index` of `text`.

    No boundary is between two letters, digits or underscores, unless one belongs to a script without spaces, nor before
    a combining mark.
    """
    if index in (0, len(text)):
        return True
    before, after = text[index - 1], text[index]
    if unicodedata.category(after).startswith("M") or "\u200d" in (before, after):
        return False
    return not (_is_of_word(before) and _is_of_word(after))


def _is_of_word(character: str) -> bool:
    if _UNSPACED.match(character):
        return False
    return unicodedata.category(character)[0] in "LMN" or character in _JOINERS
