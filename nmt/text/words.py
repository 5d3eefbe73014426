"""Word boundaries, and counts of the characters of a text."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from nmt.languages.codes import character_class, scripts

_LINES = 1 << 10  # counted at a time


def count_characters(lines: Iterable[str]) -> Counter[str]:
    """Count the occurrences of each character in lines."""
    lines = iter(lines)
    counts = np.zeros(sys.maxunicode + 1, np.int64)
    while block := [*islice(lines, _LINES)]:
        part = np.bincount(np.frombuffer("".join(block).encode("utf-32-le"), "<u4"))
        counts[: len(part)] += part
    codes = np.flatnonzero(counts)
    return Counter(dict(zip(map(chr, codes.tolist()), counts[codes].tolist(), strict=True)))


LETTERWISE = r"\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6" + character_class(
    {script.code for script in scripts().values() if script.is_unspaced} - {"Tibt"}
)
"""Characters of scripts whose words nothing separates, and full-width forms, as the content of a character class. A
mark separates the syllables of Tibetan."""
IS_LETTERWISE = re.compile(f"[{LETTERWISE}]")
UNSPACED = LETTERWISE + character_class(["Tibt"])
"""Characters of scripts without spaces between words, and full-width forms."""

WORD = re.compile(rf"[{LETTERWISE}]|(?:(?![{LETTERWISE}])\w)+|[^\w\s]")
"""A pattern of words, letters of scripts whose words nothing separates, and other marks."""

_JOINERS = "_\u200c\u200d"


class _Classes(dict[int, str]):
    """The class of each code point: j joins both neighbours, m and M are combining marks, M and w belong to words of
    scripts with spaces, and o is any other."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)[0]
        is_of_word = not IS_LETTERWISE.match(character) and (category in "LMN" or character in _JOINERS)
        name = "w" if is_of_word else "o"
        if character == "\u200d":
            name = "j"
        elif category == "M":
            name = "M" if is_of_word else "m"
        if code < 0x10000:  # bounds the memory
            self[code] = name
        return name


_CLASSES = _Classes()
_UNIT = re.compile("(?<=[mo])w|(?<=[^j])o")


def units(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each unit of a text: the characters between two boundaries of words.

    No boundary is between two letters, digits or underscores, unless one belongs to a script without spaces, nor before
    a combining mark.
    """
    start = 0
    for match in _UNIT.finditer(text.translate(_CLASSES)):
        yield start, match.start()
        start = match.start()
    if text:
        yield start, len(text)


def is_boundary(text: str, index: int) -> bool:
    """Return whether a word may begin or end before character `index` of `text`; see `units`."""
    return index in (0, len(text)) or _UNIT.match(text[index - 1 : index + 1].translate(_CLASSES), 1) is not None
