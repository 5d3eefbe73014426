"""Batches whose rows hold several sentences each, so that sentences of any lengths are learned together.

Pairs are laid out in rows of equal length, a pair in the same row on both sides, and a token attends to its own
sentence only. With rows of eight tokens, pairs of three and two, four and four, and one and two tokens:

    source    b b b b a a a c      numbers    1 1 1 1 0 0 0 2      positions    0 1 2 3 0 1 2 0
    target    b b b b a a c c      numbers    1 1 1 1 0 0 2 2      positions    0 1 2 3 0 1 0 1

Matrix products have few different sizes this way, and padding is about a tenth of the tokens.

Legend: N pairs, B rows, L tokens of a row, K sides of a pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from nmt.data.batching import Batch, PackedBatch, Pairs
from nmt.data.lines import Indices
from nmt.data.on_device import OnDevice
from nmt.model.masks import NO_SENTENCE, Rows
from nmt.text.ids import PAD, ranges

ROW_LENGTH = 128
"""Rows have this many tokens, or a multiple of it if a pair is longer."""
ROW_STEPS = 16
"""Batches are filled up with empty rows, up to a sixteenth of their rows, to have few different sizes: a CPU compiles
code for each new size of a matrix product (`row_step` of `nmt.model.device`)."""
LONGEST_TOGETHER = 2 * ROW_LENGTH
"""Longer pairs form micro-batches of their own unless they have most of the tokens: attention takes longer in longer
rows, but long pairs by themselves leave more padding."""


@dataclass(frozen=True)
class RowBatch(OnDevice):
    """Sentence pairs in rows; ids, numbers and positions are (B, L) int64.

    Each sentence ends in `</s>` in `src` and `tgt_out`, and starts with `<s>` in `tgt_in`. Numbers count the sentences
    of the batch, and positions the tokens of a sentence, which are at most `max_len`. `token_indices` (n_tokens,) are
    the indices of the tokens in the loss in the flattened `tgt_out`. `labels` (N,) int64 and `label_weight` are as for
    `Batch`.
    """

    src: Tensor
    src_numbers: Tensor
    src_positions: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    tgt_numbers: Tensor
    tgt_positions: Tensor
    max_len: int
    token_indices: Tensor
    n_tokens: int
    labels: Tensor | None = None
    label_weight: float = 1.0
    copied: Tensor | None = None
    """The sources of `crossconst`, as ids, numbers and positions (3, B, L): the first token of the source, which is the
    tag of the target language, followed by the target."""

    @property
    def src_layout(self) -> Rows:
        """The layout of the sources."""
        return Rows(self.src_numbers, self.src_positions, self.max_len)

    @property
    def tgt_layout(self) -> Rows:
        """The layout of the targets."""
        return Rows(self.tgt_numbers, self.tgt_positions, self.max_len)

    def from_target(self) -> Self:
        """Return the batch with its targets as sources."""
        assert self.copied is not None, "made for `crossconst` only"
        src, numbers, positions = self.copied
        return replace(self, src=src, src_numbers=numbers, src_positions=positions)


AnyBatch = Batch | PackedBatch | RowBatch
"""A batch in one of the three layouts."""


class RowPacking:
    """A maker of batches of pairs in rows."""

    def __init__(self, pairs: Pairs, copies: bool = False) -> None:
        """`copies`: whether batches also have their targets as sources, for `crossconst`."""
        self._pairs = pairs
        self._copies = copies

    def of(self, pairs: Pairs) -> RowPacking:
        """Return a maker of batches of other pairs."""
        return RowPacking(pairs, self._copies)

    def split(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split pairs into parts of at most `max_tokens` on either side; a longer pair forms its own part.

        Pairs longer than `LONGEST_TOGETHER` come last, in parts of their own, unless they have most of the tokens.
        """
        lengths = self._pairs.lengths
        longest = np.maximum(lengths.src[rows], lengths.tgt[rows])
        is_long = longest > LONGEST_TOGETHER
        if 2 * longest[is_long].sum() > longest.sum():
            yield from lengths.split_by_side(rows, max_tokens)
        else:
            yield from lengths.split_by_side(rows[~is_long], max_tokens)
            yield from lengths.split_by_side(rows[is_long], max_tokens)

    def batch(self, rows: Indices) -> RowBatch:
        """Return the pairs `rows` (N,) as a batch."""
        padded = self._pairs.batch(rows)
        src_ids = padded.src.numpy()
        tgt_ids = padded.tgt_out.numpy()
        is_tgt = tgt_ids != PAD
        targets = tgt_ids[is_tgt]
        lengths = [(src_ids != PAD).sum(1), is_tgt.sum(1)]
        if self._copies:
            lengths.append(lengths[1] + 1)
        grid = Grid(np.stack(lengths))
        src_numbers, src_positions = grid.layout(0)
        tgt_numbers, tgt_positions = grid.layout(1)
        copied = None
        if self._copies:
            copies = np.insert(targets, np.cumsum(lengths[1]) - lengths[1], src_ids[:, 0])
            copied = torch.stack((grid.filled(2, copies), *grid.layout(2)))
        tgt_places = torch.from_numpy(grid.places[1])
        scored = padded.scored_tokens
        return RowBatch(
            src=grid.filled(0, src_ids[src_ids != PAD]),
            src_numbers=src_numbers,
            src_positions=src_positions,
            tgt_in=grid.filled(1, padded.tgt_in.numpy()[is_tgt]),
            tgt_out=grid.filled(1, targets),
            tgt_numbers=tgt_numbers,
            tgt_positions=tgt_positions,
            max_len=max(int(n.max()) for n in lengths),
            token_indices=tgt_places if scored is None else tgt_places[scored],
            n_tokens=padded.n_tokens,
            labels=padded.labels,
            label_weight=padded.label_weight,
            copied=copied,
        )


class Grid:
    """The rows of a batch, and the places of its sentences in them."""

    def __init__(self, lengths: Indices) -> None:
        """`lengths` (K, N): the lengths of the sides of the pairs."""
        self._lengths = lengths
        self._row_length = -(-int(lengths.max()) // ROW_LENGTH) * ROW_LENGTH
        starts, n_rows = fill(lengths, self._row_length)
        step = max(1, n_rows // ROW_STEPS)
        self._n_rows = -(-n_rows // step) * step
        self.places = [ranges(first, n) for first, n in zip(starts, lengths, strict=True)]
        """The place of each token of a side in the flattened rows."""

    def layout(self, side: int) -> tuple[Tensor, Tensor]:
        """Return the numbers and positions (B, L) of a side; see `Rows`."""
        lengths = self._lengths[side]
        numbers = np.repeat(np.arange(len(lengths)), lengths)
        return self.filled(side, numbers, NO_SENTENCE), self.filled(side, ranges(0, lengths), 0)

    def filled(self, side: int, values: Indices, rest: int = PAD) -> Tensor:
        """Return rows (B, L) with a value for each token of a side, and `rest` at padding."""
        rows = np.full((self._n_rows, self._row_length), rest, np.int64)
        rows.reshape(-1)[self.places[side]] = values
        return torch.from_numpy(rows)


def fill(lengths: Indices, row_length: int) -> tuple[Indices, int]:
    """Return where each side (K, N) begins in flattened rows, and the number of rows.

    `lengths` (K, N) of the sides are at most `row_length`. Pairs are placed longest first, each in the first row
    that has room for all of its sides (first-fit decreasing).
    """
    taken = np.zeros_like(lengths)  # (K, rows)
    starts = np.zeros_like(lengths)
    n_rows = 0
    for pair in np.argsort(-lengths.max(0), kind="stable").tolist():
        ends = taken[:, : n_rows + 1] + lengths[:, pair, None]
        row = int((ends <= row_length).all(0).argmax())  # the last one is empty
        n_rows = max(n_rows, row + 1)
        starts[:, pair] = row * row_length + taken[:, row]
        taken[:, row] = ends[:, row]
    return starts, n_rows
