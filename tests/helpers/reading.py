"""Run a reader of files that hold both languages on bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import IO

import pytest

from nmt.errors import DataError
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Row, Units

Reader = Callable[[Input, Layout, Units], Iterator[Row]]
Pairs = list[tuple[str, str]]
NAMED = Layout(("de", "en"), {})


def content(data: bytes, name: str = "f") -> Input:
    """Return a file with this content that can only be read forwards."""

    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        stream = BytesIO(data)
        stream.seekable = lambda: False  # type: ignore[method-assign]
        yield stream

    return Input(name, "tmx", opened)


def pairs(reader: Reader, data: bytes | str, layout: Layout = NAMED, name: str = "f") -> tuple[Pairs, dict[str, int]]:
    """Return the pairs of a file with text on both sides, and the number of skipped units by reason."""
    units, raw = Units(), data.encode() if isinstance(data, str) else data
    rows = (row[:2] for row in reader(content(raw, name), layout, units))
    return [row for row in rows if not units.skip_blank(row, layout.languages)], units.skipped


def read_bytes(
    reader: Reader,
    data: bytes | str,
    languages: tuple[str, str] = ("de", "en"),
    columns: Mapping[str, str | list[str]] | None = None,
    name: str = "F",
) -> tuple[Pairs, dict[str, int]]:
    """Return the same of a file whose columns have these names."""
    return pairs(reader, data, Layout(languages, columns or {}), name)


def problem(reader: Reader, data: bytes | str, layout: Layout = NAMED, name: str = "f") -> str:
    """Return the message of the error that reading a file raises: one line that begins with the file name."""
    with pytest.raises(DataError) as caught:
        pairs(reader, data, layout, name)
    message = str(caught.value)
    assert message.startswith(name) and "\n" not in message
    return message


def error_of(reader: Reader, data: bytes | str, columns: Mapping[str, str] | None = None) -> str:
    """Return the same message for a file whose columns have these names."""
    return problem(reader, data, Layout(("de", "en"), columns or {}), "F")
