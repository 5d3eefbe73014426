"""The training pairs as numbered across their files, and those of a window among them.

Files are mapped when they are first read, and unmapped with the window. P pairs of a window, B lines of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Integers, Lines, Rows, Split, merged
from nmt.data.streams import Segments

_CHUNK = 1 << 16  # lines processed together in a scan of a window


class WindowLines:
    """One language of the pairs of a window."""

    def __init__(self, splits: Sequence[Split], language: str, segments: Segments) -> None:
        """`splits`: the files of all training pairs, whose rows are numbered across them."""
        self._splits, self._language, self._segments = splits, language, segments
        self._ends = np.cumsum([split.n for split in splits])
        self._mapped: dict[int, Lines] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""
        n_ids = np.empty(len(self), np.int32)
        for rows in self._chunks():
            n_ids[rows] = self._lengths(rows)
        self._mapped.clear()
        return n_ids

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        return merged(len(rows), [(places, lines.gather(own, last)) for places, lines, own in self._parts(rows)])

    def ids(self, poll: Callable[[], None]) -> Integers:
        """Return the concatenated ids of all lines; `poll` may raise an exception to interrupt it."""
        chunks: list[Integers] = []
        for rows in self._chunks():
            poll()
            lengths = self._lengths(rows)
            parts = [(np.repeat(places, lengths), lines.flat(own)) for places, lines, own in self._parts(rows)]
            chunk = np.empty(int(lengths.sum()), parts[0][1].dtype)
            for places, ids in parts:
                chunk[places] = ids
            chunks.append(chunk)
        self._mapped.clear()
        return np.concatenate(chunks)

    def _chunks(self) -> Iterator[Rows]:
        return (np.arange(start, min(start + _CHUNK, len(self))) for start in range(0, len(self), _CHUNK))

    def _lengths(self, rows: Rows) -> Rows:
        lengths = np.empty(len(rows), np.int64)
        for places, lines, own in self._parts(rows):
            lengths[places] = lines.spans(own)[1]
        return lengths

    def _parts(self, rows: Rows) -> Iterator[tuple[npt.NDArray[np.bool_], Lines, Rows]]:
        """Yield lines `rows` (B,) by file: their places among them, (B,), the file, and their rows in it."""
        corpus_rows = self._segments.rows(rows)
        numbers = np.searchsorted(self._ends, corpus_rows, side="right")
        for number in np.unique(numbers).tolist():
            places, split = numbers == number, self._splits[number]
            if number not in self._mapped:
                self._mapped[number] = Lines(split.ids(self._language), split.ends(self._language))
            yield places, self._mapped[number], corpus_rows[places] - (int(self._ends[number]) - split.n)


class WindowText:
    """The pairs of a window as a split in memory, whose words BPE-dropout segments again."""

    def __init__(self, splits: Sequence[Split], segments: Segments, poll: Callable[[], None]) -> None:
        self.n = len(segments)
        self._splits, self._segments, self._poll = splits, segments, poll

    def ids(self, language: str) -> Integers:
        """Return the concatenated ids of all lines."""
        return WindowLines(self._splits, language, self._segments).ids(self._poll)

    def ends(self, language: str) -> Rows:
        """Return the end offsets (n,) of the lines."""
        return np.cumsum(WindowLines(self._splits, language, self._segments).n_ids(), dtype=np.int64)
