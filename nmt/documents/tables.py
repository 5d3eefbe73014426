"""Tables of text (`.csv`, `.tsv`), of which one column is translated, and the choice of columns in any table.

Cells that stay are written as they are, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nmt.console import listed, printable
from nmt.documents.types import Columns, Document, DocumentOptions, Languages, decoded_text, spliced
from nmt.documents.units import Filled, Unit, message_tokens, open_units, plain
from nmt.errors import DataError
from nmt.languages.codes import language_name, names_of
from nmt.text.words import beginning

_SHOWN, _CHARS = 10, 30
"""Maximum number of names of columns in a message, and of the characters of each."""
_MAX_CELLS = 16_384
"""Maximum number of cells of a row, as in spreadsheets."""


def find_columns(name: str, options: DocumentOptions, header: Mapping[str, str], new: str = "") -> tuple[Columns, bool]:
    """Return columns by their numbers or letters, and whether the first row has their names.

    header: the texts of the first row by their numbers or letters; new: the number of a column that can be added for
    the target. Raises DataError for columns that the table lacks, or that several names may mean.
    """
    by_name = {text.strip(): number for number, text in header.items() if text.strip()}
    chosen = options.columns
    if chosen is None:
        sides = (("source", options.source), ("target", options.target))
        chosen = Columns(*(_column_of(by_name, code, language_name(code), side) for side, code in sides))
    columns = Columns(*(by_name.get(column, column) for column in chosen))
    has_header = chosen.source in by_name
    if options.columns and has_header and new and columns.target not in ("", *header):
        columns = columns._replace(target=new)
    names = [text.strip() for text in header.values()]
    is_clear = columns.source in header and columns.source != columns.target and {*columns} <= {*header, new, ""}
    if not is_clear or any(names.count(column) > 1 for column in chosen if column):
        shown = listed([printable(beginning(column, _CHARS)) for column in by_name], _SHOWN)
        raise DataError(
            f"{name}: it is not clear which columns to translate; choose them by names in the first row ({shown}), or "
            f"by {' and '.join([*header][:2])}: --columns source=NAME,target=NAME"
        )
    return columns, has_header


def _column_of(names: Iterable[str], *words: str) -> str:
    """Return the only name that a language has by one of some words; `?` if there is none."""
    alike = next(filter(None, (names_of(word, names) for word in words if word)), [])
    return alike[0] if len(alike) == 1 else "?"


class _Cell(NamedTuple):
    """A cell of text: its offsets, its text, and whether it is quoted."""

    start: int
    end: int
    text: str
    is_quoted: bool


def _rows(name: str, text: str, start: int, cell: re.Pattern[str]) -> Iterator[list[_Cell]]:
    """Yield the cells of each row. Raises DataError if quotation marks are not balanced."""
    row = list[_Cell]()
    while start < len(text) or row:
        match = cell.match(text, start)
        if match is None or len(row) == _MAX_CELLS:
            line = text.count("\n", 0, start) + 1
            raise DataError(f"{name}: line {line}: too many cells, or a quotation mark is missing or not doubled")
        quoted = match["quoted"]
        content = match["cell"] if quoted is None else quoted.replace('""', '"')
        row.append(_Cell(*match.span("cell"), content, quoted is not None))
        start = match.end()
        if match["end"] is not None:
            yield row
            row = []


def open_table(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a table. Raises DataError if it is damaged, or if it is not clear which columns to translate."""
    text, encoding = decoded_text(name, content)
    is_tsv = name.lower().endswith(".tsv")
    start, declared = re.findall(r'\A(\ufeff?(?:"?sep=([^\s"]|\t)"?(?:\r\n?|\n))?)', text, re.IGNORECASE)[0]
    first = re.split(r"[\r\n]", text[len(start) :], maxsplit=1)[0]
    separator = declared or max("\t" if is_tsv else ",;\t", key=first.count)
    other = rf"[^{re.escape(separator)}\r\n]*+"
    raw = other if is_tsv else rf'(?! *"){other}'  # in TSV, quotes may be text
    end = rf"(?:{re.escape(separator)}|(?P<end>\r\n?|\n|\Z))"
    cell = re.compile(rf'(?P<cell> *"(?P<quoted>[^"]*+(?:""[^"]*+)*+)"|{raw}){end}')
    special = re.compile(rf"[{re.escape(separator)}\r\n{'' if is_tsv else chr(34)}]")

    def edit(cell: _Cell, missing: str, new: str) -> tuple[int, int, str]:
        """Return the edit that writes a text into a cell, after the separators that are missing before it."""
        if cell.is_quoted or special.search(new):
            new = '"' + new.replace('"', '""') + '"'
        return cell.start, cell.end, missing + new

    units = list[Unit]()
    cells = list[tuple[_Cell, str]]()
    edits = list[tuple[int, int, str]]()
    n_kept = 0
    for number, row in enumerate(_rows(name, text, len(start), cell), start=1):
        if number == 1:
            header = {str(i): cell.text for i, cell in enumerate(row, start=1)}
            columns, has_header = find_columns(name, options, header, str(len(row) + 1))
            source, target, key = (int(column or columns.source) - 1 for column in columns)
        missing = separator * (target + 1 - len(row))
        if source >= len(row):
            continue
        at = row[source]._replace(start=row[-1].end, end=row[-1].end) if missing else row[target]
        at = at._replace(is_quoted=at.is_quoted or (is_tsv and row[source].is_quoted))
        if number == 1 and has_header:
            if missing and options.columns:
                edits.append(edit(at, missing, options.columns.target))
        elif target != source and not missing and at.text.strip():
            n_kept += 1
        elif row[source].text.strip():
            name_of_row = row[key].text.strip() if columns.key and key < len(row) else ""
            units.append(Unit(name_of_row or str(number), {"": [*message_tokens(row[source].text, ("",))]}))
            cells.append((at, missing))

    def write(filled: Sequence[Filled], _: Languages) -> bytes:
        written = list(edits)
        for unit, (at, missing) in zip(filled, cells, strict=True):
            if unit.changed or target != source:
                written.append(edit(at, missing, plain(unit.forms[""])))
        return spliced(text, written).encode(encoding)

    document = open_units(units, write)
    document.units = {}  # rows may have other numbers in an earlier output
    document.n_kept = n_kept
    return document
