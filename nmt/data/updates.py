"""From a prepared corpus to updates: which pairs form an update, and in which order updates come.

An *update* is what one optimizer step learns from, about `update_tokens` target tokens of sentences of similar length;
its content depends on (seed, epoch) alone. It is then divided over ranks and split into micro-batches of at most
`max_tokens` padded tokens, which only affects memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from nmt.data.batching import Indices, PairLengths
from nmt.data.corpus import Integers
from nmt.data.cutting import cut


@dataclass(frozen=True)
class Update:
    """The pairs of one optimizer step: rows of the corpus, of similar length, and the number of their target tokens."""

    rows: Indices
    n_tokens: int

    def share(self, rank: int, size: int) -> Indices:
        """Return the rows that rank `rank` of `size` learns from; shares are of similar length, and may be empty."""
        return self.rows[rank::size]


@dataclass(frozen=True)
class BatchPlan:
    """How an epoch is divided into updates: see the settings of the same names in `TrainingConfig`."""

    update_tokens: int
    pool_pairs: int
    seed: int


class EpochUpdates(Sequence[Update]):
    """The updates of an epoch in training order, created on access.

    Stores one array of all rows, in the smallest integer type: at most four bytes per pair for up to 2^32 pairs.
    """

    def __init__(self, lengths: PairLengths, rows: Integers, ends: Indices, order: Indices) -> None:
        """Update i is `rows` (P,) from `ends[order[i] - 1]` to `ends[order[i]]`."""
        self._lengths, self._rows, self._ends, self._order = lengths, rows, ends, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Update: ...
    @overload
    def __getitem__(self, index: slice) -> EpochUpdates: ...
    def __getitem__(self, index: int | slice) -> Update | EpochUpdates:
        if isinstance(index, slice):
            return EpochUpdates(self._lengths, self._rows, self._ends, self._order[index])
        number = int(self._order[index])
        start = int(self._ends[number - 1]) if number else 0
        rows = self._rows[start : int(self._ends[number])].astype(np.int64)
        return Update(rows, int(self._lengths.tgt[rows].sum()))

    def n_pairs(self) -> int:
        """Return the number of pairs of all updates."""
        sizes = np.diff(self._ends, prepend=0)
        return int(sizes[self._order].sum())


def epoch_updates(lengths: PairLengths, plan: BatchPlan, epoch: int, window: int = 0) -> EpochUpdates:
    """Return the updates of a window of `epoch`: every pair once, in an order that depends on the arguments alone.

    The pairs are shuffled and cut into pools of at least `pool_pairs`; a pool is halved again and again by source or
    target length into updates of nearly equal numbers of target tokens, about `update_tokens`, and these are shuffled.
    """
    rng = np.random.default_rng([plan.seed, epoch, window])  # a zero at the end changes nothing
    rows = np.arange(len(lengths), dtype=np.min_scalar_type(len(lengths)))
    rng.shuffle(rows)
    sizes: list[int] = []
    for pool in np.array_split(rows, max(1, len(rows) // plan.pool_pairs)):  # views, reordered in place
        if len(pool) == 0:  # a window without pairs has no updates
            break
        src, tgt = lengths.src[pool], lengths.tgt[pool]
        parts = cut(src, tgt, -(-int(tgt.sum()) // plan.update_tokens))
        sizes += map(len, parts)
        pool[:] = pool[np.concatenate(parts)]
    return EpochUpdates(lengths, rows, np.cumsum(sizes), rng.permutation(len(sizes)))
