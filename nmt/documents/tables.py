"""Tables as text (`.csv`, `.tsv`), of which one column is translated, and the choice of columns in any table.

Cells that stay are written as they are, byte for byte; so are the separator, line ends and encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import PurePath
from typing import NamedTuple, NoReturn

from nmt.console import listed, printable
from nmt.documents.types import Columns, Document, DocumentOptions, Languages, decoded_text
from nmt.documents.units import Filled, Unit, message_tokens, open_units, plain
from nmt.errors import DataError
from nmt.languages.codes import names_of, parts_of
from nmt.text.formats import BEGINNING
from nmt.text.glossaries import heading
from nmt.text.separated import DECLARED, SAMPLE_LINES, separator_of
from nmt.text.words import beginning

MAX_COLUMNS = 16_384
"""Maximum number of columns, as in spreadsheets."""
_SHOWN, _CHARS = 10, 30
"""Maximum number of names of columns in a message, and of the characters of each."""


class Places(NamedTuple):
    """The places of columns, from 0."""

    source: int
    target: int | None
    key: int | None
    has_header: bool
    """Whether the first row has their names, so that it is not translated."""
    new: str
    """The name of the target column if the table lacks it."""


def find_columns(name: str, options: DocumentOptions, names: Sequence[str]) -> Places:
    """Return the places of the columns to translate, given the first row. Raises DataError."""
    columns = options.columns or Columns(
        _column_of(name, "source", options.source, names), _column_of(name, "target", options.target, names)
    )
    has_header = bool(_named(columns.source, names))

    def place(column: str) -> int | None:
        if column and has_header and (named := _named(column, names)):
            if len(named) > 1:
                _refuse(name, f"several columns {printable(column)!r}", names)
            return named[0]
        place = place_of(column)
        return None if place is None or place >= (len(names) if has_header else MAX_COLUMNS) else place

    source = place(columns.source)
    target = place(columns.target)
    key = place(columns.key)
    new = columns.target if has_header and target is None else ""
    if new:
        target = len(names)
    places = {columns.source: source, columns.target: target, columns.key: key}
    for column, at in places.items():
        if column and at is None:
            _refuse(name, f"no column {printable(column)!r}", names)
    if source is None or source == target:
        _refuse(name, "source and target are the same column", names)
    return Places(source, target, key, has_header, new)


def _column_of(name: str, side: str, code: str, names: Sequence[str]) -> str:
    """Return the name of the column of a language, which is its code, its name, or `side`, in any of many languages."""
    alike = names_of(code, names) if code else []
    alike = alike or [column for column in names if heading(column) in (side, parts_of(code)[0])]
    if len(alike) != 1:
        _refuse(name, f"{'several columns' if alike else 'no column'} for {code or side}", names)
    return alike[0]


def _refuse(name: str, problem: str, names: Sequence[str]) -> NoReturn:
    shown = listed([printable(beginning(column, _CHARS)) for column in names], _SHOWN)
    raise DataError(
        f"{name}: {problem}; choose columns by their names, which are {shown or 'empty'}, or by numbers or letters: "
        "--columns source=A,target=B"
    )


def _named(column: str, names: Sequence[str]) -> list[int]:
    return [i for i, name in enumerate(names) if name.strip() == column.strip()]


def place_of(column: str) -> int | None:
    """Return the place of a column that is given by its number from 1 or by letters; None if it is not."""
    if re.fullmatch("[1-9][0-9]{0,4}", column):
        return int(column) - 1
    if not re.fullmatch("[A-Z]{1,3}", column):
        return None
    return reduce(lambda number, letter: 26 * number + ord(letter) - ord("@"), column, 0) - 1


def letters_of(place: int) -> str:
    """Return the letters of a column, as in spreadsheets: A to Z, AA and so on."""
    before, last = divmod(place, 26)
    return (letters_of(before - 1) if before else "") + chr(ord("A") + last)


class _Table:
    """The text of a table, and its dialect."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        mark = len(text) - len(text.removeprefix("\ufeff"))
        sample = re.split(r"\r\n?|\n", text[mark:BEGINNING])[:SAMPLE_LINES]
        declared = DECLARED.fullmatch(sample[0])
        self._start = mark
        if declared is not None:
            line = re.compile(r"[^\r\n]*(?:\r\n?|\n)?").match(text, mark)
            self._start = line.end() if line else mark
        is_tsv = PurePath(name).suffix.lower() == ".tsv"
        self.separator = declared[1] if declared else "\t" if is_tsv else separator_of(sample)
        self._unquoted = rf"[^{re.escape(self.separator)}\r\n]*+"
        self._set_quoting(True)
        if is_tsv:  # quotes may also be text
            try:
                self._set_quoting(len({len(row) for row in self.rows() if row[-1][1] > row[0][0]}) == 1)
            except DataError:
                self._set_quoting(False)

    def _set_quoting(self, is_quoted: bool) -> None:
        self._is_quoted = is_quoted
        cell = rf'\ *+"[^"]*+(?:""[^"]*+)*+"|(?!\ *"){self._unquoted}' if is_quoted else self._unquoted
        self._cell = re.compile(rf"({cell})({re.escape(self.separator)}|\r\n?|\n|\Z)")

    def rows(self) -> Iterator[list[tuple[int, int]]]:
        """Yield the offsets of the cells of each row. Raises DataError if quotation marks are not balanced."""
        row = list[tuple[int, int]]()
        position = self._start
        while position < len(self.text) or row:
            cell = self._cell.match(self.text, position)
            if cell is None or len(row) == MAX_COLUMNS:
                problem = f"more than {MAX_COLUMNS:,} columns" if cell else "a quotation mark is missing or not doubled"
                line = self.text.count("\n", 0, position) + 1
                raise DataError(f"{self.name}: line {line}: {problem}, with the separator {self.separator!r}")
            row.append(cell.span(1))
            position = cell.end()
            if cell[2] != self.separator:
                yield row
                row = []

    def value(self, row: Sequence[tuple[int, int]], place: int) -> str:
        """Return the text of a cell; none if the row lacks it."""
        raw = self.text[slice(*row[place])] if place < len(row) else ""
        return raw.strip(" ")[1:-1].replace('""', '"') if self._is_quoted_cell(raw) else raw

    def _is_quoted_cell(self, raw: str) -> bool:
        return self._is_quoted and raw.lstrip(" ").startswith('"')

    def written(self, text: str, like: tuple[int, int]) -> str:
        """Return a text as it is written in a cell: in quotes if it needs them, or if the cell `like` has them."""
        needs_quotes = self._is_quoted and re.search(rf'["\r\n{re.escape(self.separator)}]', text)
        if needs_quotes or self._is_quoted_cell(self.text[slice(*like)]):
            return '"' + text.replace('"', '""') + '"'
        return text


def open_table(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a table. Raises DataError if it is damaged, or if it is not clear which columns to translate."""
    text, encoding = decoded_text(name, content)
    table = _Table(name, text)
    first = next(table.rows(), [])
    places = find_columns(name, options, [table.value(first, i) for i in range(len(first))])
    units = list[Unit]()
    cells = list[tuple[tuple[int, int], str, tuple[int, int]]]()
    edits = list[tuple[int, int, str]]()
    n_kept = 0
    at = places.source if places.target is None else places.target
    for number, row in enumerate(table.rows(), start=1):
        end = row[-1][1]
        missing = table.separator * (at + 1 - len(row))
        source = table.value(row, places.source)
        like = row[min(places.source if missing else at, len(row) - 1)]
        span = (end, end) if missing else row[at]
        if number == 1 and places.has_header:
            if places.new:
                edits.append((end, end, missing + table.written(places.new, like)))
        elif not source.strip():
            if places.new and end > row[0][0]:  # no blank line
                edits.append((end, end, missing))
        elif places.target is not None and table.value(row, at).strip():
            n_kept += 1
        else:
            key = table.value(row, places.key).strip() if places.key is not None else ""
            key = key or f"{letters_of(places.source)}{number}"
            units.append(Unit(key, {"": [*message_tokens(source, ("",))]}))
            cells.append((span, missing, like))

    def write(filled: Sequence[Filled], _: Languages) -> bytes:
        written = list(edits)
        for unit, (span, missing, like) in zip(filled, cells, strict=True):
            if unit.changed or places.target is not None:
                written.append((*span, missing + table.written(plain(unit.forms[""]), like)))
        parts = []
        position = 0
        for start, end, new in sorted(written):
            parts += [text[position:start], new]
            position = end
        return "".join([*parts, text[position:]]).encode(encoding)

    document = open_units(units, write)
    document.n_kept = n_kept
    return document
