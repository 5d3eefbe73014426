"""Read Parquet, and the Arrow formats: file (Feather) and stream."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING

from nmt.config.data import LABEL
from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.prepare.formats.tables import class_names, find_columns, label_text, shown, written
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import NO_SCORE, Layout, Row, Units, one_line, parse_score

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1024  # that are in memory as Python text
_BUFFER = 1 << 20  # bytes
_DEPTH = 16  # of structures
_MAGIC = b"ARROW1"
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream

_Path = tuple[str, ...]  # a column, and the fields within it


def read_parquet(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a Parquet file, in memory of some pages."""
    with _seekable(file) as stream:
        with _reading(file, "Parquet"):
            from pyarrow import parquet

            table = parquet.ParquetFile(  # to buffer before reading would hold all columns of a row group
                stream, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
            )
            paths = _paths(table.schema_arrow, layout, file.name)
            names = class_names(table.schema_arrow.metadata)
            columns = [".".join(path) for path in paths]
            batches = table.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False)
        yield from _pairs(batches, paths, file, layout, units, "Parquet", names)


def read_arrow(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of an Arrow file or stream, in memory of one of its batches."""
    with _seekable(file) as stream:
        with _reading(file, "Arrow"):
            schema, _ = _open_ipc(stream, file.name, None)
            paths = _paths(schema, layout, file.name)
            names = class_names(schema.metadata)
            fields = sorted({schema.get_field_index(path[0]) for path in paths})
            _, batches = _open_ipc(stream, file.name, fields)
        yield from _pairs(batches, paths, file, layout, units, "Arrow", names)


def _open_ipc(stream: IO[bytes], name: str, fields: list[int] | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches, with some of the columns, of an Arrow file, or of a stream.

    Raises DataError if a stream has no end: pyarrow takes one that was cut after a batch for a whole one.
    """
    from pyarrow import ipc

    options = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    stream.seek(0)
    if stream.read(len(_MAGIC)) == _MAGIC:
        reader = ipc.open_file(stream, options=options)
        return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(size - len(_END), 0))
    if stream.read() != _END:
        raise DataError(f"{name}: an Arrow stream without its end; is it an Arrow file, and complete?")
    stream.seek(0)
    reader = ipc.open_stream(stream, options=options)
    return reader.schema, iter(reader)


def _pairs(
    batches: Iterator[pa.RecordBatch],
    paths: tuple[_Path, ...],
    file: Input,
    layout: Layout,
    units: Units,
    kind: str,
    names: Mapping[str, Sequence[str]],
) -> Iterator[Row]:
    """Yield the pairs of batches. `names`: of classes, by column."""
    n_rows, side = 0, layout.languages.index(LABEL) if LABEL in layout.languages else None
    while True:
        with _reading(file, kind, n_rows):
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)  # else damaged offsets would lead anywhere in memory
            columns = [_column(batch, path) for path in paths]
        for start in range(0, batch.num_rows, _ROWS):
            with _reading(file, kind, n_rows):
                sides = [column.slice(start, _ROWS).to_pylist() for column in columns]
            if side is not None:
                own = names.get(".".join(paths[side]), ())
                sides[side] = [label_text(label, own) for label in sides[side]]
            n_rows += len(sides[0])
            for texts in zip(*sides, strict=True):
                score = None
                if None in texts[:2]:
                    units.skip(f"no text in {layout.languages[texts.index(None)]}")
                elif layout.score is not None and (score := parse_score(texts[2])) is None:
                    units.skip(NO_SCORE)
                else:
                    yield one_line(texts[0]), one_line(texts[1]), score


def _column(batch: pa.RecordBatch, path: _Path) -> pa.Array:
    array = batch.column(path[0])
    for name in path[1:]:
        fields = array.flatten()  # unlike `field`, null where the structure is
        array = fields[array.type.get_field_index(name)]
    return array


# --- columns --------------------------------------------------------------------------------------


def _paths(schema: pa.Schema, layout: Layout, where: str) -> tuple[_Path, ...]:
    """Find the columns of both languages, which may be fields of a structure, and that of the scores if wanted. Raises
    DataError unless there is one of text for each."""
    leaves = [(".".join(path), path, kind) for path, kind in _leaves(list(schema), ())]
    names = [name for name, _, _ in leaves]
    chosen = [leaves[i] for i in find_columns(layout, names, where, f"write {written(layout, 'NAME', 'NAME')}")]
    for language, (name, _, kind) in zip(layout.languages, chosen, strict=False):
        if not (_is_text(kind) or (language == LABEL and _is_number(kind))):
            raise DataError(f"{where}: column {shown([name])} is of type {shown([str(kind)])}, where text is needed")
    return tuple(path for _, path, _ in chosen)


def _leaves(fields: list[pa.Field], above: _Path) -> Iterator[tuple[_Path, pa.DataType]]:
    """Yield the paths of the columns and their types, of a structure those of its fields."""
    from pyarrow import types

    for field in fields:
        path = (*above, field.name)
        if types.is_struct(field.type) and len(path) < _DEPTH:
            yield from _leaves([field.type.field(i) for i in range(field.type.num_fields)], path)
        else:
            yield path, field.type


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    )


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    return any(is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean))


# --- errors ---------------------------------------------------------------------------------------


@contextmanager
def _reading(file: Input, kind: str, n_rows: int = 0) -> Iterator[None]:
    """Turn the errors of pyarrow, each of which has one of these bases, into DataError."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, NotImplementedError, MemoryError) as error:
        after = f" after row {n_rows:,}" if n_rows else ""
        raise DataError(f"{file.name}: not readable as {kind}{after}: {printable(error_text(error))}") from None


@contextmanager
def _seekable(file: Input) -> Iterator[IO[bytes]]:
    """Open a file to be read at any position: if it is compressed or in an archive, as a temporary copy, since to step
    back would decompress it again from its beginning."""
    with file.open() as stream:
        if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO) and stream.seekable():
            yield stream
            return
        with ExitStack() as stack:
            try:  # it has no name, so that nothing is left of it even if the process is killed
                copy = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(stream, copy, _BUFFER)
                copy.flush()
            except OSError as error:
                problem = f"cannot be copied to a temporary file: {printable(error_text(error))}"
                raise DataError(f"{file.name}: {problem}; set TMPDIR to use another folder") from error
            yield copy
