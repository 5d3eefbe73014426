"""From a prepared corpus to updates: which pairs are learned from together, and in which order.

An *update* is what one optimizer step learns from, about `update_tokens` target tokens of sentences of similar length;
its content is a function of (seed, epoch) alone. Only then is it split into micro-batches of at most `max_tokens`
tokens, padding counted, which is a matter of memory.

Legend: P pairs of the corpus, B sentences of a batch, S source and T target length, end of sentence counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.data.corpus import Split
from nmt.tokenizer import BOS, EOS, PAD

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as padded tensors.

    `index` (B,) are their rows in the corpus; `src` (B, S) ends in `</s>`; `src_mask` (B, S) is True where a token
    stands; `tgt_in` (B, T) starts with `<s>`; `tgt_out` (B, T) is what follows each, to `</s>`; `n_tokens` counts the
    tokens of `tgt_out`.
    """

    index: Tensor
    src: Tensor
    src_mask: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    n_tokens: int

    @property
    def tgt_mask(self) -> Tensor:
        """(B, T) bool, True where a token stands."""
        return self.tgt_out != PAD

    def to(self, device: torch.device) -> Batch:
        """The same batch on `device`."""
        if device.type == "cpu":
            return self
        names = ("src", "src_mask", "tgt_in", "tgt_out")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


@dataclass(frozen=True)
class Update:
    """One optimizer step: the rows of each of its micro-batches, and the target tokens of all of them."""

    micro_batches: tuple[Indices, ...]
    n_tokens: int


@dataclass(frozen=True)
class BatchPlan:
    """How an epoch is cut up: see the fields of the same names in the configuration."""

    update_tokens: int
    max_tokens: int
    pool_pairs: int
    seed: int


class PairLengths:
    """Source and target lengths (P,) of every pair, end of sentence counted."""

    def __init__(self, src: npt.NDArray[Any], tgt: npt.NDArray[Any]) -> None:
        self.src = src.astype(np.int64) + 1
        self.tgt = tgt.astype(np.int64) + 1

    def sort(self, rows: Indices) -> Indices:
        """`rows` by target length and, within one, by source length up and down in turn, so that neighbours are
        alike on both sides even where the target length changes."""
        tgt = self.tgt[rows]
        return rows[np.lexsort((np.where(tgt % 2 == 0, self.src[rows], -self.src[rows]), tgt))]

    def cut(self, rows: Indices, n_parts: int) -> list[Indices]:
        """`rows` in `n_parts` of about equal numbers of target tokens, alike in length on both sides.

        Halved again and again, by source or by target length, whichever leaves less padding: sorting by one length
        and then the other would leave the long and rare sentences unlike on the other side.
        """
        if n_parts == 1 or len(rows) < 2:
            return [rows]
        halves = []
        for by, then in ((self.tgt, self.src), (self.src, self.tgt)):
            ordered = rows[np.lexsort((then[rows], by[rows]))]
            tokens = np.cumsum(self.tgt[ordered])
            middle = int(np.searchsorted(tokens, tokens[-1] * (n_parts // 2) / n_parts, side="right"))
            parts = ordered[:middle], ordered[middle:]
            halves.append((sum(self._slots(part) for part in parts), parts))
        _, (low, high) = min(halves, key=lambda half: half[0])
        return [part for part in (*self.cut(low, n_parts // 2), *self.cut(high, n_parts - n_parts // 2)) if len(part)]

    def _slots(self, rows: Indices) -> int:
        """Positions of a padded batch of `rows`, both sides."""
        return len(rows) * int(self.src[rows].max(initial=0) + self.tgt[rows].max(initial=0))

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


def epoch_updates(lengths: PairLengths, plan: BatchPlan, epoch: int) -> list[Update]:
    """All updates of `epoch`, every pair exactly once, in an order that depends on (seed, epoch) alone.

    The pairs are shuffled, cut into pools of at least `pool_pairs`, sorted by length within a pool, cut into updates
    of equal numbers of target tokens (at most `update_tokens`, give or take one sentence), and these are shuffled.
    """
    rng = np.random.default_rng([plan.seed, epoch])
    order = rng.permutation(len(lengths.tgt))
    n_pools = max(1, len(order) // plan.pool_pairs)
    updates = []
    for pool in np.array_split(order, n_pools):
        n_updates = -(-int(lengths.tgt[pool].sum()) // plan.update_tokens)
        updates += lengths.cut(pool, n_updates)
    return [
        Update(tuple(lengths.split(updates[i], plan.max_tokens)), int(lengths.tgt[updates[i]].sum()))
        for i in rng.permutation(len(updates))
    ]


def even_batches(lengths: PairLengths, max_tokens: int) -> list[Indices]:
    """Every pair once in batches of at most `max_tokens`, sorted by length: for validation."""
    return list(lengths.split(lengths.sort(np.arange(len(lengths.tgt))), max_tokens))


class Pairs:
    """The pairs of a split in one direction, ready to be gathered into batches."""

    def __init__(self, split: Split, src: str, tgt: str) -> None:
        self.lengths = PairLengths(split.lengths(src), split.lengths(tgt))
        self._src = _Side(split.ids(src), split.ends(src))
        self._tgt = _Side(split.ids(tgt), split.ends(tgt))

    def __len__(self) -> int:
        return len(self.lengths.tgt)

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
            n_tokens=int(self.lengths.tgt[rows].sum()),
        )


class _Side:
    """One language of a split: the ids of all lines one after the other, and where each line ends."""

    def __init__(self, ids: npt.NDArray[Any], ends: npt.NDArray[np.int64]) -> None:
        self.ids, self.ends = ids, ends

    def gather(self, rows: Indices, last: int) -> Indices:
        """Lines `rows` (B,), each followed by the id `last` -> (B, longest) int64, padded on the right."""
        ends = self.ends[rows]
        starts = np.where(rows > 0, self.ends[np.maximum(rows - 1, 0)], 0)
        lengths = ends - starts
        column = np.arange(int(lengths.max()) + 1)
        inside = column < lengths[:, None]
        gathered = np.where(column == lengths[:, None], last, PAD)
        gathered[inside] = self.ids[(starts[:, None] + column)[inside]]
        return gathered.astype(np.int64)
