"""Parquet and Arrow: which columns pair, what is skipped, and what is said about files that will not do."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from nmt.prepare.formats.tables import read_arrow, read_parquet
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Units
from reading import NAMED, Reader, pairs, problem

MAPPING = Layout(("de", "en"), {"de": "translation.de", "en": "translation.en"})


def columns(de: str, en: str) -> Layout:
    return Layout(("de", "en"), {"de": de, "en": en})


def as_parquet(table: pa.Table) -> bytes:
    file = BytesIO()
    parquet.write_table(table, file, row_group_size=7, write_page_checksum=True)
    return file.getvalue()


def as_arrow(table: pa.Table, new: Callable[..., ipc.RecordBatchStreamWriter] = ipc.new_file) -> bytes:
    file = BytesIO()
    with new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return file.getvalue()


FORMATS: list[tuple[Callable[[pa.Table], bytes], Reader]] = [
    (as_parquet, read_parquet), (as_arrow, read_arrow), (partial(as_arrow, new=ipc.new_stream), read_arrow),
]  # fmt: skip
each_format = pytest.mark.parametrize(("write", "read"), FORMATS)


DE, EN = ["x", None, "y\r\n z", ""], ["X", "-", "Y", "Z"]
EXPECTED = ([("x", "X"), ("y z", "Y")], {"no text in de": 2})
STRUCTS = pa.array([{"en": en, "de": de, "n": 1} for de, en in zip(DE, EN, strict=True)])


@each_format
@pytest.mark.parametrize(
    ("table", "layout"),
    [
        (pa.table({"id": [1, 2, 3, 4], "en": EN, "de": DE}), NAMED),
        (pa.table({"de-AT": pa.array(DE, pa.large_string()), "EN": pa.array(EN).dictionary_encode()}), NAMED),
        (pa.table({"a": DE, "b.c": EN}), columns("a", "b.c")),
        (pa.table({"id": [[1]] * 4, "translation": STRUCTS}), MAPPING),
        (pa.table({"a": STRUCTS, "de": EN}), columns("a.de", "a.en")),
        (pa.table({"a": pa.StructArray.from_arrays([STRUCTS], ["b"])}), columns("a.b.de", "a.b.en")),
    ],
)
def test_columns_are_found_by_name_or_path(
    write: Callable[[pa.Table], bytes], read: Reader, table: pa.Table, layout: Layout
) -> None:
    assert pairs(read, write(table), layout) == EXPECTED


@each_format
def test_rows_without_text_are_skipped(write: Callable[[pa.Table], bytes], read: Reader) -> None:
    structs = pa.array([None, {"de": "x", "en": "X"}, {"de": "y", "en": None}])
    expected = [("x", "X")], {"no text in de or en": 1, "no text in en": 1}
    assert pairs(read, write(pa.table({"translation": structs})), MAPPING) == expected
    assert pairs(read, write(pa.table({"de": ["x"], "en": pa.nulls(1)}))) == ([], {"no text in en": 1})
    assert pairs(read, write(pa.table({"de": pa.array([], pa.string()), "en": pa.array([], pa.string())}))) == ([], {})


@each_format
@pytest.mark.parametrize(
    ("table", "layout", "message"),
    [
        (pa.table({"id": [1], "en": ["X"]}), NAMED, "no column for de; the columns are id, en; write columns: {de: "),
        (pa.table({"a": ["x"]}), columns("a", "b"), "no column named b; the columns are a; write"),
        (pa.table({"t": STRUCTS}), NAMED, "no column for de; the columns are t.en, t.de, t.n; write"),
        (pa.table({"de": [1], "en": ["X"]}), NAMED, "column de is of type int64, where text is needed"),
        (pa.table({"de": [b"x"], "en": ["X"]}), NAMED, "column de is of type binary, where text is needed"),
        (pa.table({"a": STRUCTS}), columns("a.de", "a.n"), "column a.n is of type int64, where text is needed"),
        (pa.table({"de": [["x"]], "en": ["X"]}), NAMED, "column de is of type list<"),
        (pa.table({"a": ["x"]}), MAPPING, "no column named translation.de; the columns are a; write"),
        (pa.table({"translation": pa.array([{"en": "X"}])}), MAPPING, "no column named translation.de; the columns "),
    ],
)  # fmt: skip
def test_invalid_columns_raise(
    write: Callable[[pa.Table], bytes], read: Reader, table: pa.Table, layout: Layout, message: str
) -> None:
    assert problem(read, write(table), layout).startswith(f"f: {message}")


@each_format
def test_truncated_or_foreign_files_raise(write: Callable[[pa.Table], bytes], read: Reader) -> None:
    data = write(pa.table({"de": ["x"] * 30, "en": ["X"] * 30}))
    for n in {*range(0, len(data), 97), len(data) - 1, len(data) - 8}:
        assert "not readable as" in problem(read, data[:n])
    for other in (b"de\ten\n" * 100, b"\x00" * 1000, b"FEA1" + b"\x00" * 100):
        assert "not readable as" in problem(read, other)


def test_checksums_of_parquet_are_verified() -> None:
    file, table = BytesIO(), pa.table({"de": ["Wort"], "en": ["word"]})
    parquet.write_table(table, file, compression="none", use_dictionary=False, write_page_checksum=True)
    assert pairs(read_parquet, file.getvalue()) == ([("Wort", "word")], {})
    assert "not readable as Parquet: " in problem(read_parquet, file.getvalue().replace(b"Wort", b"Mord"))


def test_zip_with_wrong_offsets_raises() -> None:
    data = as_arrow(pa.table({"de": ["abcd"] * 3, "en": ["xyz"] * 3}))
    offsets = struct.pack("<4i", 0, 4, 8, 12)
    assert data.count(offsets) == 1
    data = data.replace(offsets, struct.pack("<4i", 0, 8, 4, 12))
    assert problem(read_arrow, data).startswith("f: not readable as Arrow: ")


def test_files_are_copied_only_if_needed_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(as_parquet(pa.table({"de": DE, "en": EN})))
    copies: list[IO[bytes]] = []

    @contextmanager
    def copy() -> Iterator[IO[bytes]]:
        with (tmp_path / "copy").open("w+b") as file:
            copies.append(file)
            yield file

    monkeypatch.setattr("nmt.prepare.formats.tables.tempfile.TemporaryFile", copy)
    file = (tmp_path / "f").open("rb")
    units = Units()
    rows = read_parquet(Input("f", "parquet", lambda: file), NAMED, units)
    assert [row[:2] for row in rows if not units.skip_blank(row[:2], NAMED.languages)] == EXPECTED[0]
    assert units.skipped == EXPECTED[1]
    assert file.closed and not copies
    assert pairs(read_parquet, (tmp_path / "f").read_bytes()) == EXPECTED
    assert [copy.closed for copy in copies] == [True]
    assert "not readable as Parquet" in problem(read_parquet, b"x")
    assert [copy.closed for copy in copies] == [True, True]
