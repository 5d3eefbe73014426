"""From a prepared corpus to updates: which pairs are learned from together, and in which order.

An *update* is what one optimizer step learns from, about `update_tokens` target tokens of sentences of similar length;
in a run its content is a function of (seed, epoch) alone. Only then is it shared among processes and split into
micro-batches of at most `max_tokens` tokens, padding counted, which is a matter of memory.

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

from nmt.data.corpus import Split
from nmt.data.sides import Lines, Side, TwoSides
from nmt.text.tokenizer import BOS, EOS, PAD

Indices = npt.NDArray[np.int64]

_BLOCK = 1 << 18  # pairs looked at together where all are looked at


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as padded tensors.

    `index` (B,) are their rows among the pairs; `src` (B, S) ends in `</s>`; `src_mask` (B, S) is True where a token
    stands; `tgt_in` (B, T) starts with `<s>`; `tgt_out` (B, T) is what follows each, to `</s>`; `n_tokens` counts the
    tokens of `tgt_out`, and `places` (n_tokens,) are where they stand in its B * T places.
    """

    index: Tensor
    src: Tensor
    src_mask: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    places: Tensor
    n_tokens: int

    @property
    def tgt_mask(self) -> Tensor:
        """(B, T) bool, True where a token stands."""
        return self.tgt_out != PAD

    def to(self, device: torch.device) -> Batch:
        """The same batch on `device`."""
        if device.type == "cpu":
            return self
        names = ("src", "src_mask", "tgt_in", "tgt_out", "places")
        moved: dict[str, Any] = {name: sent(getattr(self, name), device) for name in names}
        return replace(self, **moved)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy of a CPU tensor on `device`, on its way: only what leaves from pinned memory need not be waited for."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Update:
    """One optimizer step: its rows in the corpus, alike in length, and their target tokens."""

    rows: Indices
    n_tokens: int

    def share(self, rank: int, size: int) -> Indices:
        """The rows that process `rank` of `size` learns from; the shares are alike in length, and may be empty."""
        return self.rows[rank::size]


@dataclass(frozen=True)
class BatchPlan:
    """How an epoch is cut up: see the fields of the same names in the configuration."""

    update_tokens: int
    pool_pairs: int
    seed: int


class Lengths:
    """Lengths (P,) of one side of every pair, end of sentence counted.

    Held in as few bytes as they need, given out as int64: sums and products of small integers would overflow.
    """

    def __init__(self, n_ids: npt.NDArray[Any]) -> None:
        """`n_ids` (P,): the lengths without end of sentence."""
        self._n_ids = _narrow(n_ids)
        self._max, self._sum = int(n_ids.max(initial=0)) + 1, int(n_ids.sum(dtype=np.int64)) + len(n_ids)

    def __getitem__(self, rows: npt.NDArray[Any] | slice | int) -> Any:
        """The lengths of `rows`, int64."""
        return self._n_ids[rows].astype(np.int64) + 1

    def max(self) -> int:
        """The greatest length."""
        return self._max

    def sum(self) -> int:
        """All lengths together."""
        return self._sum


class PairLengths:
    """Source and target lengths of every pair."""

    def __init__(self, src: npt.NDArray[Any], tgt: npt.NDArray[Any]) -> None:
        """`src`, `tgt` (P,): lengths without end of sentence."""
        self.src, self.tgt = Lengths(src), Lengths(tgt)
        self._n_pairs = len(tgt)

    def __len__(self) -> int:
        return self._n_pairs

    def longest(self, n: int) -> Indices:
        """The rows of the `n` pairs with the longest sides, longest first; of equal ones the first."""
        best = np.arange(0)
        for start in range(0, len(self), _BLOCK):
            rows = np.concatenate((best, np.arange(start, min(start + _BLOCK, len(self)))))
            sides = np.maximum(self.src[rows], self.tgt[rows])
            best = rows[np.argsort(_narrow(sides.max() - sides), kind="stable")[:n]]
        return best

    def sort(self, rows: Indices) -> Indices:
        """`rows` by target length and, within one, by source length up and down in turn, so that neighbours are
        alike on both sides even where the target length changes."""
        src, tgt = self.src[rows], self.tgt[rows]
        return rows[np.lexsort((np.where(tgt % 2 == 0, src, -src), tgt))]

    def split(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Consecutive runs of `rows` with rows x longest side <= max_tokens; a longer single pair stands alone."""
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
    """The updates of an epoch in the order they are learned from, made as they are asked for.

    What is held is one array of all rows, of the smallest integers that hold them: four bytes for each pair.
    """

    def __init__(self, lengths: PairLengths, rows: npt.NDArray[Any], ends: Indices, order: Indices) -> None:
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
    """All updates of `epoch`, every pair exactly once, in an order that depends on `lengths`, `plan` and `epoch` alone.

    The pairs are shuffled and cut into pools of at least `pool_pairs`; a pool is halved again and again by source or
    target length into updates of equal numbers of target tokens (at most `update_tokens`, give or take one sentence),
    and these are shuffled.
    """
    rng = np.random.default_rng([plan.seed, epoch])
    rows = np.arange(len(lengths), dtype=np.min_scalar_type(len(lengths)))
    rng.shuffle(rows)
    sizes: list[int] = []
    for pool in np.array_split(rows, max(1, len(rows) // plan.pool_pairs)):  # views: each is put in order in place
        src, tgt = lengths.src[pool], lengths.tgt[pool]
        parts = cut(src, tgt, -(-int(tgt.sum()) // plan.update_tokens))
        sizes += map(len, parts)
        pool[:] = pool[np.concatenate(parts)]
    return EpochUpdates(lengths, rows, np.cumsum(sizes), rng.permutation(len(sizes)))


def cut(src: Indices, tgt: Indices, n_parts: int) -> list[Indices]:
    """Pairs of these lengths (N,) in `n_parts` of about equal numbers of target tokens, alike in length on both sides:
    their numbers 0 … N - 1, part by part.

    Halved again and again, by source or by target length, whichever leaves less padding: sorting by one length and
    then the other would leave the long and rare sentences unlike on the other side.
    """
    if n_parts == 1 or len(tgt) < 2:
        return [np.arange(len(tgt))]
    narrow_src, narrow_tgt = _narrow(src), _narrow(tgt)
    orders = np.lexsort((narrow_src, narrow_tgt)), np.lexsort((narrow_tgt, narrow_src))
    return list(_Cut(src, tgt).parts(orders, 0, n_parts))


class _Cut:
    """Halves pairs that are in order both ways, by target and by source length; so are the halves, without sorting."""

    def __init__(self, src: Indices, tgt: Indices) -> None:
        self._src, self._tgt = src, tgt
        self._is_low = np.zeros(len(tgt), np.bool_)

    def parts(self, orders: tuple[Indices, Indices], by: int, n_parts: int) -> Iterator[Indices]:
        """The parts of some pairs, given in both `orders`; a part is in the order of its last halving, first `by`."""
        if n_parts == 1 or len(orders[by]) < 2:
            if len(orders[by]):
                yield orders[by]
            return
        (tgt_middle, tgt_slots), (src_middle, src_slots) = (self._middle(order, n_parts) for order in orders)
        by, middle = (1, src_middle) if src_slots < tgt_slots else (0, tgt_middle)
        low, high, other = orders[by][:middle], orders[by][middle:], orders[1 - by]
        self._is_low[low] = True
        is_low = self._is_low[other]
        self._is_low[low] = False
        for half, other_half, n in ((low, other[is_low], n_parts // 2), (high, other[~is_low], n_parts - n_parts // 2)):
            yield from self.parts((other_half, half) if by else (half, other_half), by, n)

    def _middle(self, pairs: Indices, n_parts: int) -> tuple[int, int]:
        """Where to halve `pairs`, and the positions of both halves if each was a padded batch."""
        src, tgt = self._src[pairs], self._tgt[pairs]
        tokens = np.cumsum(tgt)
        middle = int(np.searchsorted(tokens, tokens[-1] * (n_parts // 2) // n_parts, side="right"))
        halves = slice(middle), slice(middle, None)
        return middle, sum(len(tgt[half]) * int(src[half].max(initial=0) + tgt[half].max(initial=0)) for half in halves)


def _narrow(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy in the smallest unsigned integers that hold them; numpy sorts those of two bytes many times faster."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def even_batches(lengths: PairLengths, max_tokens: int) -> list[Indices]:
    """Every pair once in batches of at most `max_tokens`, sorted by length: for validation."""
    return list(lengths.split(lengths.sort(np.arange(len(lengths))), max_tokens))


class Pairs:
    """The pairs of a split, in one direction or in both, ready to be gathered into batches."""

    def __init__(self, split: Split, src: str, tgt: str, both_directions: bool = False) -> None:
        """With `both_directions` row P + i is row i the other way round."""
        one, other = (Lines(split.ids(language), split.ends(language)) for language in (src, tgt))
        if both_directions:
            self._take(TwoSides(one, other), TwoSides(other, one))
        else:
            self._take(one, other)

    @classmethod
    def of_sides(cls, src: Side, tgt: Side) -> Pairs:
        """Pairs of the lines of `src` and `tgt`, which are as many."""
        pairs = cls.__new__(cls)
        pairs._take(src, tgt)
        return pairs

    def _take(self, src: Side, tgt: Side) -> None:
        self.lengths, self._src, self._tgt = PairLengths(src.n_ids(), tgt.n_ids()), src, tgt

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Indices) -> Batch:
        """The pairs `rows` (B,) as a Batch."""
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
            places=torch.from_numpy(np.flatnonzero(tgt_out != PAD)),
            n_tokens=int(self.lengths.tgt[rows].sum()),
        )
