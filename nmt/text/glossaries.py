"""Reading of glossary files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from nmt.console import amount, say
from nmt.errors import DataError
from nmt.languages.codes import language_name, parts_of
from nmt.text.constraints import Glossary, collected_terms
from nmt.text.lines import read_lines

AnyGlossary: TypeAlias = "Glossary | Mapping[str, str] | Path | str"
"""A glossary, a mapping from terms to translations, or the path of a file with them."""


def glossary_of(terms: AnyGlossary, target: str | None = None) -> Glossary:
    """Make a glossary from a mapping or a file; for `target`, see `read_glossary`. Raises DataError."""
    if isinstance(terms, Glossary):
        return terms
    return read_glossary(Path(terms), target) if isinstance(terms, (Path, str)) else Glossary(terms)


def read_glossary(path: Path, target: str | None = None) -> Glossary:
    """Read a UTF-8 file with a term and its translation per line, separated by a tab.

    In a file whose name ends in .csv, a comma or semicolon takes the place of the tab, or the separator that the
    first line names, such as `sep=;`, and cells may be quoted. Blank lines, and lines that begin with `#` and a
    space, are skipped, and so are rows without a term or without its translation, whose number is printed. The
    first row may be a header that names two columns, by their languages or as in `Source term` and `Target term`;
    other columns are then ignored. If the language `target` is named first, that column has the translations.
    Raises DataError, with the line numbers of the first `_MAX_FAULTS`, for a header with other languages than
    `target`, for any other line, for terms with two different translations, and if there is no term.
    """
    rows = [*_rows(path)]
    order = _order(rows[0][1], target, rows[0][0]) if rows else None
    if order is not None:
        rows = [(where, [cells[i] if i < len(cells) else "" for i in order]) for where, cells in rows[1:]]
    complete = [row for row in rows if len(row[1]) != 2 or all(row[1])]
    terms = collected_terms(complete)
    if len(complete) < len(rows):
        skipped = amount(len(rows) - len(complete), "row")
        say(f"{path}: {skipped} without a term or without its translation skipped")
    return Glossary(terms, str(path))


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the stripped cells of each row of a table that is neither blank nor a comment."""
    suffix = path.suffix.lower()
    if suffix in (".tbx", ".tmx", ".xml"):
        raise DataError(f"{path}: a {suffix} file is not read as a glossary; export its terms as CSV in UTF-8")
    lines = [f"{line}\n" for line in read_lines(path)]
    if suffix == ".csv":
        # where decimals have commas, Excel separates by semicolons; the first of equally many is taken; a first line
        # such as `sep=;` has the one that the others have
        separator = max(",;\t", key="".join(lines[:1]).count)
        reader = csv.reader(lines, delimiter=separator, strict=True)
    else:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    began = 1
    try:
        for cells in reader:
            columns = [cell.strip() for cell in cells]
            if any(columns) and columns != ["#"] and not re.match("# " if began > 1 else "# |sep=", cells[0]):
                yield f"{path}, line {began}", columns
            began = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {began}: invalid row: {error}; is a quotation mark missing?") from None


_LANGUAGE_NAMES = """
ar arabic arabisch arabe árabe العربية; cs czech tschechisch tchèque čeština; de german deutsch allemand alemán tedesco;
en english englisch anglais inglés inglese; es spanish spanisch espagnol español spagnolo castellano;
fr french französisch français francés francese; it italian italienisch italien italiano; ja japanese japanisch 日本語;
ko korean koreanisch 한국어; nl dutch niederländisch néerlandais nederlands; pl polish polnisch polonais polski;
pt portuguese portugiesisch portugais portugués português; ro romanian rumänisch română; ru russian russisch русский;
sv swedish schwedisch svenska; tr turkish türkisch türkçe; uk ukrainian ukrainisch українська;
zh chinese chinesisch 中文
"""
_LANGUAGES = dict[str, str]()
for _entry in _LANGUAGE_NAMES.split(";"):
    _code, *_names = _entry.split()
    _LANGUAGES |= dict.fromkeys([_code, *_names], _code)
_TERM = r"(?<![^\W_])(?:term|begriff|text|sentence|reference|language|sprache|langue|idioma|lingua)[^\W_]*"
_SIDES = {
    "source": r"source|src|quell|ausgang|origen|origine|partenza",
    "target": r"target|tgt|translation|ziel|übersetzung|cible|traduc|traduzion|destin|arrivo",
}


def _heading(cell: str) -> str | None:
    """Return the content of a column by its name: a language code, `source`, `target`, `term` or None."""
    text = cell.strip().lower()
    without_term = re.sub(_TERM, "", text).strip(" _-:()")
    if text and not without_term:
        return "term"
    name = re.fullmatch(r"([^\W\d_]+)(?:[-_][a-z]+| ?\(.*)?", without_term)
    if name and (name[1] in _LANGUAGES or (len(name[1]) == 2 and language_name(name[1]) != name[1])):
        return _LANGUAGES.get(name[1], name[1])
    words = re.findall(r"[^\W_]+", text)
    if len(words) <= 3:
        for side, stems in _SIDES.items():
            if any(re.match(stems, word) for word in words):
                return side
    return None


def _order(columns: Sequence[str], target: str | None, where: str) -> tuple[int, int] | None:
    """Return the indices of the columns of terms and of translations by the header; None if there is no header.

    Raises DataError if the header has two languages, neither of which is `target`.
    """
    headings = [_heading(column) for column in columns]
    columns_of_text = [i for i, name in enumerate(headings) if name in ("source", "target")]
    if len(columns_of_text) != 2:  # a column of numbers is called No, as Norwegian is
        columns_of_text = [i for i, name in enumerate(headings) if name]
    if len({headings[i] for i in columns_of_text}) != 2 or len(columns_of_text) != 2:
        return None
    first, second = columns_of_text
    code = None if target is None else parts_of(target)[0]
    if code is not None and not {code, "source", "target", "term"} & {headings[first], headings[second]}:
        languages = f"{columns[first]} and {columns[second]}"
        raise DataError(f"{where}: the glossary is for {languages}; translations into {language_name(code)} are needed")
    is_reversed = headings[first] in ("target", code) or headings[second] == "source"
    return (second, first) if is_reversed else (first, second)
