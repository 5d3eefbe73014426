"""Lines of a stream in windows: what has arrived is returned together, without waiting for more.

Nothing is read ahead in the background: data not needed yet stays in the pipe, and its writer waits.
"""

from __future__ import annotations

import io
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO

from nmt.errors import DataError
from nmt.text.lines import LINE_BYTES, decode_lines, long_line

BLOCK = 1 << 16
"""Bytes per read."""

MAX_WINDOW_CHARACTERS = 1 << 24
"""Characters after which a window ends, however few its lines are."""


def windows(
    file: IO[bytes],
    name: str,
    size: int = 4096,
    patience: float = 0.1,
    gap: float = 0.002,
    most: int = MAX_WINDOW_CHARACTERS,
    language: str | None = None,
    check: Callable[[str, bytes], None] | None = None,
) -> Iterator[list[str]]:
    """Yield the lines of an open file, decoded by `decode_lines`, in non-empty lists.

    A list ends at `size` lines or `most` characters, when no line has come for `gap` seconds, and `patience` seconds
    after its first one; a terminal is never waited for. A fast writer fills the gap, and one that awaits an answer has
    it at once. `language`: for messages; `check`: is called with `name` and the first bytes that arrive, and may raise.
    Raises DataError where the file is not UTF-8, after the lines before have been yielded.
    """
    raw = _RawLines(file, name, check)
    lines = decode_lines(raw, name, language)
    if file.isatty():
        patience = gap = 0.0
    error: DataError | None = None
    while error is None:
        window: list[str] = []
        n_characters, deadline, until = 0, float("inf"), float("inf")
        while len(window) < size and n_characters < most and raw.wait(until):
            try:
                line = next(lines, None)
            except DataError as raised:
                error = raised
                break
            if line is None:
                break
            now = time.monotonic()
            if not window:
                deadline = now + patience
            until = min(deadline, now + gap)
            window.append(line)
            n_characters += len(line)
        if window:
            yield window
        elif error is None:
            return
    raise error


class _RawLines:
    """The lines of a file, without their line feeds, and whether the next one is available."""

    def __init__(self, file: IO[bytes], name: str, check: Callable[[str, bytes], None] | None) -> None:
        self._name, self._n_lines, self._check = name, 0, check
        self._error: DataError | None = None
        self._read = file.read1 if isinstance(file, io.BufferedReader) else file.read
        self._lines: deque[bytes] = deque()
        self._begun: list[bytes] = []  # parts of a line whose end has not arrived
        self._n_begun = 0  # bytes
        self._ended = False
        self._poll = select.poll()
        try:
            self._poll.register(file.fileno(), select.POLLIN)
            self._may_block = True
        except io.UnsupportedOperation:
            self._may_block = False

    def __iter__(self) -> Iterator[bytes]:
        while self.wait(float("inf")) and self._lines:
            yield self._lines.popleft()
        if self._error is not None:
            raise self._error

    def wait(self, deadline: float) -> bool:
        """Wait for a line or the end of the file until `deadline` (time.monotonic); return whether there is one."""
        while not self._lines and not self._ended:
            if self._may_block and not self._poll.poll(_milliseconds(deadline)):
                return False
            self._take(self._read(BLOCK))
        return True

    def _take(self, block: bytes) -> None:
        if self._check is not None and self._n_lines == 0:
            self._check(self._name, block)
        first, *others = block.split(b"\n")
        self._begun.append(first)
        self._n_begun += len(first)
        self._ended = not block
        if self._n_begun > LINE_BYTES:
            self._error, self._ended, self._begun = long_line(self._name, self._n_lines + 1), True, []
            return
        if others or self._ended:
            line = b"".join(self._begun)
            self._n_lines += len(others)
            self._begun = [others.pop()] if others else []
            self._n_begun = sum(map(len, self._begun))
            if line or not self._ended:  # the last line may lack its end
                self._lines.append(line)
            self._lines.extend(others)


def _milliseconds(deadline: float) -> float | None:
    return None if deadline == float("inf") else max(0.0, 1000 * (deadline - time.monotonic()))
