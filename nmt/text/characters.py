"""Counts of the characters of a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def count_characters(lines: Sequence[str]) -> dict[str, int]:
    """Return how often each character occurs in lines."""
    codes = np.frombuffer("".join(lines).encode("utf-32-le"), np.uint32)
    if len(codes) == 0:
        return {}
    counts = np.bincount(codes)
    return {chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()}
