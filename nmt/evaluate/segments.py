"""Scores that other programs, such as neural metrics, give to the lines of a text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import DataError
from nmt.text.lines import bounded_list, read_lines

MAX_SCORE = 1e6
"""Larger numbers are no scores."""


@dataclass(frozen=True)
class SegmentScores:
    """The scores of one system's lines by one metric; the system's score is their mean."""

    values: tuple[float, ...]
    signature: str
    """Scores with different signatures are not comparable."""
    higher_is_better: bool = True

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)


def read_segment_scores(path: Path) -> tuple[float, ...]:
    """Read a file with one number per line.

    Raises DataError if it is missing, is empty, or has a line that is not one number.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file")
    lines = bounded_list(read_lines(path), str(path))
    if not lines:
        raise DataError(f"{path}: empty, expected one score per line")
    return tuple(_number(text, f"{path}: line {number}") for number, text in enumerate(lines, start=1))


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{where} is {text[:40]!r}, expected one number per line and nothing else") from None
    if not abs(value) <= MAX_SCORE:  # nor is it for nan
        raise DataError(f"{where} is {text.strip()!r}: not a score")
    return value
