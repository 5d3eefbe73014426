"""Scores of parts of the test set: lines alike in length or the like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nmt.compare.page.view import View
from nmt.compare.types import Result
from nmt.significance.paired import Interval, bootstrap_scores, interval

SAMPLES = 1000
FEW = 10
_MOST = 6
"""Parts by length."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Some of the lines."""

    name: str
    rows: Rows


@dataclass(frozen=True)
class PartScore:
    """Scores of some of the lines, by group; differences from the baseline, None for the baseline itself.

    There are no intervals of fewer lines than FEW.
    """

    name: str
    n_lines: int
    values: list[float]
    differences: list[tuple[float, Interval | None] | None]


def by_length(lengths: Sequence[int]) -> list[Part]:
    """Divide lines by length into parts of about as many lines each."""
    values = np.asarray(lengths)
    edges = np.unique(np.quantile(values, np.arange(1, _MOST) / _MOST, method="inverted_cdf"))
    number = np.searchsorted(edges, values)
    parts = []
    for part in np.unique(number):
        rows = np.flatnonzero(number == part)
        low, high = int(values[rows].min()), int(values[rows].max())
        parts.append(Part(f"{low:,}–{high:,}" if low < high else f"{low:,}", rows))
    return parts


def part_scores(view: View, result: Result, parts: Iterable[Part]) -> Iterator[PartScore]:
    """Yield the scores of parts, with intervals of the differences by paired bootstrap."""
    for part in parts:
        counts = [replace(counts, counts=counts.counts[part.rows]) for counts in view.counts(result)]
        values = [system.score() for system in counts]
        drawn = bootstrap_scores(counts, SAMPLES, view.comparison.seed) if len(part.rows) >= FEW else None
        differences: list[tuple[float, Interval | None] | None] = []
        for number, value in enumerate(values):
            of_lines = None if drawn is None else interval(drawn[number] - drawn[view.baseline])
            differences.append(None if number == view.baseline else (value - values[view.baseline], of_lines))
        yield PartScore(part.name, len(part.rows), values, differences)
