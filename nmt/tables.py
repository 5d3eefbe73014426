"""Tables of results in the formats of --format: text for terminals, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Protocol

from nmt.console import ENDLESS, aligned, columns, folded, printable

Format = Literal["text", "markdown", "latex", "csv", "json"]
NOTE = "note: "  # the beginning of advice to the user, which is a comment in LaTeX


@dataclass(frozen=True)
class Cell:
    """A cell that Markdown and LaTeX emphasize: bold if it is the best, with a dagger if it is significant."""

    text: str
    is_best: bool = False
    is_significant: bool = False

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """A table of results, with all that each format needs. Texts may contain any characters.

    Title and notes, such as signatures, are above and below the table. In LaTeX they are the caption, except for notes
    that begin with `NOTE`. The CSV has a line for each record, a mapping of names to values that are not rounded;
    values with names, such as intervals, become several columns.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    right: Collection[int]  # the indices of right-aligned columns
    title: str = ""
    notes: Sequence[str] = ()
    records: Sequence[Mapping[str, object]] = ()
    text: str | None = None  # if the text shows more than this table


class Result(Protocol):
    """A result that commands show in each of the formats."""

    def as_table(self) -> Table:
        """Return what all formats but JSON show."""

    def as_json(self) -> object:
        """Return what JSON contains; see `render`."""


def rendered(format_: Format, results: Sequence[Result]) -> str:
    """Format results; as JSON, several are a list."""
    documents = [result.as_json() for result in results]
    document = documents if len(results) > 1 else documents[0]
    return render(format_, [result.as_table() for result in results], document)


def render(format_: Format, tables: Sequence[Table], document: object) -> str:
    """Format tables. `document` is what JSON contains: values that JSON can represent, with None for unknown ones,
    and objects whose fields are such values."""
    if format_ == "json":
        return json.dumps(document, ensure_ascii=False, indent=1, default=vars)
    if format_ == "csv":
        return as_csv([record for table in tables for record in table.records])
    written = {"text": _text, "markdown": _markdown, "latex": _latex}[format_]
    return "\n\n".join(map(written, tables))


def as_csv(records: Sequence[Mapping[str, object]], delimiter: str = ",") -> str:
    """Format records as CSV with a header, which has the names of all records. Missing and unknown values are empty."""
    flat = [dict(_flat(record)) for record in records]
    names = list(dict.fromkeys(chain.from_iterable(flat)))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return file.getvalue().removesuffix("\n")


def _flat(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, Mapping):
            for inner, inner_value in _flat(value):
                yield f"{name}_{inner}", inner_value
        elif isinstance(value, float | int | None):
            yield name, value
        elif isinstance(value, list | tuple):
            yield name, printable("; ".join(map(str, value)))
        else:
            yield name, printable(str(value))


def _text(table: Table) -> str:
    if table.text is not None:
        lines = table.text.split("\n")
    else:
        rows = [[printable(str(cell)) for cell in row] for row in (table.header, *table.rows)]
        lines = [*wrapped(table.title), *aligned(rows, table.right)]
        for note in table.notes:
            lines += wrapped(note)
    return "\n".join(chain.from_iterable(folded(line, columns(sys.stdout, ENDLESS)) for line in lines))


def wrapped(sentence: str) -> list[str]:
    """Escape a sentence, and break it into lines as wide as the terminal, or as 100 columns."""
    return folded(printable(sentence), columns(sys.stdout)) if sentence else []


def _filled(table: Table, written: Callable[[str | Cell], str]) -> tuple[list[int], list[list[str]]]:
    """Return the indices of the columns that are not empty, and their cells by row, the header first."""
    rows = [table.header, *table.rows]
    columns = [i for i in range(len(table.header)) if any(str(row[i]) for row in rows)]
    return columns, [[written(row[i]) for i in columns] for row in rows]


def _markdown(table: Table) -> str:
    columns, rows = _filled(table, _markdown_cell)
    rule = ["--:" if i in table.right else "---" for i in columns]
    lines = [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]
    notes = "\n".join(f"- {_markdown_cell(note)}" for note in table.notes)
    return "\n\n".join(filter(None, [_markdown_cell(table.title), "\n".join(lines), notes]))


def _markdown_cell(cell: str | Cell) -> str:
    text = re.sub(r"([\\`*_\[\]<|])", r"\\\1", printable(str(cell)))
    if isinstance(cell, Cell):
        if cell.is_best:
            text = f"**{text}**"
        if cell.is_significant:
            text += "†"
    return text


_LATEX = str.maketrans({
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"{{{character}}}" for character in "[]*"},  # \\ takes a star and an optional argument
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}\allowbreak{}",  # signatures are long
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "…": r"\dots{}",
})  # fmt: skip


def _latex(table: Table) -> str:
    columns, rows = _filled(table, _latex_cell)
    header, *lines = [" & ".join(row) + r" \\" for row in rows]
    comments = list[str]()
    sentences = [table.title]
    caption = list[str]()
    for note in table.notes:
        if note.startswith(NOTE):
            comments.append(f"% {printable(note)}")
        else:
            sentences.append(note)
    if any(sentences):
        text = ". ".join(sentence.removesuffix(".") for sentence in sentences if sentence)
        caption.append(rf"\caption{{{_latex_cell(text)}.}}")
    alignment = "".join("r" if i in table.right else "l" for i in columns)
    return "\n".join([
        *comments,
        r"\begin{table}  % \usepackage{booktabs}",
        r"\centering",
        *caption,
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        header,
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ])  # fmt: skip


def _latex_cell(cell: str | Cell) -> str:
    text = printable(str(cell)).translate(_LATEX).replace("--", "-{}-")
    text = re.sub(r"(?<![^\s\[{}])-(?=\d)", "$-$", text)  # a sign, not a hyphen
    text = text.replace(" (lower is better)", r" $\downarrow$")
    if isinstance(cell, Cell):
        if cell.is_best:
            text = rf"\textbf{{{text}}}"
        if cell.is_significant:
            text += r"$^{\dagger}$"
    return text
