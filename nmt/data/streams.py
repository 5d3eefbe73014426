"""The endless sequence of the pairs of a training corpus: pass after pass, each in another order.

Where a corpus stands in it is one number, the pairs drawn so far; everything else follows from that and the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]

BLOCK = 1 << 12
"""Pairs of a shard that stay together, since they are in random order already: what is read of a file for a window
is then about as large as what the window has of it."""


class Run(NamedTuple):
    """Consecutive rows of all training pairs: a shard, or one corpus in a file."""

    first: int
    n: int


class Segments:
    """Rows of the training pairs in the order of a window, as consecutive runs."""

    def __init__(self, runs: Sequence[tuple[Rows, Rows]], total: int) -> None:
        """`runs`: where some runs begin, and how long they are; `total`: the number of all training pairs."""
        none = np.zeros(0, np.int64)
        self.firsts, self.sizes = (np.concatenate([none, *(run[i] for run in runs)]) for i in (0, 1))
        self._ends = np.cumsum(self.sizes)
        self._shifts = self.firsts - (self._ends - self.sizes)
        self.total = total

    @classmethod
    def single(cls, rows: Rows) -> Segments:
        """Return segments of one pair each, so that pairs that are made anew keep their rows."""
        return cls([(rows, np.ones_like(rows))], 0)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def rows(self, indices: Rows) -> Rows:
        """Return the rows of the pairs `indices` of the window."""
        rows: Rows = indices + self._shifts[np.searchsorted(self._ends, indices, side="right")]
        return rows


class Stream:
    """The pairs of one corpus, pass after pass.

    A pass takes the shards in random order, and of each the blocks of `block` consecutive rows in random order.
    """

    def __init__(self, shards: Sequence[Run], key: tuple[int, ...], block: int = BLOCK) -> None:
        """`key`: the seed and the number of the corpus."""
        self._shards, self._key, self._block = shards, key, block
        self.n = sum(shard.n for shard in shards)

    def take(self, start: int, stop: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield the pairs from `start` to `stop` of the stream: where runs of rows begin, and how long they are."""
        while start < stop:
            number, skipped = divmod(start, self.n)
            end = min(self.n, skipped + stop - start)
            yield from self._pass(number, skipped, end)
            start += end - skipped

    def _pass(self, number: int, start: int, stop: int) -> Iterator[tuple[Rows, Rows]]:
        for i in self._shuffled(len(self._shards), number, 1).tolist():
            first, n = self._shards[i]
            if start < n and stop > 0:
                order = self._shuffled(-(-n // self._block), number, 2 + i)
                starts, sizes = _part(np.minimum(self._block, n - order * self._block), max(start, 0), min(stop, n))
                inside = np.flatnonzero(sizes > 0)
                yield first + (order * self._block + starts)[inside], sizes[inside]
            start, stop = start - n, stop - n

    def _shuffled(self, n: int, *key: int) -> Rows:
        return np.random.default_rng([*self._key, *key]).permutation(n)


def _part(sizes: Rows, start: int, stop: int) -> tuple[Rows, Rows]:
    """Cut runs of these sizes, one after the other, to `start` to `stop`: what is cut off each, and what is left."""
    ends = np.cumsum(sizes)
    begins = ends - sizes
    return np.clip(start - begins, 0, sizes), np.clip(np.minimum(ends, stop) - np.maximum(begins, start), 0, None)
