"""Glossaries: terms of the source language with their translations."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from nmt.errors import DataError
from nmt.text.formats import FIELDS
from nmt.text.language_names import language_name
from nmt.text.lines import read_lines
from nmt.text.protect import Span, alone
from nmt.text.words import is_boundary

AnyGlossary: TypeAlias = "Glossary | Mapping[str, str] | Path | str"
"""A glossary, a mapping from terms to translations, or a file with them."""

MAX_REPORTED = 10
"""Maximum of line numbers in a report."""


class Glossary:
    """Terms and their translations. A term may be its own translation."""

    def __init__(self, terms: Mapping[str, str], name: str = "glossary") -> None:
        """Surrounding white space is stripped from terms and translations. `name` is for messages.

        Raises DataError if `terms` is not a mapping of text to text or is empty, for a blank term or translation, and
        for terms that differ in white space only.
        """
        if not isinstance(terms, Mapping):
            raise DataError(f"{name}: must be a file or map terms to their translations, found {type(terms).__name__}")
        if not terms:
            raise DataError(f"{name}: has no terms; give each with its translation, in a file separated by a tab")
        self._terms: dict[str, str] = {}
        for source, target in terms.items():
            if not (isinstance(source, str) and isinstance(target, str)):
                raise DataError(f"{name}: {source!r} with the translation {target!r}: both must be text")
            source, target = source.strip(), target.strip()
            if not source or not target:
                raise DataError(f"{name}: {source!r} with the translation {target!r}: neither may be blank")
            if self._terms.setdefault(source, target) != target:
                raise DataError(f"{name}: {source!r} has two translations, {self._terms[source]!r} and {target!r}")
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        for source in self._terms:
            lengths[source[0]].add(len(source))
        self._lengths = dict(lengths)
        self.translations = sorted(set(self._terms.values()))
        """All translations."""

    @classmethod
    def of(cls, terms: AnyGlossary, target: str | None = None) -> Glossary:
        """Make a glossary from a mapping or a file; `target` as for `read`. Raises DataError."""
        if isinstance(terms, Glossary):
            return terms
        return cls.read(Path(terms), target) if isinstance(terms, (Path, str)) else cls(terms)

    @classmethod
    def read(cls, path: Path, target: str | None = None) -> Glossary:
        """Read a UTF-8 file with a term and its translation per line, separated by a tab.

        In a file whose name ends in .csv, a comma or semicolon takes the place of the tab, and cells may be quoted.
        Blank lines, and lines that begin with `#` and a space, are skipped. The first row may be a header that names
        two columns, by their languages or as in `Source term` and `Target term`; other columns are then ignored. If the
        language `target` is named first, that column has the translations.
        Raises DataError, with the line number, for a header with other languages than `target`, for any other line, for
        a term with two different translations, and if there is no term.
        """
        if not path.exists():
            raise DataError(f"{path}: no such file")
        is_csv = path.suffix.lower() == ".csv"
        terms: dict[str, str] = {}
        numbers: dict[str, int] = {}
        lines = enumerate(read_lines(path), start=1)
        rows = _csv_rows(path) if is_csv else ((number, line.split("\t")) for number, line in lines)
        is_first, order = True, None
        for number, cells in rows:
            columns = [cell.strip() for cell in cells]
            if not any(columns) or columns == ["#"] or cells[0].startswith("# "):
                continue
            where = f"{path}, line {number}"
            if is_first:
                is_first, order = False, _order(columns, target, where)
                if order is not None:
                    continue
            if order is not None and len(columns) > max(order):
                columns = [columns[i] for i in order]
            if len(columns) != 2 or not all(columns):
                separator = "a comma or semicolon" if is_csv else "a tab"
                raise DataError(
                    f"{where}: a term and its translation, separated by {separator}, are needed; {_found(columns)}"
                )
            source, translation = columns
            if terms.setdefault(source, translation) != translation:
                before = f"{terms[source]!r} in line {numbers[source]}"
                raise DataError(f"{where}: {source!r} has two translations, {before} and {translation!r}; keep one")
            numbers.setdefault(source, number)
        return cls(terms, str(path))

    def __len__(self) -> int:
        return len(self._terms)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change if and only if a term or a translation does."""
        return sha256(json.dumps(sorted(self._terms.items())).encode()).hexdigest()[:16]

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the occurrences of terms in a line, perhaps nested: matched with case, between word boundaries."""
        for start, first in enumerate(text):
            lengths = self._lengths.get(first)
            if lengths is None or not is_boundary(text, start):
                continue
            for end in (start + length for length in lengths):
                target = self._terms.get(text[start:end])
                if target is not None and end <= len(text) and is_boundary(text, end):
                    yield Span(start, end, "term", target)


def _found(columns: list[str]) -> str:
    if len(columns) == 2:
        return f"the {'translation' if columns[0] else 'term'} is blank"
    return f"found {len(columns)} column{'s' if len(columns) > 1 else ''}"


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row. Excel writes semicolons where the comma is for decimals."""
    lines = list(read_lines(path))
    separator = ";" if lines and lines[0].count(";") > lines[0].count(",") else ","
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells or [""]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not a CSV row: {error}") from None


def _order(columns: Sequence[str], target: str | None, where: str) -> tuple[int, int] | None:
    """Return the columns of terms and of translations that a header names; None if a row is no header.

    Raises DataError if it names two languages of which neither is `target`.
    """
    words = [re.sub(r"[ _](term|text|language)$", "", column.lower()) for column in columns]
    names = [re.split("[-_]", word)[0] for word in words]
    found = [i for i, name in enumerate(names) if name in ("source", "target")]
    if len(found) != 2:  # a column of numbers is called No, as Norwegian is
        found = [i for i, name in enumerate(names) if name in FIELDS or language_name(name) != name]
    if len(found) != 2 or names[found[0]] == names[found[1]]:
        return None
    first, second = found
    codes = {names[i] for i in found if language_name(names[i]) != names[i]}
    if target is not None and len(codes) == 2 and target not in codes:
        languages = f"{columns[first]} and {columns[second]}"
        raise DataError(f"{where}: a glossary of {languages}; translations into {language_name(target)} are needed")
    return (second, first) if names[first] == target else (first, second)


class Applied:
    """Counts occurrences of terms, and those whose translation lacks the prescribed text."""

    def __init__(self, glossary: Glossary) -> None:
        self._n_known = len(glossary)
        self._n_terms = self._n_lines = self._n_missing = self._n_lacking = 0
        self._lacking: list[int] = []

    def add(self, number: int, spans: Iterable[Span], translation: str) -> None:
        """Count the terms of line `number`, given its spans and its translation.

        The line is a whole one: a term across a point where it was split counts, though it was not a constraint.
        """
        wanted = Counter(span.wanted for span in spans if span.kind == "term")
        n_missing = 0
        for target, n in sorted(wanted.items(), key=lambda item: -len(item[0])):
            # matches are removed, so that a translation within another is not counted again
            translation, n_found = alone(target).subn(" ", translation, count=n)
            n_missing += n - n_found
        self._n_terms += wanted.total()
        self._n_lines += bool(wanted)
        self._n_missing += n_missing
        self._n_lacking += bool(n_missing)
        if n_missing and self._n_lacking <= MAX_REPORTED:
            self._lacking.append(number)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the final report."""
        if not self._n_terms:
            yield f"glossary: no line has any of its {_count(self._n_known, 'term')}"
            return
        yield f"glossary: {_count(self._n_terms, 'term')} in {_count(self._n_lines, 'line')}"
        if self._n_missing:
            numbers = ", ".join(map(str, self._lacking)) + (", …" if self._n_lacking > MAX_REPORTED else "")
            where = "line" if self._n_lacking == 1 else "lines"
            were = "was" if self._n_missing == 1 else "were"
            missing = f"{_count(self._n_missing, 'term')} {were} not translated as given"
            yield f"glossary: {missing}, in {where} {numbers}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
