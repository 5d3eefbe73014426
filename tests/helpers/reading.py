"""Run a reader of files that hold both languages on bytes, whole or damaged."""

from __future__ import annotations

import contextlib
import io
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext

import pytest

from nmt.errors import DataError
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Row, Units

Reader = Callable[[Input, Layout, Units], Iterator[Row]]
Pairs = list[tuple[str, str]]


def read_bytes(
    reader: Reader,
    data: bytes | str,
    languages: tuple[str, str] = ("de", "en"),
    columns: Mapping[str, str | list[str]] | None = None,
    name: str = "F",
) -> tuple[Pairs, dict[str, int]]:
    """Return the pairs of a file with text on both sides, and the number of skipped units by reason."""
    raw = data.encode() if isinstance(data, str) else data
    units = Units()
    file, layout = Input(name, "any", lambda: nullcontext(io.BytesIO(raw))), Layout(languages, columns or {})
    rows = (row[:2] for row in reader(file, layout, units))
    return [row for row in rows if not units.skip_blank(row, languages)], units.skipped


def error_of(reader: Reader, data: bytes | str, columns: Mapping[str, str] | None = None) -> str:
    """Return the message of the error that reading this file raises: one line that begins with the file name."""
    with pytest.raises(DataError) as caught:
        read_bytes(reader, data, columns=columns)
    message = str(caught.value)
    assert message.startswith("F: ") and "\n" not in message
    return message


_ENCODINGS = ["utf-16", "utf-16-be", "utf-32", "utf-8-sig", "latin-1", "gb18030"]
_DECLARED = [*_ENCODINGS, "utf-7", "zlib", "idna", "punycode", "unicode_escape", "undefined", "nonsense"]


def check_damaged(reader: Reader, data: str, inserted: list[bytes], n: int) -> None:
    """Read n damaged copies of a file: each gives pairs or a DataError, and a pair has texts of one unit only.

    Text belongs to unit i if it contains the word `wiii`, such as `w777`. `inserted`: markup to insert anywhere.
    """
    random_number = random.Random(0)
    n_read = 0
    for _ in range(n):
        damaged = _damage(random_number, data.encode(), inserted)
        with contextlib.suppress(DataError):
            pairs, _ = read_bytes(reader, damaged)
            n_read += 1
            for pair in pairs:
                numbers = {match[1] for match in re.finditer(r"w(\d)\1\1\b", " ".join(pair))}
                assert len(numbers) < 2, (pair, damaged)
    assert n / 50 < n_read < n  # else the damage is too large or too small to tell anything


def _damage(rng: random.Random, data: bytes, inserted: list[bytes]) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                data = data[:place]
            case 1:
                data = data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
            case 2 | 3:
                data = data[:place] + rng.choice(inserted) + data[place:]
            case 4:
                data = re.sub(rb"(encoding=\"|charset=)[\w-]*", rb"\g<1>" + rng.choice(_DECLARED).encode(), data)
            case _:
                with contextlib.suppress(UnicodeError):
                    data = data.decode().encode(rng.choice(_ENCODINGS))
    return data
