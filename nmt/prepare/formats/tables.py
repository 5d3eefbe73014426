"""Read tables: TSV, which has no quotes, and CSV, which has."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from nmt.errors import DataError
from nmt.prepare.formats.columns import find_columns, find_score, written
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import NO_SCORE, Layout, Row, Units, one_line, parse_score
from nmt.text.lines import LINE_BYTES, bounded_lines, decode_lines

_DELIMITERS = "\t|;,"  # of those that fit equally well, the first: the others are more common in text
_SAMPLE_LINES, _SAMPLE_CHARS = 200, 1 << 20  # from which the delimiter is guessed


def read_tsv(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of tab-separated text. A line is a row and a quote is text, whatever they contain."""
    with file.open() as stream:
        lines = decode_lines(bounded_lines(stream, file.name), file.name)
        yield from _pairs((line.split("\t") for line in lines), layout, units, file.name)


def read_csv(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of CSV, whose delimiter is guessed. A field in quotes may contain delimiters and line breaks."""
    with file.open() as stream:
        lines = decode_lines(bounded_lines(stream, file.name), file.name)
        sample = _sample(lines)
        delimiter = _delimiter(sample, layout, file.name)
        rows = _records(chain(sample, lines), delimiter, file.name)
        yield from _pairs(rows, layout, units, f"{file.name}, separated by {delimiter!r}")


def _pairs(rows: Iterable[list[str]], layout: Layout, units: Units, where: str) -> Iterator[Row]:
    """Yield the pairs of a table. With a header, a row of another width is skipped: its texts may be anywhere."""
    columns = _numbers(layout, where)
    least, most = (max(columns) + 1, None) if columns else (0, None)
    score: float | None = None
    for row in rows:
        if row in ([], [""]):
            units.skip("empty line")
        elif columns is None:
            columns, least, most = _named(layout, row, where), len(row), len(row)
        elif len(row) < least:
            units.skip(f"fewer columns than {least}")
        elif most is not None and len(row) > most:
            units.skip(f"more columns than {most}")
        elif len(columns) > 2 and (score := parse_score(row[columns[2]])) is None:
            units.skip(NO_SCORE)
        else:
            yield one_line(row[columns[0]]), one_line(row[columns[1]]), score
    if columns is None:
        raise DataError(f"{where}: empty, where a header with the names of the columns is needed")


def _named(layout: Layout, header: list[str], where: str) -> tuple[int, ...]:
    """Return the positions of the columns that the header names: of both languages, and of the scores if wanted."""
    names, numbers = written(layout, "NAME", "NAME"), written(layout, "1", "2")
    texts = find_columns(layout, header, where, f"write {names}, or numbers if there is no header: {numbers}")
    return (*texts, *find_score(layout, header, where))


def _numbers(layout: Layout, where: str) -> tuple[int, ...] | None:
    """Return the positions of the columns if they are numbers, so that there is no header."""
    if layout.column is not None:
        raise DataError(f"{where}: column is for mappings, and this is a table; name its columns in columns")
    if not layout.columns:
        return None
    names = [layout.columns[language] for language in layout.languages]
    names += [] if layout.score is None else [layout.score]
    are_numbers = [name.isascii() and name.isdecimal() for name in names]
    if not any(are_numbers):
        return None
    if not all(are_numbers) or "0" in names or len(set(names)) < len(names):
        what = (
            "columns must be two names, or two numbers"
            if layout.score is None
            else "columns and score must all be names, or different numbers"
        )
        raise DataError(f"{where}: {what} from 1, found {' and '.join(names)}")
    return tuple(int(name) - 1 for name in names)


# --- CSV ------------------------------------------------------------------------------------------


def _records(lines: Iterable[str], delimiter: str, name: str) -> Iterator[list[str]]:
    """Yield the records of CSV. Raises DataError where quotes do not pair, which else would swallow the records up to
    the next quote, or all."""
    size = 0

    def counted() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > LINE_BYTES:
                raise csv.Error(f"a record of more than {LINE_BYTES >> 20} MB")
            yield line

    reader = csv.reader(_with_ends(counted()), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        began, size = reader.line_num + 1, 0
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{name}: the record at line {began} is not CSV separated by {delimiter!r}: {error}; quotes in a "
                "field are written twice, and the field is in quotes"
            ) from None
        if record is None:
            return
        yield record


def _sample(lines: Iterator[str]) -> list[str]:
    """Take some lines from the beginning."""
    sample: list[str] = []
    size = 0
    for line in lines:
        sample.append(line)
        size += len(line)
        if len(sample) == _SAMPLE_LINES or size > _SAMPLE_CHARS:
            break
    return sample


def _delimiter(sample: list[str], layout: Layout, name: str) -> str:
    """Guess the delimiter: the one with which the header names the columns, or else the lines have equally many."""
    columns = _numbers(layout, name)
    if columns is None:
        return _delimiter_of_header(sample, layout, name)
    least = max(columns) + 1
    fits = {delimiter: _fit(sample, delimiter, least) for delimiter in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda delimiter: fits[delimiter].score)
    if sample and fits[best].share < 0.5:
        raise DataError(
            f"{name}: no delimiter of tab | ; and , separates most of the first {len(sample)} lines into equally many "
            f"columns, at least {least}; is it CSV?"
        )
    return best


class _Fit(NamedTuple):
    """How well a delimiter fits a sample."""

    score: float
    share: float
    """Of the records that can be read, those with the most common number of columns that is large enough."""


def _fit(sample: list[str], delimiter: str, least: int) -> _Fit:
    reader = csv.reader(_with_ends(sample), delimiter=delimiter, skipinitialspace=True, strict=True)
    widths: Counter[int] = Counter()
    n_lines = 0
    with suppress(csv.Error):  # at quotes next to another delimiter, or at the end, which may be within a record
        for record in reader:
            widths[len(record)] += 1
            n_lines = reader.line_num
    del widths[0]
    share = max((n for width, n in widths.items() if width >= least), default=0) / max(widths.total(), 1)
    return _Fit(share * n_lines / max(len(sample), 1), share)


def _delimiter_of_header(sample: list[str], layout: Layout, name: str) -> str:
    header = next((line for line in sample if line), "")
    problem, most = None, 0
    for delimiter in _DELIMITERS:
        names: list[str] = []
        with suppress(csv.Error):
            names = next(csv.reader(_with_ends([header]), delimiter=delimiter, skipinitialspace=True))
        try:
            _named(layout, names, f"{name}, separated by {delimiter!r}")
            return delimiter
        except DataError as error:
            if len(names) > most:
                problem, most = error, len(names)
    if problem is not None:
        raise problem
    return ","


def _with_ends(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as `csv` needs them to keep the line breaks in quotes."""
    return (f"{line}\n" for line in lines)
