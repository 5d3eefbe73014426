"""Pairs of lines, the updates that they form, and padded or packed batches of them.

An *update* is the pairs of one optimizer step, about `update_tokens` target tokens. Its sentences have mixed lengths,
since a model learns faster from such updates (scripts/results/speedrun.md). Its content depends only on (seed, epoch).
It is then divided over ranks and split into micro-batches of at most `max_tokens` tokens, which only affects memory.

Legend: P pairs of the corpus, B sentences of a batch, S source and T target length, end of sentence counted.

A packed row is padded to a multiple of `step` tokens by one more sentence, the tail, which is not part of the loss; so
tensors have few different sizes, and both sides equally many sentences. `bounds` are padded with empty sentences:

    tokens     a a a b b . . .      (step 4: sentences of 3 and 2 tokens, a tail of 3)
    positions  0 1 2 0 1 0 1 2
    bounds     0 3 5 8 8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.data.lines import Indices, Integers, Lines, Segments, Side
from nmt.data.on_device import OnDevice
from nmt.model.masks import Packed, Padded
from nmt.text.ids import BOS, EOS, PAD, SEPARATOR, ranges

ScoredMask = npt.NDArray[np.bool_]

_SEPARATOR = np.array([SEPARATOR])
_BLOCK = 1 << 18  # pairs processed together in a scan of all


def narrow(numbers: Integers) -> Integers:
    """Return a copy in the smallest unsigned integer type; NumPy sorts two-byte integers many times faster."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


@dataclass(frozen=True)
class Batch(OnDevice):
    """Sentence pairs as padded tensors.

    `src` (B, S) ends in `</s>`; `src_mask` (B, S) is True at tokens, False at padding; `tgt_in` (B, T) starts with
    `<s>`; `tgt_out` (B, T) is `tgt_in` shifted by one and ends in `</s>`; `token_indices` (n_tokens,) are the indices
    of the tokens in the loss in the flattened `tgt_out`. `labels` (B,) int64 are the classes of the pairs, if any, and
    `label_weight` is the weight of the loss of each.
    """

    src: Tensor
    src_mask: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    token_indices: Tensor
    n_tokens: int
    labels: Tensor | None = None
    label_weight: float = 1.0

    @property
    def tgt_mask(self) -> Tensor:
        """(B, T) bool, True at tokens, False at padding."""
        return self.tgt_out != PAD

    @property
    def scored_tokens(self) -> Tensor | None:
        """The indices (n_tokens,) of the tokens in the loss among all target tokens; None if these are all."""
        is_token = self.tgt_mask.flatten()
        if self.n_tokens == int(is_token.sum()):
            return None
        return (is_token.cumsum(0) - 1)[self.token_indices]

    @property
    def src_layout(self) -> Padded:
        """The layout of the sources."""
        return Padded(self.src_mask)

    @property
    def tgt_layout(self) -> Padded:
        """The layout of the targets."""
        return Padded(self.tgt_mask)


def unpadded(lines: Tensor) -> list[Indices]:
    """Return the ids of padded lines (B, L), each without its end of sentence."""
    n_ids = ((lines != PAD).sum(1) - 1).tolist()
    return [line[:n] for line, n in zip(lines.numpy(), n_ids, strict=True)]


def joined(src: Indices, tgt: Indices) -> Indices:
    """Join the ids of a source and its target into one sequence, `source SEPARATOR target`."""
    return np.concatenate((src, _SEPARATOR, tgt))


class Lengths:
    """Lengths (P,) of one side of every pair, including the end of sentence.

    They are stored in the smallest integer type and returned as int64, since sums of small integers would overflow.
    """

    def __init__(self, n_ids: Integers) -> None:
        """`n_ids` (P,): the lengths without end of sentence."""
        self._n_ids = narrow(n_ids)
        self._max = int(n_ids.max(initial=0)) + 1
        self._sum = int(n_ids.sum(dtype=np.int64)) + len(n_ids)

    def __getitem__(self, rows: Integers | slice) -> Indices:
        """Return the lengths of `rows`, int64."""
        return self._n_ids[rows].astype(np.int64) + 1

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
        self.src = Lengths(src)
        self.tgt = Lengths(tgt)
        self._n_pairs = len(tgt)

    def __len__(self) -> int:
        return self._n_pairs

    def max(self) -> int:
        """Return the maximum length of a side."""
        return max(self.src.max(), self.tgt.max())

    def larger_side(self, rows: Indices) -> int:
        """Return the number of tokens of `rows` on the side that has more."""
        return int(max(self.src[rows].sum(), self.tgt[rows].sum()))

    def longest(self, n: int) -> Indices:
        """Return the rows of the `n` pairs with the longest sides, longest first; ties are broken by row."""
        best = np.arange(0)
        for start in range(0, len(self), _BLOCK):
            rows = np.concatenate((best, np.arange(start, min(start + _BLOCK, len(self)))))
            sides = np.maximum(self.src[rows], self.tgt[rows])
            best = rows[np.argsort(narrow(sides.max() - sides), kind="stable")[:n]]
        return best

    def sort(self, rows: Indices) -> Indices:
        """Sort `rows` by target length and, if equal, by source length, ascending and descending in turn.

        Neighbours thus have similar lengths on both sides even where the target length changes.
        """
        src = self.src[rows]
        tgt = self.tgt[rows]
        return rows[np.lexsort((np.where(tgt % 2 == 0, src, -src), tgt))]

    def split(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split `rows` into consecutive parts with rows x longest side <= max_tokens; a longer pair forms its own
        part."""
        longest = np.maximum(self.src[rows], self.tgt[rows])
        start = 0
        widest = 0
        for i, length in enumerate(longest.tolist()):
            if i > start and (i - start + 1) * max(widest, length) > max_tokens:
                yield rows[start:i]
                start = i
                widest = 0
            widest = max(widest, length)
        if len(rows):
            yield rows[start:]

    def split_by_side(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split `rows` into consecutive parts of at most `max_tokens` on either side; a longer pair forms its own
        part."""
        start = 0
        n_src = 0
        n_tgt = 0
        for i, (src, tgt) in enumerate(zip(self.src[rows].tolist(), self.tgt[rows].tolist(), strict=True)):
            if i > start and max(n_src + src, n_tgt + tgt) > max_tokens:
                yield rows[start:i]
                start = i
                n_src = 0
                n_tgt = 0
            n_src += src
            n_tgt += tgt
        if len(rows):
            yield rows[start:]


@dataclass(frozen=True)
class Update:
    """The pairs of one optimizer step."""

    _rows: Integers
    """The rows of the pairs, in a small integer type."""
    n_tokens: int
    """The number of target tokens."""

    @property
    def rows(self) -> Indices:
        """The rows of the pairs."""
        return self._rows.astype(np.int64)

    def share(self, rank: int, size: int) -> Indices:
        """Return the rows for rank `rank` of `size`. Shares have nearly equally many pairs and may be empty."""
        return self.rows[rank::size]


def epoch_updates(lengths: PairLengths, update_tokens: int, seed: int, epoch: int, window: int = 0) -> list[Update]:
    """Return the updates of a window of an epoch: every pair once, in an order that depends only on the arguments.

    The pairs are shuffled and cut into updates of nearly equal numbers of target tokens, about `update_tokens`. All
    updates are views of one array, with at most four bytes per pair for up to 2^32 pairs.
    """
    rng = np.random.default_rng([seed, epoch, window])  # a zero at the end changes nothing
    rows = np.arange(len(lengths), dtype=np.min_scalar_type(len(lengths)))
    rng.shuffle(rows)
    if len(rows) == 0:  # a window without pairs has no updates
        return []
    ends = np.cumsum(lengths.tgt[rows])
    n_updates = -(-int(ends[-1]) // update_tokens)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_updates) // n_updates, side="right")
    parts = [part for part in np.split(rows, cuts) if len(part)]
    return [Update(part, int(lengths.tgt[part].sum())) for part in parts]


def even_batches(lengths: PairLengths, max_tokens: int) -> list[Indices]:
    """Return batches of at most `max_tokens` padded tokens as arrays of rows: every pair once, sorted by length."""
    return list(lengths.split(lengths.sort(np.arange(len(lengths))), max_tokens))


class Pairs:
    """Pairs of lines, from which batches are gathered."""

    def __init__(
        self,
        src: Side,
        tgt: Side,
        segments: Segments | None = None,
        scored: Sequence[ScoredMask] | None = None,
        labels: Indices | None = None,
    ) -> None:
        """Pair the lines of `src` and `tgt`, which must be equal in number.

        `segments`: the rows of a window. `scored`: for each target, end of sentence counted, a mask of the tokens in
        the loss; None: all tokens. `labels` (P,): classes. The sum of their losses is weighted so that it is their mean
        once it is divided by `n_scored`: an update's loss is the mean over tokens plus the mean over labels, however it
        is split.
        """
        self.lengths = PairLengths(src.n_ids(), tgt.n_ids())
        self._src = src
        self._tgt = tgt
        self._segments = segments
        self._scored = scored
        self._labels = labels
        self._label_weight = 1.0 if labels is None else self.n_scored / max(len(labels), 1)

    @classmethod
    def changed(
        cls,
        src: Sequence[Indices],
        tgt: Sequence[Indices],
        corpus_rows: Indices,
        scored: Sequence[ScoredMask] | None = None,
        labels: Indices | None = None,
    ) -> Pairs:
        """Return the changed pairs of an update; `corpus_rows` (P,): see the method."""
        segments = Segments([(corpus_rows, np.ones_like(corpus_rows))], 0)
        return cls(Lines.of(src), Lines.of(tgt), segments, scored, labels)

    @property
    def n_scored(self) -> int:
        """The number of target tokens in the loss."""
        if self._scored is None:
            return self.lengths.tgt.sum()
        return int(sum(np.count_nonzero(scored) for scored in self._scored))

    def corpus_rows(self, rows: Indices) -> Indices:
        """Return the rows of pairs among all training pairs; pairs of the second direction follow all pairs of the
        first."""
        if self._segments is None:
            return rows
        direction, indices = np.divmod(rows, len(self._segments))
        corpus_rows: Indices = self._segments.rows(indices) + direction * self._segments.total
        return corpus_rows

    def __len__(self) -> int:
        return len(self.lengths)

    def lines(self, rows: Indices) -> tuple[list[Indices], list[Indices]]:
        """Return the ids of the sources and targets of the pairs `rows`, without their ends of sentence."""
        batch = self.batch(rows)
        return unpadded(batch.src), unpadded(batch.tgt_out)

    def batch(self, rows: Indices) -> Batch:
        """Return the pairs `rows` (B,) as a padded batch."""
        src = self._src.gather(rows, EOS)
        tgt_out = self._tgt.gather(rows, EOS)
        tgt_in = np.concatenate((np.full((len(rows), 1), BOS), tgt_out[:, :-1]), axis=1)
        tgt_in[tgt_in == EOS] = PAD  # what follows </s> is padding
        is_scored = tgt_out != PAD
        if self._scored is not None:
            is_scored = np.zeros(tgt_out.shape, np.bool_)
            for i, row in enumerate(rows.tolist()):
                is_scored[i, : len(self._scored[row])] = self._scored[row]
        indices = np.flatnonzero(is_scored)
        labels = None if self._labels is None else torch.from_numpy(self._labels[rows])
        return Batch(
            src=torch.from_numpy(src),
            src_mask=torch.from_numpy(src != PAD),
            tgt_in=torch.from_numpy(tgt_in),
            tgt_out=torch.from_numpy(tgt_out),
            token_indices=torch.from_numpy(indices),
            n_tokens=len(indices),
            labels=labels,
            label_weight=self._label_weight,
        )


STEP = 64


@dataclass(frozen=True)
class PackedBatch(OnDevice):
    """Sentence pairs without padding: N source and T target tokens, including the tails.

    Each sentence ends in `</s>` in `src` (1, N) and `tgt_out` (1, T), and starts with `<s>` in `tgt_in` (1, T). Bounds
    (B + 1,) int32 and positions (N,), (T,) are as in the module's example; no sentence is longer than `max_len`. The
    tokens in the loss are the first `n_tokens` of `tgt_out`, or the ones at `token_indices` (n_tokens,). `labels` (B,)
    int64 and `label_weight` are as for `Batch`.
    """

    src: Tensor
    src_bounds: Tensor
    src_positions: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    tgt_bounds: Tensor
    tgt_positions: Tensor
    max_len: int
    n_tokens: int
    token_indices: Tensor | None = None
    labels: Tensor | None = None
    label_weight: float = 1.0

    @property
    def src_layout(self) -> Packed:
        """The layout of the sources."""
        return Packed(self.src_bounds, self.src_positions, self.max_len)

    @property
    def tgt_layout(self) -> Packed:
        """The layout of the targets."""
        return Packed(self.tgt_bounds, self.tgt_positions, self.max_len)


class Packing:
    """A maker of packed batches of pairs."""

    def __init__(self, pairs: Pairs, step: int = STEP, max_len: int = 0) -> None:
        """`step` (tokens): see the module; `max_len` (tokens): the minimum of the `max_len` of all batches."""
        self._pairs = pairs
        self._step = step
        self.max_len = max(step, pairs.lengths.max(), max_len)

    def of(self, pairs: Pairs) -> Packing:
        """Return a maker of batches of other pairs."""
        return Packing(pairs, self._step, self.max_len)

    def split(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split `rows` into consecutive parts of at most `max_tokens` on either side; a longer pair forms its own
        part."""
        return self._pairs.lengths.split_by_side(rows, max_tokens)

    def batch(self, rows: Indices) -> PackedBatch:
        """Return the pairs `rows` (B,) as a packed batch."""
        padded = self._pairs.batch(rows)
        src, src_bounds, src_positions = self._row(padded.src.numpy())
        tgt, tgt_bounds, tgt_positions = self._row(padded.tgt_out.numpy())
        tgt_in = np.full_like(tgt, PAD)
        inputs = padded.tgt_in.numpy()[padded.tgt_mask.numpy()]
        tgt_in[: len(inputs)], tgt_in[len(inputs)] = inputs, BOS  # the tail starts like a sentence
        return PackedBatch(
            src=torch.from_numpy(src)[None],
            src_bounds=torch.from_numpy(src_bounds),
            src_positions=torch.from_numpy(src_positions),
            tgt_in=torch.from_numpy(tgt_in)[None],
            tgt_out=torch.from_numpy(tgt)[None],
            tgt_bounds=torch.from_numpy(tgt_bounds),
            tgt_positions=torch.from_numpy(tgt_positions),
            max_len=self.max_len,
            n_tokens=padded.n_tokens,
            token_indices=padded.scored_tokens,
            labels=padded.labels,
            label_weight=padded.label_weight,
        )

    def _row(self, padded: Indices) -> tuple[Indices, npt.NDArray[np.int32], Indices]:
        """Pack padded ids (B, L) into one row with its tail; returns ids, bounds and positions."""
        is_token = padded != PAD
        ends = np.cumsum(is_token.sum(1))
        # rounded up to multiples of the step
        size, n_bounds = (-(-(n + 1) // self._step) * self._step for n in (int(ends[-1]), len(ends) + 1))
        bounds = np.full(n_bounds, size, np.int32)
        bounds[0], bounds[1 : len(ends) + 1] = 0, ends
        ids = np.full(size, PAD, np.int64)
        ids[: ends[-1]] = padded[is_token]
        return ids, bounds, ranges(0, np.diff(bounds))
