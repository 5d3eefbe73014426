"""Division of a corpus into updates: which pairs form an update, and the order of updates.

An *update* is what one optimizer step learns from, about `update_tokens` target tokens of sentences of similar length;
its content depends on (seed, epoch) alone. It is then divided over ranks and split into micro-batches of at most
`max_tokens` padded tokens, which only affects memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from nmt.data.batching import Indices, PairLengths, narrow
from nmt.data.corpus import Integers


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
    """How an epoch is divided into updates."""

    update_tokens: int
    seed: int
    pool_pairs: int = 30_000
    """Number of pairs that are sorted by length together; larger pools need less padding."""


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
    """Return the updates of a window of `epoch`: every pair once, in an order that depends only on the arguments.

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


def cut(src: Indices, tgt: Indices, n_parts: int) -> list[Indices]:
    """Partition pairs of these lengths (N,) into `n_parts` with about equally many target tokens and similar lengths.

    Returns the indices 0 … N - 1 of each part. Pairs are halved recursively by source or target length, whichever
    leaves less padding; sorting by one length and then the other would leave rare long sentences with very different
    lengths on the other side.
    """
    if n_parts == 1 or len(tgt) < 2:
        return [np.arange(len(tgt))]
    narrow_src, narrow_tgt = narrow(src), narrow(tgt)
    orders = np.lexsort((narrow_src, narrow_tgt)), np.lexsort((narrow_tgt, narrow_src))
    return list(_Cut(src, tgt).parts(orders, 0, n_parts))


class _Cut:
    """Halves pairs that are sorted both by target and by source length; the halves stay sorted both ways."""

    def __init__(self, src: Indices, tgt: Indices) -> None:
        self._src, self._tgt = src, tgt
        self._is_low = np.zeros(len(tgt), np.bool_)

    def parts(self, orders: tuple[Indices, Indices], by: int, n_parts: int) -> Iterator[Indices]:
        """Yield the parts of pairs given in both `orders`, in the order of their last halving; `by`: the first."""
        if n_parts == 1 or len(orders[by]) < 2:
            if len(orders[by]):
                yield orders[by]
            return
        (tgt_middle, tgt_padded), (src_middle, src_padded) = (self._middle(order, n_parts) for order in orders)
        by, middle = (1, src_middle) if src_padded < tgt_padded else (0, tgt_middle)
        low, high, other = orders[by][:middle], orders[by][middle:], orders[1 - by]
        self._is_low[low] = True
        is_low = self._is_low[other]
        self._is_low[low] = False
        for half, other_half, n in ((low, other[is_low], n_parts // 2), (high, other[~is_low], n_parts - n_parts // 2)):
            yield from self.parts((other_half, half) if by else (half, other_half), by, n)

    def _middle(self, pairs: Indices, n_parts: int) -> tuple[int, int]:
        """Return where to halve `pairs`, and the padded tokens of both halves as batches."""
        src, tgt = self._src[pairs], self._tgt[pairs]
        tokens = np.cumsum(tgt)
        middle = int(np.searchsorted(tokens, tokens[-1] * (n_parts // 2) // n_parts, side="right"))
        halves = slice(middle), slice(middle, None)
        return middle, sum(len(tgt[half]) * int(src[half].max(initial=0) + tgt[half].max(initial=0)) for half in halves)
