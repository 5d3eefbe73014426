"""Batches whose rows hold several sentences each, so that sentences of any lengths are learned together.

Pairs are laid out in rows of equal length, a pair in the same row on both sides, in the same order. A token attends to
its own sentence only. With rows of eight tokens, pairs of three and two, four and four, and one and two tokens:

    source    a a a b b b b c      numbers    0 0 0 1 1 1 1 2      positions    0 1 2 0 1 2 3 0
    target    a a b b b b c c      numbers    0 0 1 1 1 1 2 2      positions    0 1 0 1 2 3 0 1

Matrix products have few different sizes this way, and padding is about a tenth of the tokens.

Legend: N pairs, B rows, L tokens of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.data.batching import Batch, Indices, OnDevice, PackedBatch, Packing
from nmt.model.masks import NO_SENTENCE, Rows
from nmt.text.blocks import ranges
from nmt.text.tokenizer import PAD

ROW_LENGTH = 128
"""Rows have this many tokens, or a multiple of it if a pair is longer."""
ROW_STEPS = 16
"""Batches are filled up with empty rows, up to a sixteenth of their rows, so that few differ in size: a CPU compiles
code for each new size of a matrix product (`row_step` of `nmt.model.device`)."""
TOGETHER = 2 * ROW_LENGTH
"""Pairs up to this length share micro-batches. Longer ones are learned apart, in rows of their own length."""


@dataclass(frozen=True)
class RowBatch(OnDevice):
    """Sentence pairs in rows; all tensors but one are (B, L) int64.

    Each sentence ends in `</s>` in `src` and `tgt_out`, and starts with `<s>` in `tgt_in`. Numbers count the sentences
    of a row, and positions the tokens of a sentence. `token_indices` (n_tokens,) are the indices of the tokens in the
    loss in the flattened `tgt_out`.
    """

    src: Tensor
    src_numbers: Tensor
    src_positions: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    tgt_numbers: Tensor
    tgt_positions: Tensor
    token_indices: Tensor
    n_tokens: int
    labels: None = None
    """Classes; texts with classes have other layouts."""

    @property
    def src_layout(self) -> Rows:
        """The layout of the sources."""
        return Rows(self.src_numbers, self.src_positions)

    @property
    def tgt_layout(self) -> Rows:
        """The layout of the targets."""
        return Rows(self.tgt_numbers, self.tgt_positions)


AnyBatch = Batch | PackedBatch | RowBatch
"""A batch in one of the three layouts."""


class RowPacking(Packing):
    """A maker of batches of pairs in rows."""

    def split(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split pairs into parts of at most `max_tokens` on either side; a longer pair forms its own part.

        Pairs longer than `TOGETHER` form parts with others of their magnitude.
        """
        lengths = self._pairs.lengths
        longest = np.maximum(lengths.src[rows], lengths.tgt[rows])
        magnitudes = np.ceil(np.log2(np.maximum(longest, TOGETHER)))
        for magnitude in np.unique(magnitudes):
            yield from super().split(rows[magnitudes == magnitude], max_tokens)

    def batch(self, rows: Indices) -> RowBatch:  # type: ignore[override]
        """Return the pairs `rows` (N,) as a batch."""
        lengths = self._pairs.lengths
        src, tgt = lengths.src[rows], lengths.tgt[rows]
        length = -(-max(int(src.max()), int(tgt.max())) // ROW_LENGTH) * ROW_LENGTH
        row_of = fill(src, tgt, length)
        order = np.argsort(row_of, kind="stable")
        grid = Grid(row_of[order], length)
        padded = self._pairs.batch(rows[order])
        src_ids = padded.src.numpy()
        tgt_ids = padded.tgt_out.numpy()
        is_src = src_ids != PAD
        is_tgt = tgt_ids != PAD
        scored = self._scored(padded)
        src_places, src_numbers, src_positions = grid.places(is_src.sum(1))
        tgt_places, tgt_numbers, tgt_positions = grid.places(is_tgt.sum(1))
        return RowBatch(
            src=grid.filled(src_places, src_ids[is_src]),
            src_numbers=src_numbers,
            src_positions=src_positions,
            tgt_in=grid.filled(tgt_places, padded.tgt_in.numpy()[is_tgt]),
            tgt_out=grid.filled(tgt_places, tgt_ids[is_tgt]),
            tgt_numbers=tgt_numbers,
            tgt_positions=tgt_positions,
            token_indices=torch.from_numpy(tgt_places if scored is None else tgt_places[scored.numpy()]),
            n_tokens=padded.n_tokens,
        )


def fill(src: Indices, tgt: Indices, length: int) -> Indices:
    """Return the row (N,) of each pair, given the lengths (N,) of its sides, none above `length`, the length of a row.

    Each pair, the longest first, goes to the first row that has room for it on both sides.
    """
    src_room = np.full(len(src), length)
    tgt_room = np.full(len(tgt), length)
    row_of = np.zeros(len(src), np.int64)
    n_rows = 0
    for pair in np.argsort(-np.maximum(src, tgt), kind="stable").tolist():
        fits = (src_room[: n_rows + 1] >= src[pair]) & (tgt_room[: n_rows + 1] >= tgt[pair])
        row = int(fits.argmax())  # the last one is empty
        n_rows = max(n_rows, row + 1)
        src_room[row] -= src[pair]
        tgt_room[row] -= tgt[pair]
        row_of[pair] = row
    return row_of


class Grid:
    """The rows of a batch and the sentences in them."""

    def __init__(self, row_of: Indices, length: int) -> None:
        """`row_of` (N,): the row of each sentence, ascending. `length`: the tokens of a row."""
        self._row_of = row_of
        self._length = length
        self._n_filled = int(row_of[-1]) + 1
        step = max(1, self._n_filled // ROW_STEPS)
        self._n_rows = -(-self._n_filled // step) * step
        self._firsts = np.searchsorted(row_of, row_of)  # the first sentence of each sentence's row

    def places(self, lengths: Indices) -> tuple[Indices, Tensor, Tensor]:
        """Return the place of each token in the flattened rows, and the numbers and positions (B, L) of all places.

        `lengths` (N,) are those of the sentences. Rows without sentences are filled up for the size of the batch: their
        padding attends to itself.
        """
        starts = np.cumsum(lengths) - lengths
        in_row = starts - starts[self._firsts]
        places = ranges(self._row_of * self._length + in_row, lengths)
        numbers = np.full((self._n_rows, self._length), NO_SENTENCE)
        numbers[self._n_filled :] = 0
        numbers.reshape(-1)[places] = np.repeat(np.arange(len(lengths)) - self._firsts, lengths)
        return places, torch.from_numpy(numbers), self.filled(places, ranges(0, lengths), 0)

    def filled(self, places: Indices, values: Indices, rest: int = PAD) -> Tensor:
        """Return rows (B, L) with a value at each place, and `rest` elsewhere."""
        grid = np.full((self._n_rows, self._length), rest, np.int64)
        grid.reshape(-1)[places] = values
        return torch.from_numpy(grid)
