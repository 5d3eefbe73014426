"""Lines as token ids: the sides of pairs, and the rows of a window. P lines of a side, B lines of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nmt.text.ids import PAD

Indices = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer[Any]]
"""Integers of any type; large arrays have the smallest one."""


def lengths_between(ends: Integers) -> Integers:
    """Return the lengths (P,) of consecutive lines that end at `ends` (P,)."""
    lengths = np.empty(len(ends), np.int32)
    lengths[:1] = ends[:1]
    np.subtract(ends[1:], ends[:-1], out=lengths[1:])  # without the int64 arrays of np.diff
    return lengths


class Side(Protocol):
    """Lines as token ids, without special tokens."""

    def __len__(self) -> int:
        """Return P, the number of lines."""

    def n_ids(self) -> Integers:
        """Return the number of ids of each line, (P,)."""

    def gather(self, rows: Indices, last: int) -> Indices:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""


class Lines:
    """One language of a split: the concatenated ids of all lines, and the end of each line."""

    def __init__(self, ids: Integers, ends: Integers) -> None:
        """`ids`: of any integer type; `ends` (P,): line i is ids[ends[i-1]:ends[i]], line 0 starts at 0."""
        self.ids = ids
        self.ends = ends

    @classmethod
    def of(cls, lines: Sequence[Indices]) -> Lines:
        """Join one or more sets of lines."""
        return cls(np.concatenate(lines), np.cumsum([len(line) for line in lines]))

    def __len__(self) -> int:
        return len(self.ends)

    def n_ids(self) -> Integers:
        """Return the number of ids of each line, (P,)."""
        return lengths_between(self.ends)

    def gather(self, rows: Indices, last: int) -> Indices:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        starts, lengths = self.spans(rows)
        column = np.arange(int(lengths.max(initial=0)) + 1)
        inside = column < lengths[:, None]
        gathered = np.where(column == lengths[:, None], last, PAD)
        gathered[inside] = self.ids[(starts[:, None] + column)[inside]]
        return gathered.astype(np.int64)

    def spans(self, rows: Indices) -> tuple[Indices, Indices]:
        """Return the offsets at which lines `rows` (B,) start in the ids, and the number of ids of each line."""
        starts = np.where(rows > 0, self.ends[np.maximum(rows - 1, 0)], 0).astype(np.int64)
        return starts, self.ends[rows] - starts

    def between(self, firsts: Indices, stops: Indices) -> Integers:
        """Return the concatenated ids of runs of lines: run i is lines `firsts[i]` to `stops[i]` - 1."""
        last_begins, last_lengths = self.spans(stops - 1)
        begins = self.spans(firsts)[0]
        ends = last_begins + last_lengths
        ids = np.asarray(self.ids)
        return np.concatenate([ids[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])


def concatenated(lines: Sequence[Lines]) -> Lines:
    """Concatenate lines in memory; the lines of a single file stay memory-mapped."""
    if len(lines) == 1:
        return lines[0]
    shifts = np.cumsum([0, *(len(of_file.ids) for of_file in lines[:-1])])
    ends = [of_file.ends + shift for of_file, shift in zip(lines, shifts.tolist(), strict=True)]
    return Lines(np.concatenate([of_file.ids for of_file in lines]), np.concatenate(ends))


class Joined:
    """A concatenation of sides, without a copy."""

    def __init__(self, *sides: Side) -> None:
        self._sides = sides
        self._ends = np.cumsum([len(side) for side in sides])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def n_ids(self) -> Integers:
        """Return the number of ids of each line, (P,)."""
        return np.concatenate([side.n_ids() for side in self._sides])

    def gather(self, rows: Indices, last: int) -> Indices:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        numbers = np.searchsorted(self._ends, rows, side="right")
        parts = []
        for i, side in enumerate(self._sides):
            places = numbers == i
            if places.any():
                parts.append((places, side.gather(rows[places] - (self._ends[i] - len(side)), last)))
        gathered = np.full((len(rows), max((lines.shape[1] for _, lines in parts), default=1)), PAD, np.int64)
        for places, lines in parts:
            gathered[places, : lines.shape[1]] = lines
        return gathered


class Segments:
    """Rows of the training pairs in the order of a window, as consecutive runs."""

    def __init__(self, runs: Sequence[tuple[Indices, Indices]], total: int) -> None:
        """`runs`: arrays of the first rows and the lengths of runs; `total`: the number of all training pairs."""
        none = np.zeros(0, np.int64)
        self.firsts = np.concatenate([none, *(firsts for firsts, _ in runs)])
        self.sizes = np.concatenate([none, *(sizes for _, sizes in runs)])
        self._ends = np.cumsum(self.sizes)
        self._shifts = self.firsts - (self._ends - self.sizes)
        self.total = total

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def rows(self, indices: Indices) -> Indices:
        """Return the rows of the pairs with these indices in the window."""
        rows: Indices = indices + self._shifts[np.searchsorted(self._ends, indices, side="right")]
        return rows
