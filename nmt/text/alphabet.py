"""The characters of a text."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import numpy as np

_CHARACTERS = 1 << 16  # counted at a time


def count_characters(lines: Iterable[str]) -> Counter[str]:
    """Return how often each character occurs in lines."""
    text = "".join(lines)
    counts = np.zeros(sys.maxunicode + 1, np.int64)
    for start in range(0, len(text), _CHARACTERS):
        part = np.bincount(np.frombuffer(text[start : start + _CHARACTERS].encode("utf-32-le"), "<u4"))
        counts[: len(part)] += part
    codes = np.flatnonzero(counts)
    return Counter(dict(zip(map(chr, codes.tolist()), counts[codes].tolist(), strict=True)))
