"""Words of a line, and which of them two lines have in common. The page's script does the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from nmt.text.words import UNSPACED

_SPACE = r" \u00a0\u1680\u2000-\u200a\u202f\u205f"
_PUNCTUATION = r"!-\/:-@\[-`\{-~\u00a1-\u00bf\u2010-\u2027\u2030-\u205e\u060c\u061b\u061f\u06d4\u0964"
_MARKS = "".join(  # of the scripts without spaces, which stay with their letters
    f"\\u{code:04x}"
    for code in [*range(0x0E00, 0x1100), *range(0x1780, 0x1800), *range(0x3000, 0x3100)]
    if unicodedata.category(chr(code)).startswith("M")
)
PATTERN = rf"[{UNSPACED}][{_MARKS}]*|[{_PUNCTUATION}]|[^{_SPACE}{_PUNCTUATION}{UNSPACED}]+"
"""A word, a mark of punctuation, or a character of a script without spaces between words."""
SCRIPT_PATTERN = re.sub(r"\\U000([0-9a-f]{5})", r"\\u{\1}", PATTERN)
"""The same for JavaScript."""
MOST_CELLS = 250_000
"""The largest table of two lines' words in which a common subsequence is searched for."""

find_words = re.compile(PATTERN).findall


def join_words(words: Sequence[str]) -> str:
    """Join words by spaces, but those of scripts that write none."""
    return re.sub(rf"(?<=[{UNSPACED}]) (?=[{UNSPACED}])", "", " ".join(words))


def common_words(first: Sequence[str], second: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Return which words of each line are in a longest common subsequence; all, if the lines are too long for that."""
    n, m = len(first), len(second)
    if first == second or n * m > MOST_CELLS:
        return [True] * n, [True] * m
    lengths = [[0] * (m + 1) for _ in range(n + 1)]  # of the common subsequences of the rests from each pair of words
    for i in reversed(range(n)):
        for j in reversed(range(m)):
            same, skipped = first[i] == second[j], max(lengths[i + 1][j], lengths[i][j + 1])
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else skipped
    in_first, in_second = [False] * n, [False] * m
    i = j = 0
    while i < n and j < m:
        if first[i] == second[j]:
            in_first[i] = in_second[j] = True
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return in_first, in_second
