"""Files to be read that are made of other files: a part of one, its decompressed content."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from nmt.errors import DataError

BLOCK = 1 << 16
"""Bytes that are read at a time."""


class DamagedError(DataError):
    """A compressed file or an archive is cut off or damaged."""

    def __init__(self, name: Path | str, kind: str, problem: str, after: str = "") -> None:
        super().__init__(f"{name}: not readable as {kind}{after}: {problem}")
        self._name, self._kind, self._problem = name, kind, problem

    def after(self, place: str) -> DamagedError:
        """Return the same error with the last place that was readable, such as `line 3`."""
        return DamagedError(self._name, self._kind, self._problem, f" after {place}")


def file_of(read: Callable[[int], bytes]) -> io.BufferedReader:
    """Make a file of a function that returns the next bytes, at most the given number, and none at the end."""
    return io.BufferedReader(_Raw(read), BLOCK)


class _Raw(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of buffers is Python 3.12's
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def section(read: Callable[[int], bytes], size: int, name: str, kind: str) -> io.BufferedReader:
    """Make a file of the next `size` bytes that `read` returns; `name` and `kind` are for messages.

    Raises DamagedError, as it is read, if there are fewer.
    """
    rest = size

    def next_bytes(most: int) -> bytes:
        nonlocal rest
        data = read(min(most, rest))
        if rest and not data:
            raise DamagedError(name, kind, "it is cut off")
        rest -= len(data)
        return data

    return file_of(next_bytes)
