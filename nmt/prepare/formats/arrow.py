"""Readers of Parquet and of both Arrow formats: file (Feather) and stream."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from nmt.config.data import LABEL
from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.files.write import writing
from nmt.prepare.formats.tables import class_names, find_columns, label_text, shown
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Row, Units

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1024  # that are in memory as Python text
_BUFFER = 1 << 20  # bytes
_MAGIC = b"ARROW1"
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream
_TEXT = re.compile(r"(string|large_string|string_view|null)|dictionary<values=(large_)?string,.*")
_NUMBER = re.compile(r"u?int\d+|halffloat|float|double|bool")
_Batches: TypeAlias = "Callable[[list[str]], Iterator[pa.RecordBatch]]"
"""Yields the batches of a file, with at least the columns of these names."""


def read_parquet(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a Parquet file; a few pages are in memory at a time."""
    return _read(file, layout, units, "Parquet", _open_parquet)


def read_arrow(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of an Arrow file or stream; one record batch is in memory at a time."""
    return _read(file, layout, units, "Arrow", _open_ipc)


def _open_parquet(stream: IO[bytes]) -> tuple[pa.Schema, _Batches]:
    from pyarrow import parquet

    table = parquet.ParquetFile(  # to buffer before reading would hold all columns of a row group
        stream, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
    )
    return table.schema_arrow, lambda names: table.iter_batches(batch_size=_ROWS, columns=names, use_threads=False)


def _open_ipc(stream: IO[bytes]) -> tuple[pa.Schema, _Batches]:
    """Open an Arrow file or stream.

    Raises ValueError if a stream has no end: pyarrow accepts one that was truncated after a batch.
    """
    from pyarrow import ipc

    options = ipc.IpcReadOptions(use_threads=False)
    if stream.read(len(_MAGIC)) == _MAGIC:
        reader = ipc.open_file(stream, options=options)
        return reader.schema, lambda _: map(reader.get_batch, range(reader.num_record_batches))
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(size - len(_END), 0))
    if stream.read() != _END:
        raise ValueError("neither an Arrow file nor a complete Arrow stream")
    stream.seek(0)
    batches = ipc.open_stream(stream, options=options)
    return batches.schema, lambda _: iter(batches)


def _read(
    file: Input,
    layout: Layout,
    units: Units,
    kind: str,
    opened: Callable[[IO[bytes]], tuple[pa.Schema, _Batches]],
) -> Iterator[Row]:
    import pyarrow as pa

    n_rows = 0
    with _seekable(file) as stream:
        with _reading(file, kind):
            schema, read_batches = opened(stream)
            columns = _columns(schema, layout, file.name)
            batches = read_batches(columns)
        classes = class_names(schema.metadata)
        while True:
            with _reading(file, kind, n_rows):
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)  # else damaged offsets would lead anywhere in memory
                chosen = _flat(pa.Table.from_batches([batch])).select(columns)
            for part in chosen.to_batches(max_chunksize=_ROWS):
                with _reading(file, kind, n_rows):
                    cells = [column.to_pylist() for column in part.columns]
                if LABEL in layout.languages:
                    side = layout.languages.index(LABEL)
                    cells[side] = [label_text(label, classes.get(columns[side], ())) for label in cells[side]]
                n_rows += part.num_rows
                yield from units.rows(zip(*cells, strict=True), layout, file.name)


def _flat(table: pa.Table) -> pa.Table:
    """Return a table in which the fields of structures are columns, such as `translation.de`."""
    from pyarrow import types

    while any(types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def _columns(schema: pa.Schema, layout: Layout, where: str) -> list[str]:
    """Return the names of the columns with the texts of both languages, and with the scores if they are requested.

    Raises DataError unless there is one column for each, and its type is text.
    """
    schema = _flat(schema.empty_table()).schema
    places = find_columns(layout, schema.names, where)
    for language, place in zip(layout.languages, places, strict=False):
        kind = str(schema.types[place])
        if not (_TEXT.fullmatch(kind) or (language == LABEL and _NUMBER.fullmatch(kind))):
            name = shown([schema.names[place]])
            raise DataError(f"{where}: column {name} is of type {shown([kind])}, where text is needed")
    return [schema.names[place] for place in places]


@contextmanager
def _reading(file: Input, kind: str, n_rows: int = 0) -> Iterator[None]:
    """Convert errors of pyarrow to DataError; all of them are subclasses of the exceptions caught here."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, NotImplementedError, MemoryError) as error:
        after = f" after row {n_rows:,}" if n_rows else ""
        raise DataError(f"{file.name}: not readable as {kind}{after}: {printable(error_text(error))}") from None


@contextmanager
def _seekable(file: Input) -> Iterator[IO[bytes]]:
    """Open a file for random access. A file that is compressed or in an archive is copied to a temporary one,
    since each step back would decompress it again from its beginning."""
    with file.open() as stream:
        if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO):
            yield stream
            return
        with tempfile.TemporaryFile() as copy:  # without a name, so that a killed process leaves nothing
            with writing(Path(tempfile.gettempdir()), "; set TMPDIR to use another folder"):
                shutil.copyfileobj(stream, copy, _BUFFER)
                copy.seek(0)
            yield copy
