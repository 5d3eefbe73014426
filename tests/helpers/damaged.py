"""Files that are damaged at random, with cells that say where they belong."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from random import Random
from typing import IO

import pytest

from nmt.errors import DataError
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Units
from reading import Reader

NAMED = Layout(("de", "en"), {})

_ODD = [
    b'"',
    b'""',
    b"\n",
    b"\r",
    b"\t",
    b",",
    b";",
    b"\\",
    b"\x00",
    b"\xff",
    b"{",
    b"[",
    b"}",
    b"null",
    b"1e999",
    b"NaN",
]
_ODD += [
    b"\\ud800",
    b'"de":',
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"-",
    b"true",
    b'"\n"',
    b"\x00\x00\x00\x00",
    b"\xff" * 8,
]


def content(data: bytes, name: str = "f") -> Input:
    """Return a file with this content that can only be read forwards."""

    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        stream = BytesIO(data)
        stream.seekable = lambda: False  # type: ignore[method-assign]
        yield stream

    return Input(name, "", opened)


def pairs(read: Reader, data: bytes, layout: Layout = NAMED) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return the pairs of a file that have text on both sides, and the number of skipped units by reason."""
    units = Units()
    rows = (row[:2] for row in read(content(data), layout, units))
    return [row for row in rows if not units.skip_blank(row, layout.languages)], units.skipped


def problem(read: Reader, data: bytes, layout: Layout = NAMED) -> str:
    """Return the message of the error that reading a file raises."""
    with pytest.raises(DataError) as caught:
        pairs(read, data, layout)
    return str(caught.value)


def cell(language: str, row: int) -> str:
    """Return a text that contains its language, its row and a checksum, so that damage is detected."""
    text = f"{language} {row}"
    return f"{text} {zlib.crc32(text.encode()):08x}"


def place(text: str) -> tuple[str, int] | None:
    """Return the language and row of a `cell`; None if the text is not a cell."""
    parts = re.fullmatch(r"(\w\w) (\d+) ([0-9a-f]{8})", text)
    return (parts[1], int(parts[2])) if parts and cell(parts[1], int(parts[2])) == text else None


def damage(data: bytes, random: Random) -> bytes:
    """Return the file cut off, with bytes flipped, or with parts inserted, removed or repeated."""
    for _ in range(random.choice([1, 1, 2, 5])):
        at, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
        end = min(end, at + random.choice([1, 4, 100]))
        match random.randrange(6):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
            case 2:
                data = data[:at] + random.choice(_ODD) + data[at:]
            case 3:
                data = data[:at] + data[end:]
            case 4:
                data = data[:end] + data[at:]
            case _:
                data = data[:at] + bytes(byte ^ (1 << random.randrange(8)) for byte in data[at:end]) + data[end:]
    return data


def read_damaged(read: Reader, data: bytes, layout: Layout) -> tuple[int, list[tuple[str, str]]]:
    """Read a file of cells: DataError in one line, or pairs. Returns the number of pairs, and those shifted."""
    found = []
    try:
        for src, tgt, _ in read(content(data), layout, Units()):
            pair = src, tgt
            found.append(pair)
            "".join(pair).encode()
            assert "\n" not in "".join(pair) and "\r" not in "".join(pair)
    except DataError as error:
        assert str(error).startswith("f") and len(str(error).splitlines()) == 1, str(error)
    places = [(pair, place(pair[0]), place(pair[1])) for pair in found]
    return len(found), [pair for pair, de, en in places if de and en and de[1] != en[1]]
