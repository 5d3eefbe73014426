"""Readers of tables of text (TSV, CSV, JSON Lines, Parquet, Arrow), and the choice of columns for both languages."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from nmt.console import amount, listed, printable
from nmt.errors import DataError, error_text
from nmt.files.write import writing
from nmt.languages.codes import names_of, normalized
from nmt.languages.directions import LABEL
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import NO_SCORE, Layout, Row, Units, parse_score
from nmt.text.lines import LINE_BYTES, lines_in
from nmt.text.segments import one_line
from nmt.text.tokenizer import is_blank
from nmt.text.words import beginning

if TYPE_CHECKING:
    import pyarrow as pa


def label_text(value: object, names: Sequence[str] = ()) -> str | None:
    """Return a label as text; None if it is missing.

    If `names` are given, a whole number is an index of them. A negative one stands for a missing label, as in test sets
    with secret labels.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() if names:
            return names[value] if 0 <= value < len(names) else None
        case int():
            return str(value)
        case float():
            return f"{value:g}" if math.isfinite(value) else None
        case _:
            return value if isinstance(value, str) else None


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """Return the names of classes by column, as the library `datasets` records them in the metadata of a schema."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        classes = {}
        for column, feature in features.items():
            names = feature.get("names")
            if names is not None and all(isinstance(name, str) for name in names):
                classes[column] = names
        return classes
    except (KeyError, ValueError, TypeError, AttributeError):  # someone else's metadata
        return {}


_SHOWN, _CHARS = 10, 30  # of the names in a message, and of each


def find_columns(layout: Layout, names: Sequence[str], where: str, advice: str = "") -> tuple[int, ...]:
    """Return the positions in `names` of the columns of both languages, and of scores and documents if `layout` has
    such columns.

    Raises DataError, which begins with `where` and ends with `advice`, unless there is exactly one column for each.
    """
    remedy = f"write {written(layout, 'NAME', 'NAME')}{advice}"
    candidates = []  # a description of each column that is needed, and the names that fit it
    for language in layout.languages:
        if language in layout.columns:
            choices = layout.names(language)
            alike = next(filter(None, (_named_alike(name, names) for name in choices)), [])
            candidates.append((f"named {shown(choices)}", alike))
        else:
            candidates.append((f"for {language}", names_of(language, names)))
    candidates += [(f"named {shown([name])}", _named_alike(name, names)) for name in layout.more]
    places = []
    for what, alike in candidates:
        columns = [i for i, name in enumerate(names) if name in alike]
        if len(columns) != 1:
            many = amount(len(columns), "column") if columns else "no column"
            raise DataError(f"{where}: {many} {what}; the columns are {shown(names)}; {remedy}")
        places += columns
    if places[0] == places[1] and len({*layout.languages}) > 1:  # monolingual text has one column
        languages = " and ".join(layout.languages)
        raise DataError(f"{where}: column {shown([names[places[0]]])} cannot contain both {languages}; {remedy}")
    return tuple(places)


def _named_alike(column: str, names: Sequence[str]) -> list[str]:
    exact = [name for name in names if name.strip() == column.strip()]
    return exact or [name for name in names if normalized(name) == normalized(column)]


def written(layout: Layout, first: str, second: str) -> str:
    """Format the setting `columns` with a column for each language, for use in a message."""
    return f"columns: {{{layout.languages[0]}: {first}, {layout.languages[1]}: {second}}}"


def shown(names: Sequence[str]) -> str:
    """Format the first names from a file, shortened if they are long, for use in a message."""
    return listed([_shortened(name) for name in names], _SHOWN) or "none"


def _shortened(name: str) -> str:
    start = printable(beginning(name, _CHARS).strip())
    return f"{start}..." if len(name) > _CHARS else start


_DELIMITERS = "\t|;,"  # the first of those that fit equally well is taken: the later ones are more common in text
_SAMPLE_LINES = 200  # from which the delimiter is guessed
_DECLARED = re.compile(r'"?sep=([^\s"]|\t)"?', re.IGNORECASE)  # the first line of a file for Excel
_END = "\n\0"  # after a sample of all lines, to which no quoted field can extend
# the sample may end within a field; one with a tab and a line break would be several rows in which quotes are text
_FIELD = r'(?:"(?:(?:[^"\n\0]|"")*+|(?:[^"\t\0]|"")*+)(?:"|\Z)|[^"\t\n]*+)'
_QUOTED = re.compile(
    rf'(?s)(?=.*(?:[^"\t\n]""|""[^"\t\n\0])){_FIELD}(?:[\t\n]{_FIELD})*+'
    rf'|"[^"\t\n]*+"(?:[\t\n]+"[^"\t\n]*+")*+[\n\0]*'
)
"""Matches tab-separated lines that are quoted as in CSV: each quote belongs to a quoted field, and one is doubled in
text, or all fields are quoted. Other quoted fields may simply be quotations."""
_DIALECT: dict[str, Any] = {"skipinitialspace": True, "strict": True}


def read_tsv(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a TSV file: each line is a row, and quotes have no special meaning.

    A file whose first lines are quoted as in CSV, and have equally many columns then, is read as CSV, which is counted
    among the skipped units, unless its format is set to tsv.
    """
    with file.open() as stream:
        lines = lines_in(stream, file.name)
        sample = list(islice(lines, _SAMPLE_LINES))
        rows = (line.split("\t") for line in chain(sample, lines))
        text = "\n".join(sample)
        if len(sample) < _SAMPLE_LINES:
            text += _END
        if layout.format is None and _QUOTED.fullmatch(text) and len(_widths(sample, "\t")) == 1:
            units.skip("file read as CSV (format: tsv keeps quotes)")
            rows = _records(chain(sample, lines), "\t", file.name)
        yield from units.rows(_cells(rows, layout, units, file.name), layout, file.name)


def read_csv(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a CSV file, whose delimiter is detected. Quoted fields may contain line breaks."""
    with file.open() as stream:
        lines = lines_in(stream, file.name)
        sample = list(islice(lines, _SAMPLE_LINES))
        declared = _DECLARED.fullmatch("".join(sample[:1]))
        delimiter = declared[1] if declared else _delimiter(sample)
        rows = _records(chain(sample, lines), delimiter, file.name)
        if declared:
            next(rows)
        where = f"{file.name}, separated by {delimiter!r}"
        yield from units.rows(_cells(rows, layout, units, where), layout, where)


def _cells(rows: Iterable[list[str]], layout: Layout, units: Units, where: str) -> Iterator[list[str]]:
    """Yield the cells of each row that `layout` names; see `Units.rows`.

    With a header, rows of another width are skipped: columns may be shifted.
    """
    columns = _numbers(layout, where)
    least = 1 + max(columns or (-1,))
    most = sys.maxsize
    for row in rows:
        if row in ([], [""]):
            units.skip("empty line")
        elif columns is None:
            numbers = written(layout, "1", "2")
            columns = find_columns(layout, row, where, f", or numbers if there is no header: {numbers}")
            least = most = len(row)
        elif len(row) < least:
            units.skip(f"fewer columns than {least}")
        elif len(row) > most:
            units.skip(f"more columns than {most}")
        else:
            yield [row[column] for column in columns]
    if columns is None:
        raise DataError(f"{where}: empty, where a header with the names of the columns is needed")


def _numbers(layout: Layout, where: str) -> tuple[int, ...] | None:
    """Return the positions of the columns if they are given as numbers; None if there is a header."""
    if not layout.columns:
        return None
    names = layout.all_names + layout.more
    are_numbers = [name.isascii() and name.isdecimal() for name in names]
    if not any(are_numbers):
        return None
    if not all(are_numbers) or "0" in names or len(set(names)) < len(names) or len(layout.all_names) > 2:
        raise DataError(
            f"{where}: columns and score must be names, or different numbers from 1; found {' and '.join(names)}"
        )
    return tuple(int(name) - 1 for name in names)


# --- CSV ------------------------------------------------------------------------------------------


def _records(lines: Iterable[str], delimiter: str, name: str) -> Generator[list[str]]:
    """Yield the records of a CSV file. Raises DataError at unbalanced quotes, which would hide records."""
    size = 0

    def counted() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > LINE_BYTES:
                raise csv.Error(f"a record of more than {LINE_BYTES >> 20} MB")
            yield line

    reader = csv.reader(_with_ends(counted()), delimiter=delimiter, **_DIALECT)
    while True:
        began = reader.line_num + 1
        size = 0
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{name}: the record at line {began} is not CSV separated by {delimiter!r}: {error}; a quote "
                "in a field must be doubled, and the field quoted; in a TSV file, format: tsv reads quotes as text"
            ) from None
        if record is None:
            return
        yield record


def _delimiter(sample: list[str]) -> str:
    """Return the delimiter that gives the most records at the beginning of a file the same number of columns."""

    def n_alike(delimiter: str) -> int:
        return max((n for width, n in _widths(sample, delimiter).items() if width > 1), default=0)

    return max(_DELIMITERS, key=n_alike)


def _widths(sample: list[str], delimiter: str) -> Counter[int]:
    """Return the number of records by their number of columns at the beginning of a file, without blank lines."""
    widths: Counter[int] = Counter()
    with suppress(csv.Error):  # at quotes beside another delimiter, or at the end, which may be within a record
        widths.update(map(len, csv.reader(_with_ends(sample), delimiter=delimiter, **_DIALECT)))
    del widths[0]
    return widths


def _with_ends(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with line feeds, which `csv` needs to keep line breaks in quotes."""
    return (f"{line}\n" for line in lines)


# --- JSON Lines -----------------------------------------------------------------------------------

JsonObject: TypeAlias = dict[str, object]
"""An object of JSON Lines, or a row of a Hub dataset."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_jsonl(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a JSON Lines file; see `read_objects`. Raises DataError for a line that is not an object."""
    return read_objects(_objects(file, units), layout, units, file.name)


def read_objects(objects: Iterable[tuple[str, JsonObject]], layout: Layout, units: Units, name: str) -> Iterator[Row]:
    """Yield the pairs of objects, given with their places in a file. `layout.columns` may be paths: `translation.de`.

    Raises DataError for a value of another type instead of text, and at the end if no object has a key for one of the
    languages.
    """
    n_objects = 0
    score = None
    keys: list[str] = []  # of the first
    present = set()
    for where, row in objects:
        n_objects += 1
        keys = keys or list(row)
        sides = ["", ""]
        for i, language in enumerate(layout.languages):
            with suppress(KeyError):
                sides[i] = _text(row, language, layout, where)
                present.add(language)
        src, tgt = sides
        if _SURROGATE.search(src) or _SURROGATE.search(tgt):
            side = 0 if _SURROGATE.search(src) else 1
            units.skip(f"broken Unicode in {layout.languages[side]}")
        elif layout.score is not None and (score := _score(row, layout.score)) is None:
            units.skip(NO_SCORE)
        else:
            if layout.document is not None:
                with suppress(KeyError):
                    units.enter((name, follow(row, layout.document)))
            yield one_line(src), one_line(tgt), score
    for language in layout.languages:
        if n_objects and language not in present:
            raise DataError(
                f"{name}: no key for {language} in any of {n_objects:,} objects; the first has the keys "
                f"{shown(keys)}; write {written(layout, 'KEY', 'KEY')}; KEY may be a path such as text.{language}"
            )


def _objects(file: Input, units: Units) -> Iterator[tuple[str, JsonObject]]:
    with file.open() as stream:
        lines = lines_in(stream, file.name)
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"{file.name}: line {number}"
                yield where, _object(line, where)
            else:
                units.skip("empty line")


def _unique(items: list[tuple[str, object]]) -> JsonObject:
    """Return a JSON object. Raises ValueError for a duplicate key, which a lost line break may cause."""
    values = dict(items)
    if len(values) < len(items):
        raise ValueError("a key occurs twice in an object")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _object(line: str, where: str) -> JsonObject:
    try:
        row: object = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at character {error.pos + 1}"
    except ValueError as error:
        problem = str(error)
    except RecursionError:
        problem = "nested too deeply"
    else:
        if isinstance(row, dict):
            return row
        raise DataError(f"{where}: {_KINDS[type(row)]}, where JSON Lines has an object such as {{...}} per line")
    raise DataError(f"{where}: not JSON: {problem}; JSON Lines has an object per line; jq -c '.[]' converts a list")


def _text(row: JsonObject, language: str, layout: Layout, where: str) -> str:
    """Return the text of one side; "" if it is null. Raises KeyError if it is missing, DataError for another type."""
    text = _side(row, language, layout, where)
    if language == LABEL and isinstance(text, int | float):
        return label_text(text) or ""
    if isinstance(text, str | None):
        return text or ""
    kind = _KINDS.get(type(text), type(text).__name__)
    raise DataError(f"{where}: {kind} for {language}, where text is needed")


def _side(values: JsonObject, language: str, layout: Layout, where: str) -> object:
    if layout.columns:
        texts = []
        for path in layout.names(language):
            with suppress(KeyError):
                texts.append(follow(values, path))
        if not texts:
            raise KeyError(language)
        return max(texts, key=lambda text: text is not None and not is_blank(str(text)))  # the first, if there is any
    if language in values:
        return values[language]
    names = names_of(language, values)
    if len(names) > 1:
        raise DataError(
            f"{where}: {len(names)} keys for {language}, {shown(names)}; write {written(layout, 'KEY', 'KEY')}"
        )
    if not names:
        raise KeyError(language)
    return values[names[0]]


def _score(row: JsonObject, path: str) -> float | None:
    try:
        value = follow(row, path)
    except KeyError:
        return None
    return None if isinstance(value, bool) else parse_score(value)


def follow(row: JsonObject, path: str) -> object:
    """Return the value at a key, or else at the end of a dotted path. Raises KeyError if there is none."""
    if path in row:
        return row[path]
    value: object = row
    for key in path.split("."):
        if not isinstance(value, dict):
            raise KeyError(path)
        value = value[key]
    return value


_KINDS = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list",
    dict: "an object",
}  # fmt: skip


# --- Parquet and both Arrow formats: file (Feather) and stream ---------------------------------------

_ROWS = 1024  # that are in memory as Python text
_BUFFER = 1 << 20  # bytes
_MAGIC = b"ARROW1"
_STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream
_TEXT = re.compile(r"(string|large_string|string_view|null)|dictionary<values=(large_)?string,.*")
_NUMBER = re.compile(r"u?int\d+|halffloat|float|double|bool")
_Batches: TypeAlias = "Callable[[list[str]], Iterator[pa.RecordBatch]]"
"""Yields the batches of a file, with at least the columns of these names."""


def read_parquet(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a Parquet file; a few pages are in memory at a time."""
    return _read_columnar(file, layout, units, "Parquet", _open_parquet)


def read_arrow(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of an Arrow file or stream; one record batch is in memory at a time."""
    return _read_columnar(file, layout, units, "Arrow", _open_ipc)


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
    stream.seek(max(size - len(_STREAM_END), 0))
    if stream.read() != _STREAM_END:
        raise ValueError("neither an Arrow file nor a complete Arrow stream")
    stream.seek(0)
    batches = ipc.open_stream(stream, options=options)
    return batches.schema, lambda _: iter(batches)


def _read_columnar(
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
            columns = _text_columns(schema, layout, file.name)
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


def _text_columns(schema: pa.Schema, layout: Layout, where: str) -> list[str]:
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
