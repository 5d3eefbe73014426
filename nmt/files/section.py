"""A part of an open file as a file of its own."""

from __future__ import annotations

import io
from collections.abc import Callable

from nmt.files.compressed import BLOCK, DamagedError


def section(read: Callable[[int], bytes], size: int, name: str, kind: str) -> io.BufferedReader:
    """Give the next `size` bytes that `read` returns; `name` and `kind` are for messages.

    Raises DamagedError, as it is read, if there are fewer.
    """
    return io.BufferedReader(_Section(read, size, name, kind), BLOCK)


class _Section(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes], size: int, name: str, kind: str) -> None:
        self._read, self._rest, self._name, self._kind = read, size, name, kind

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # Buffer, from Python 3.12 on
        data = self._read(min(len(buffer), self._rest))
        if self._rest and not data:
            raise DamagedError(self._name, self._kind, "it is cut off")
        self._rest -= len(data)
        buffer[: len(data)] = data
        return len(data)
