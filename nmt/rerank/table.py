"""The features of all candidates as one array, and the choice by weights.

Shapes are written with F features, L lines, and K candidates of the line that has most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from nmt.evaluate.line_statistics import Floats
from nmt.rerank.candidates import NBest
from nmt.rerank.features import Feature
from nmt.translate.types import WINDOW

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Candidates of lines. In lists shorter than K the last one is repeated."""

    texts: Sequence[Sequence[str]]
    """K for each of the L lines."""
    values: Floats
    """(F, L, K); the first feature is the score of search."""

    def choose(self, weights: Sequence[float]) -> Ints:
        """Return the number (L,) of each line's candidate with the highest weighted sum, the first of several."""
        total = np.zeros(self.values.shape[1:])
        for weight, values in zip(weights, self.values, strict=True):
            total += weight * values
        chosen: Ints = total.argmax(1)
        return chosen


def make_table(lists: Sequence[NBest], features: Sequence[Feature]) -> Table:
    """Compute the features of candidates; there is at least one line. A blank candidate is as bad as the worst of its
    line.
    """
    pairs = [(line, candidate) for line, candidates in lists for candidate in candidates]
    sizes = np.array([len(candidates) for _, candidates in lists])
    first = np.cumsum(sizes) - sizes
    rows = first[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)  # (L, K), of `pairs`
    values = np.array([feature.values(pairs) for feature in features], np.float64)[:, rows]
    worst = np.where(np.isnan(values), np.inf, values).min(2, keepdims=True)
    values = np.where(np.isnan(values), np.where(np.isinf(worst), 0.0, worst), values)
    return Table([[pairs[row][1].text for row in of_line] for of_line in rows], values)


def rerank(lists: Iterable[NBest], features: Sequence[Feature], weights: Sequence[float]) -> Iterator[tuple[str, int]]:
    """Yield for each line the text of the chosen candidate, and its number from 0; `WINDOW` lines are read ahead."""
    stream = iter(lists)
    while window := list(islice(stream, WINDOW)):
        table = make_table(window, features)
        for texts, number in zip(table.texts, table.choose(weights).tolist(), strict=True):
            yield texts[number], number
