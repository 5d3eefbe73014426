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

from nmt.data.corpus import Integers, Lines, Side, Split
from nmt.data.cutting import cut, narrow
from nmt.data.streams import Segments
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


def unpadded(lines: Tensor) -> list[Indices]:
    """Return the ids of padded lines (B, L), each without its end of sentence."""
    n_ids = ((lines != PAD).sum(1) - 1).tolist()
    return [line[:n] for line, n in zip(lines.numpy(), n_ids, strict=True)]


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
        self._n_ids = narrow(n_ids)
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

    def max(self) -> int:
        """Return the maximum length of a side."""
        return max(self.src.max(), self.tgt.max())

    def longest(self, n: int) -> Indices:
        """Return the rows of the `n` pairs with the longest sides, longest first; ties are broken by row."""
        best = np.arange(0)
        for start in range(0, len(self), _BLOCK):
            rows = np.concatenate((best, np.arange(start, min(start + _BLOCK, len(self)))))
            sides = np.maximum(self.src[rows], self.tgt[rows])
            best = rows[np.argsort(narrow(sides.max() - sides), kind="stable")[:n]]
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

    def split_by_length(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split `rows` as `split` does, and also into short and long ones where that saves a quarter of the padded
        tokens: for pairs that were not grouped by their length."""
        longest = np.maximum(self.src[rows], self.tgt[rows])
        rows, longest = rows[order := np.argsort(longest, kind="stable")], longest[order]
        padded = len(rows) * longest[-1:]
        n = np.arange(1, len(rows))
        divided = n * longest[:-1] + (len(rows) - n) * longest[-1:]
        if len(n) and divided.min() <= 0.75 * padded[0]:
            first = int(divided.argmin()) + 1
            yield from self.split_by_length(rows[:first], max_tokens)
            yield from self.split_by_length(rows[first:], max_tokens)
        else:
            yield from self.split(rows, max_tokens)


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
    target length into updates of equal numbers of target tokens (at most `update_tokens`, give or take one sentence),
    and these are shuffled.
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


def even_batches(lengths: PairLengths, max_tokens: int) -> list[Indices]:
    """Return batches of at most `max_tokens` with every pair once, sorted by length, for validation."""
    return list(lengths.split(lengths.sort(np.arange(len(lengths))), max_tokens))


class Pairs:
    """The pairs of a split, from which batches are gathered."""

    def __init__(self, split: Split, src: str, tgt: str) -> None:
        one, other = (Lines(split.ids(language), split.ends(language)) for language in (src, tgt))
        self._take(one, other)

    @classmethod
    def of_sides(cls, src: Side, tgt: Side, segments: Segments | None = None) -> Pairs:
        """Make pairs of the lines of `src` and `tgt`, which must be equally many; `segments`: those of a window."""
        pairs = cls.__new__(cls)
        pairs._take(src, tgt, segments)
        return pairs

    def _take(self, src: Side, tgt: Side, segments: Segments | None = None) -> None:
        self.lengths, self._src, self._tgt = PairLengths(src.n_ids(), tgt.n_ids()), src, tgt
        self._segments = segments

    def corpus_rows(self, rows: Indices) -> Indices:
        """Return the rows of pairs among all training pairs; those of the second direction follow all of the first."""
        if self._segments is None:
            return rows
        direction, indices = np.divmod(rows, len(self._segments))
        corpus_rows: Indices = self._segments.rows(indices) + direction * self._segments.total
        return corpus_rows

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
