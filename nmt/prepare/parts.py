"""Parts of a source that are read independently of each other: ranges of the lines of aligned files."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from nmt.console import printable
from nmt.errors import DataError
from nmt.files.read import open_regular, reading
from nmt.prepare.pairs import parse_score
from nmt.text.formats import text_problem
from nmt.text.lines import LINE_BYTES, READ_TWICE, read_lines, unequal

RANGE_LINES = 1 << 17
"""Lines of a range."""
_CUT_BYTES = 1 << 24  # that are searched for line feeds at a time
_READ_BYTES = 1 << 20  # that are decoded at a time: their lines fit a processor's cache


class Side(BaseModel, frozen=True):
    """Lines of one file that follow each other."""

    path: str
    start: int
    """Offset of the first byte."""
    end: int
    """Offset after the last byte."""


class Range(BaseModel, frozen=True):
    """Pairs of lines of two aligned files, and perhaps the lines of a file with their scores."""

    first: Side
    second: Side
    scores: Side | None
    line: int
    """Number of the first line, from 1."""
    n_lines: int


def cut_aligned(
    first: Path,
    second: Path,
    n_lines: int = RANGE_LINES,
    scores: Path | None = None,
) -> list[Range]:
    """Cut two aligned files, which are not compressed, into ranges of `n_lines` lines; the last one has fewer.

    Args:
        scores: a file with a number for each pair.

    Raises DataError if they have different numbers of lines, or one cannot be read.
    """
    paths = [first, second] if scores is None else [first, second, scores]
    cuts = [_offsets(path, n_lines) for path in paths]
    total = cuts[0][1]
    for path, (_, n) in zip(paths, cuts, strict=True):
        if n != total:
            raise unequal(first, total, path, n)
    ranges = []
    for i in range(len(cuts[0][0]) - 1):
        sides = [
            Side(path=str(path), start=offsets[i], end=offsets[i + 1])
            for path, (offsets, _) in zip(paths, cuts, strict=True)
        ]
        one = Range(
            first=sides[0],
            second=sides[1],
            scores=sides[2] if scores is not None else None,
            line=1 + i * n_lines,
            n_lines=min(n_lines, total - i * n_lines),
        )
        ranges.append(one)
    return ranges


def read_range(part: Range) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a range, as `read_aligned` does, and raise what it raises."""
    first, second = (chain.from_iterable(_blocks(part, side)) for side in (part.first, part.second))
    return zip(first, second, strict=True)


def read_range_scores(part: Range) -> Iterator[float]:
    """Yield the scores of a range that has some. Raises DataError for a line that is not a number."""
    assert part.scores is not None
    lines = chain.from_iterable(_blocks(part, part.scores))
    return read_scores(lines, part.scores.path, part.line)


def read_scores(lines: Iterable[str], name: Path | str, first_number: int = 1) -> Iterator[float]:
    """Yield the number in each line; `name` and `first_number`, of the first line, are for messages."""
    for number, line in enumerate(lines, start=first_number):
        score = parse_score(line)
        if score is None:
            raise DataError(f"{name}: line {number}: {printable(line[:40])!r}, where a number is needed as score")
        yield score


def _offsets(path: Path, n_lines: int) -> tuple[list[int], int]:
    """Return the offsets of the lines 1, 1 + n_lines, … and of the end of a file, and its number of lines."""
    offsets, n, size, end = [0], 0, 0, b"\n"
    with reading(path), open_regular(path, READ_TWICE) as file:
        while block := file.read(_CUT_BYTES):
            feeds = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            offsets += [size + 1 + int(feed) for feed in feeds[-(n + 1) % n_lines :: n_lines]]
            n, size, end = n + len(feeds), size + len(block), block[-1:]
    if offsets[-1] != size:
        offsets.append(size)
    return offsets, n + (end != b"\n")


def _blocks(part: Range, side: Side) -> Iterator[list[str]]:
    """Yield the lines of a side in lists."""
    path, number, after = Path(side.path), part.line, part.line + part.n_lines
    with reading(path), open_regular(path, READ_TWICE) as file:
        file.seek(side.start)
        while (position := file.tell()) < side.end:
            data = file.read(min(_READ_BYTES, side.end - position))
            data += b"" if data.endswith(b"\n") else file.readline(LINE_BYTES + 2)
            lines = _decoded(data, path, number)
            if lines is None:
                break
            number += len(lines)
            if number > after:
                break
            yield lines
    if number != after:
        deque(read_lines(path), 0)  # raises the error with its line
        raise DataError(f"{path}: changed while it was read; prepare it again when it is complete")


def _decoded(data: bytes, path: Path, number: int) -> list[str] | None:
    """Decode whole lines of a file, starting at line `number`; None if a line is invalid."""
    if len(data) > LINE_BYTES and max(map(len, data.split(b"\n"))) > LINE_BYTES:
        return None
    if number == 1:
        if text_problem(path, data[: data.find(b"\n") + 1] or data):
            return None
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    if data.endswith(b"\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if b"\r" in data else lines
