"""The token ids of one side of a corpus, and the concatenation of two sides.

Legend: P lines of a side, B lines of a batch.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nmt.text.tokenizer import PAD

Rows = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer[Any]]
"""Integers of any type: those that hold much data are as small as they can be."""


def lengths_between(ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return the lengths (P,) of consecutive lines that end at `ends` (P,)."""
    lengths = np.empty(len(ends), np.int32)
    lengths[:1] = ends[:1]
    np.subtract(ends[1:], ends[:-1], out=lengths[1:])  # without the int64 arrays of np.diff
    return lengths


class Side(Protocol):
    """The token ids of lines, without special tokens."""

    def __len__(self) -> int:
        """P."""

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""


class Lines:
    """One language of a split: the concatenated ids of all lines, and where each line ends."""

    def __init__(self, ids: Integers, ends: npt.NDArray[np.int64]) -> None:
        """`ids`: of any integer type; `ends` (P,): line i is ids[ends[i-1]:ends[i]], line 0 starts at 0."""
        self._ids, self._ends = ids, ends

    def __len__(self) -> int:
        return len(self._ends)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""
        return lengths_between(self._ends)

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        ends = self._ends[rows]
        starts = np.where(rows > 0, self._ends[np.maximum(rows - 1, 0)], 0)
        lengths = ends - starts
        column = np.arange(int(lengths.max(initial=0)) + 1)
        inside = column < lengths[:, None]
        gathered = np.where(column == lengths[:, None], last, PAD)
        gathered[inside] = self._ids[(starts[:, None] + column)[inside]]
        return gathered.astype(np.int64)


class TwoSides:
    """The concatenation of two sides of equally many lines, without a copy."""

    def __init__(self, first: Side, second: Side) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""
        return np.concatenate((self._first.n_ids(), self._second.n_ids()))

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        n = len(self._first)
        is_first = rows < n
        first, second = self._first.gather(rows[is_first], last), self._second.gather(rows[~is_first] - n, last)
        gathered = np.full((len(rows), max(first.shape[1], second.shape[1])), PAD, np.int64)
        gathered[is_first, : first.shape[1]] = first
        gathered[~is_first, : second.shape[1]] = second
        return gathered
