"""From a prepared corpus to updates: which pairs form an update, and in which order updates come.

An *update* is what one optimizer step learns from, about `update_tokens` target tokens of sentences of similar length;
its content depends on (seed, epoch) alone. It is then divided over ranks and split into micro-batches of at most
`max_tokens` padded tokens, which only affects memory.

Legend: P pairs of the corpus, B sentences of a batch, S source and T target length, end of sentence counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.data.corpus import Integers, Lines, Side, Split, TwoSides
from nmt.text.tokenizer import BOS, EOS, PAD

Indices = npt.NDArray[np.int64]

_BLOCK = 1 << 18  # pairs processed together in a scan of all


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as padded tensors.

    `index` (B,) are their rows in the corpus; `src` (B, S) ends in `</s>`; `src_mask` (B, S) is True at tokens, False
    at padding; `tgt_in` (B, T) starts with `<s>`; `tgt_out` (B, T) is `tgt_in` shifted by one and ends in `</s>`;
    `n_tokens` counts the tokens of `tgt_out`, and `token_indices` (n_tokens,) index them in the flattened `tgt_out`.
    """

    index: Tensor
    src: Tensor
    src_mask: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    token_indices: Tensor
    n_tokens: int

    @property
    def tgt_mask(self) -> Tensor:
        """(B, T) bool, True at tokens, False at padding."""
        return self.tgt_out != PAD

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`."""
        if device.type == "cpu":
            return self
        names = ("src", "src_mask", "tgt_in", "tgt_out", "token_indices")
        moved: dict[str, Any] = {name: sent(getattr(self, name), device) for name in names}
        return replace(self, **moved)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to `device` asynchronously, which takes pinned memory."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


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


class Lengths:
    """Lengths (P,) of one side of every pair, end of sentence counted.

    Stored in the smallest integer type, returned as int64, since sums and products of small integers would overflow.
    """

    def __init__(self, n_ids: Integers) -> None:
        """`n_ids` (P,): the lengths without end of sentence."""
        self._n_ids = _narrow(n_ids)
        self._max, self._sum = int(n_ids.max(initial=0)) + 1, int(n_ids.sum(dtype=np.int64)) + len(n_ids)

    @overload
    def __getitem__(self, rows: int) -> np.int64: ...
    @overload
    def __getitem__(self, rows: Integers | slice) -> Indices: ...
    def __getitem__(self, rows: Integers | slice | int) -> Indices | np.int64:
        """Return the lengths of `rows`, int64."""
        lengths: Indices | np.int64 = self._n_ids[rows].astype(np.int64) + 1
        return lengths

    def max(self) -> int:
        """Return the maximum length."""
        return self._max

    def sum(self) -> int:
        """Return the sum of all lengths."""
        return self._sum


class PairLengths:
    """Source and target lengths of every pair."""

    def __init__(self, src: Integers, tgt: Integers) -> None:
        """`src`, `tgt` (P,): lengths without end of sentence."""
        self.src, self.tgt = Lengths(src), Lengths(tgt)
        self._n_pairs = len(tgt)

    def __len__(self) -> int:
        return self._n_pairs

    def longest(self, n: int) -> Indices:
        """Return the rows of the `n` pairs with the longest sides, longest first; ties are broken by row."""
        best = np.arange(0)
        for start in range(0, len(self), _BLOCK):
            rows = np.concatenate((best, np.arange(start, min(start + _BLOCK, len(self)))))
            sides = np.maximum(self.src[rows], self.tgt[rows])
            best = rows[np.argsort(_narrow(sides.max() - sides), kind="stable")[:n]]
        return best

    def sort(self, rows: Indices) -> Indices:
        """Sort `rows` by target length and, within one, by source length, ascending and descending in turn.

        Neighbours are thus similar on both sides even where the target length changes.
        """
        src, tgt = self.src[rows], self.tgt[rows]
        return rows[np.lexsort((np.where(tgt % 2 == 0, src, -src), tgt))]

    def split(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split `rows` consecutively so that rows x longest side <= max_tokens; a longer pair is a batch of its own."""
        longest = np.maximum(self.src[rows], self.tgt[rows])
        start, widest = 0, 0
        for i, length in enumerate(longest.tolist()):
            if i > start and (i - start + 1) * max(widest, length) > max_tokens:
                yield rows[start:i]
                start, widest = i, 0
            widest = max(widest, length)
        if len(rows):
            yield rows[start:]


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


def epoch_updates(lengths: PairLengths, plan: BatchPlan, epoch: int) -> EpochUpdates:
    """Return the updates of `epoch`: every pair exactly once, in an order that depends only on the three arguments.

    The pairs are shuffled and cut into pools of at least `pool_pairs`; a pool is halved again and again by source or
    target length into updates of equal numbers of target tokens (at most `update_tokens`, give or take one sentence),
    and these are shuffled.
    """
    rng = np.random.default_rng([plan.seed, epoch])
    rows = np.arange(len(lengths), dtype=np.min_scalar_type(len(lengths)))
    rng.shuffle(rows)
    sizes: list[int] = []
    for pool in np.array_split(rows, max(1, len(rows) // plan.pool_pairs)):  # views, reordered in place
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
    narrow_src, narrow_tgt = _narrow(src), _narrow(tgt)
    orders = np.lexsort((narrow_src, narrow_tgt)), np.lexsort((narrow_tgt, narrow_src))
    return list(_Cut(src, tgt).parts(orders, 0, n_parts))


class _Cut:
    """Halves pairs that are sorted both by target and by source length; the halves stay sorted both ways."""

    def __init__(self, src: Indices, tgt: Indices) -> None:
        self._src, self._tgt = src, tgt
        self._is_low = np.zeros(len(tgt), np.bool_)

    def parts(self, orders: tuple[Indices, Indices], by: int, n_parts: int) -> Iterator[Indices]:
        """Yield the parts of pairs given in both `orders`, each in the order of its last halving, at first `by`."""
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


def _narrow(numbers: Integers) -> Integers:
    """Copy to the smallest unsigned integer type; numpy sorts two-byte integers many times faster."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def even_batches(lengths: PairLengths, max_tokens: int) -> list[Indices]:
    """Return batches of at most `max_tokens` with every pair once, sorted by length, for validation."""
    return list(lengths.split(lengths.sort(np.arange(len(lengths))), max_tokens))


class Pairs:
    """The pairs of a split, in one direction or in both, from which batches are gathered."""

    def __init__(self, split: Split, src: str, tgt: str, both_directions: bool = False) -> None:
        """With `both_directions`, row P + i is row i with source and target swapped."""
        one, other = (Lines(split.ids(language), split.ends(language)) for language in (src, tgt))
        if both_directions:
            self._take(TwoSides(one, other), TwoSides(other, one))
        else:
            self._take(one, other)

    @classmethod
    def of_sides(cls, src: Side, tgt: Side) -> Pairs:
        """Make pairs of the lines of `src` and `tgt`, which must be equally many."""
        pairs = cls.__new__(cls)
        pairs._take(src, tgt)
        return pairs

    def _take(self, src: Side, tgt: Side) -> None:
        self.lengths, self._src, self._tgt = PairLengths(src.n_ids(), tgt.n_ids()), src, tgt

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Indices) -> Batch:
        """Return the pairs `rows` (B,) as a padded batch."""
        src = self._src.gather(rows, EOS)
        tgt_out = self._tgt.gather(rows, EOS)
        tgt_in = np.concatenate((np.full((len(rows), 1), BOS), tgt_out[:, :-1]), axis=1)
        tgt_in[tgt_in == EOS] = PAD  # what follows </s> is padding
        return Batch(
            index=torch.from_numpy(rows),
            src=torch.from_numpy(src),
            src_mask=torch.from_numpy(src != PAD),
            tgt_in=torch.from_numpy(tgt_in),
            tgt_out=torch.from_numpy(tgt_out),
            token_indices=torch.from_numpy(np.flatnonzero(tgt_out != PAD)),
            n_tokens=int(self.lengths.tgt[rows].sum()),
        )
