"""The training pairs numbered across their files, and the pairs of a window.

Files are mapped while they are read, never for longer: a window may have a little of each of many. P pairs of a window,
B lines of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Integers, Lines, Rows, Split
from nmt.data.mixing import Segments

_CHUNK = 1 << 16  # lines that are read together


class WindowLines:
    """One language of the pairs of a window, whose ids are read into memory when they are first gathered."""

    def __init__(self, splits: Sequence[Split], language: str, segments: Segments) -> None:
        """`splits`: the files of all training pairs, whose rows are numbered across them."""
        self._splits, self._language, self._segments = splits, language, segments
        self._ends = np.cumsum([split.n for split in splits])
        self._lines: Lines | None = None

    def __len__(self) -> int:
        return len(self._segments)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""
        n_ids = [np.zeros(0, np.int32)]
        for lines, firsts, sizes in self._parts():
            within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            n_ids.append(lines.spans(np.repeat(firsts, sizes) + within)[1].astype(np.int32))
        return np.concatenate(n_ids)

    def ids(self, poll: Callable[[], None]) -> Integers:
        """Return the concatenated ids of all lines; `poll` may raise an exception to interrupt it."""
        ids: list[Integers] = [np.zeros(0, np.uint16)]
        for lines, firsts, sizes in self._parts():
            poll()
            ids.append(lines.between(firsts, firsts + sizes))
        return np.concatenate(ids)

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        if self._lines is None:
            self._lines = Lines(self.ids(lambda: None), np.cumsum(self.n_ids(), dtype=np.int64))
        return self._lines.gather(rows, last)

    def _parts(self) -> Iterator[tuple[Lines, Rows, Rows]]:
        """Yield runs of consecutive lines, about `_CHUNK` lines at a time, all in one file: the file, the first line
        of each, and their sizes."""
        firsts, sizes = self._segments.firsts, self._segments.sizes
        numbers = np.searchsorted(self._ends, firsts, side="right")
        is_first = (np.diff(numbers) != 0) | (np.diff(np.cumsum(sizes) // _CHUNK) != 0)
        for runs in np.split(np.arange(len(firsts)), np.flatnonzero(is_first) + 1):
            if len(runs):
                number = int(numbers[runs[0]])
                split = self._splits[number]
                lines = Lines(split.ids(self._language), split.ends(self._language))
                yield lines, firsts[runs] - (int(self._ends[number]) - split.n), sizes[runs]


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
