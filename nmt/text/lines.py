"""Reading of the lines of text files and streams, alone or aligned with the lines of another file.

Only a line feed ends a line: U+2028, NUL, form feeds and lone carriage returns do not shift the alignment. A byte order
mark at the start of a file and a carriage return at the end of a line are removed.

Nothing is read ahead in the background: data that is not needed yet stays in the pipe, and its writer waits.
"""

from __future__ import annotations

import codecs
import io
import itertools
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias, TypeVar

from nmt.console import amount
from nmt.errors import DataError
from nmt.files.compressed import DamagedError, decompressed
from nmt.files.read import open_text, reading
from nmt.text.formats import BEGINNING, other_encoding, other_format, text_problem

LINE_BYTES = 1 << 25
"""Maximum size of a line in bytes."""
MAX_TEXT_CHARACTERS = 1 << 29
"""Maximum size of a text in memory, in characters."""
LINE_OVERHEAD = 200
"""Memory of a line or a pair in addition to its characters, in characters."""
READ_TWICE = ", since it is read more than once; write the text into one"
"""The reason why a source must be a regular file, which ends a message."""

TextPair: TypeAlias = tuple[str, str]
"""The two texts of a pair: source and target, or in the alphabetical order of their languages."""

_Lines = TypeVar("_Lines", bound=str | tuple[object, ...])
_One = TypeVar("_One")
_Other = TypeVar("_Other")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file or pipe without their ends. A .gz, .bz2, .xz or .zst file is decompressed.

    Raises DataError, with line and byte, where the file is not UTF-8, and for a line of more than `LINE_BYTES`.
    """
    with reading(path), _open(path) as file:
        yield from lines_in(file, path)


def read_aligned(first: Path, second: Path) -> Iterator[TextPair]:
    """Yield pairs of line n of one file and line n of the other.

    Raises DataError if the numbers of lines differ, and in the cases of `read_lines`.
    """
    return pair_lines(read_lines(first), read_lines(second), first, second)


def pair_lines(
    lines: Iterator[_One], other_lines: Iterator[_Other], first: Path, second: Path
) -> Iterator[tuple[_One, _Other]]:
    """Yield pairs of item n of one text and item n of the other; `first` and `second` are their names for messages.

    Raises DataError if the numbers of items differ.
    """
    n = 0
    for n, line in enumerate(lines, start=1):
        other = next(other_lines, None)
        if other is None:
            raise unequal(first, n + sum(1 for _ in lines), second, n - 1)
        yield line, other
    n_more = sum(1 for _ in other_lines)
    if n_more:
        raise unequal(first, n, second, n + n_more)


def decode_lines(lines: Iterable[bytes], name: Path | str) -> Iterator[str]:
    """Yield the decoded lines of an open file without their ends; `name` is for messages. Raises DataError."""
    number = 0
    is_mixed = False
    try:
        for number, raw in enumerate(lines, start=1):
            if number == 1:
                if problem := text_problem(raw):
                    raise DataError(f"{name}: {problem}")
                raw = raw.removeprefix(codecs.BOM_UTF8)
            line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            is_mixed = is_mixed or not line.isascii()
            yield line
    except UnicodeDecodeError as error:
        byte = f"0x{error.object[error.start]:02X}"
        advice = other_encoding(error.object, is_mixed)
        raise DataError(
            f"{name}: not UTF-8 at line {number}, byte {error.start + 1} of the line ({byte}); {advice}"
        ) from None
    except DamagedError as error:
        raise error.after(f"line {number}") from error


def lines_in(file: IO[bytes], name: Path | str) -> Iterator[str]:
    """Yield the lines of an open file, with the errors of `read_lines`; `name` is for messages."""
    return decode_lines(bounded_lines(file, name), name)


def bounded_lines(file: IO[bytes], name: Path | str) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends; `name` is for messages.

    Raises DataError for a line of more than `LINE_BYTES` without reading it all: a few compressed bytes can expand to a
    line of any length.
    """
    for number in itertools.count(1):
        line = file.readline(LINE_BYTES + 1)
        if len(line) > LINE_BYTES + line.endswith(b"\n"):
            raise long_line(name, number)
        if not line:
            return
        yield line


def bounded_list(lines: Iterable[_Lines], what: str) -> list[_Lines]:
    """Return lines, or pairs of lines, as a list.

    Raises DataError if they do not fit into memory: a few compressed bytes can expand to any number of lines.
    """
    result = []
    size = 0
    for line in lines:
        result.append(line)
        parts = (line,) if isinstance(line, str) else line
        size += LINE_OVERHEAD + sum(len(part) for part in parts if isinstance(part, str))
        if size > MAX_TEXT_CHARACTERS:
            raise DataError(f"{what}: does not fit into memory after {len(result):,} lines; use a few thousand lines")
    return result


def long_line(name: Path | str, number: int) -> DataError:
    """Return the error for a line of more than `LINE_BYTES`."""
    return DataError(
        f"{name}: line {number} has more than {LINE_BYTES >> 20} MB; is it text, with a line feed after each sentence?"
    )


def refuse_other_texts(path: Path) -> None:
    """Raise DataError if the beginning of a side of a corpus is not text with one sentence per line."""
    start = beginning(path)
    if kind := (b"\\id " in start[:7] and "USFM") or other_format(start):  # may begin with a byte order mark
        raise DataError(
            f"{path}: {kind}, where a text file with one sentence per line is needed: write the text of each language "
            "to a file of its own (for a corpus in TMX, XLIFF, PO, TSV, CSV or JSON Lines, set path instead of files; "
            "names of USFM files end in .usfm or .sfm)"
        )
    if problem := text_problem(start):
        raise DataError(f"{path}: {problem}")


def beginning(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed; b"" if it is damaged, as reported when its lines are read."""
    with reading(path), _open(path) as file:
        try:
            return file.read(BEGINNING)
        except DamagedError:
            return b""


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    with open_text(path) as file, decompressed(file, path) as content:
        yield content


def unequal(first: Path, n_first: int, second: Path, n_second: int) -> DataError:
    """Return the error for aligned files with different numbers of lines."""
    names = [str(first), str(second)]
    where = ""
    if first.parent == second.parent:
        names = [first.name, second.name]
        where = f" (in {first.parent})"
    counts = f"{names[0]} has {amount(n_first, 'line')}, {names[1]} {n_second:,}"
    return DataError(f"{counts}: they must pair line by line{where}")


BYTES_PER_READ = 1 << 16
"""Number of bytes per read."""

MAX_WINDOW_CHARACTERS = 1 << 24
"""Number of characters after which a window ends."""
GAP = 0.002
PATIENCE = 0.1
"""Seconds without a further line, and after the first line, after which a window ends."""


def windows(
    file: IO[bytes],
    name: str,
    size: int = 4096,
    most: int = MAX_WINDOW_CHARACTERS,
    check: Callable[[str, bytes], None] | None = None,
) -> Iterator[list[str]]:
    """Yield the lines of an open file, decoded by `decode_lines`, in non-empty lists.

    A list ends at `size` lines or `most` characters, when no line has arrived for `GAP` seconds, and `PATIENCE` seconds
    after its first line; at a terminal, it ends with each line. So lines of a fast writer are collected, and a writer
    that waits for an answer is answered at once. `check`: called with `name` and the first bytes that arrive; it may
    raise. Raises DataError where the file is not UTF-8, after the lines before have been yielded.
    """
    raw = _RawLines(file, name, check)
    lines = decode_lines(raw, name)
    waits = not file.isatty()
    error = None
    while error is None:
        window: list[str] = []
        n_characters = 0
        deadline = float("inf")
        until = float("inf")
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
                deadline = now + PATIENCE
            until = min(deadline, now + GAP) if waits else now
            window.append(line)
            n_characters += len(line)
        if window:
            yield window
        elif error is None:
            return
    raise error


class _RawLines:
    """An iterator over the lines of a file, without line feeds; the caller can limit the wait for the next line."""

    def __init__(self, file: IO[bytes], name: str, check: Callable[[str, bytes], None] | None) -> None:
        self._name = name
        self._n_lines = 0
        self._check = check
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
        """Wait until `deadline` (time.monotonic) for a line or the end of the file; return whether one has arrived."""
        while not self._lines and not self._ended:
            if self._may_block and not self._poll.poll(_milliseconds(deadline)):
                return False
            self._take(self._read(BYTES_PER_READ))
        return True

    def _take(self, block: bytes) -> None:
        if self._check is not None and self._n_lines == 0:
            self._check(self._name, block)
        first, *following = block.split(b"\n")
        self._begun.append(first)
        self._n_begun += len(first)
        self._ended = not block
        if self._n_begun > LINE_BYTES:
            self._error = long_line(self._name, self._n_lines + 1)
            self._ended = True
            self._begun = []
            return
        if following or self._ended:
            line = b"".join(self._begun)
            self._n_lines += len(following)
            self._begun = [following.pop()] if following else []
            self._n_begun = sum(map(len, self._begun))
            if line or not self._ended:  # the last line may lack its end
                self._lines.append(line)
            self._lines.extend(following)


def _milliseconds(deadline: float) -> float | None:
    return None if deadline == float("inf") else max(0.0, 1000 * (deadline - time.monotonic()))
