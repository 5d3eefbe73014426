"""Read JSON Lines: an object per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from nmt.config.data import LABEL
from nmt.errors import DataError
from nmt.prepare.formats.columns import matching, shown, written
from nmt.prepare.formats.labels import is_label, label_text
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import NO_SCORE, Layout, Row, Units, one_line, parse_score
from nmt.text.lines import bounded_lines, decode_lines

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_jsonl(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of JSON Lines. `Layout.columns` may be paths such as `translation.de`.

    Raises DataError with the line that is no object or has no text where text is needed, and at the end if no object
    has a key for one language.
    """
    n_objects = 0
    keys: list[str] = []  # of the first
    present: set[str] = set()
    with file.open() as stream:
        lines = decode_lines(bounded_lines(stream, file.name), file.name)
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                units.skip("empty line")
                continue
            where = f"{file.name}: line {number}"
            row = _object(line, where)
            n_objects += 1
            keys = keys or list(row)
            sides: list[str | None] = [None, None]
            for i, language in enumerate(layout.languages):
                with suppress(KeyError):
                    sides[i] = _text(row, language, layout, where)
                    present.add(language)
            src, tgt = sides
            if src is None or tgt is None:
                units.skip(f"no text in {layout.languages[0 if src is None else 1]}")
            elif _SURROGATE.search(src) or _SURROGATE.search(tgt):
                units.skip(f"broken Unicode in {layout.languages[0 if _SURROGATE.search(src) else 1]}")
            elif layout.score is None:
                yield one_line(src), one_line(tgt), None
            elif (score := _score(row, layout.score)) is None:
                units.skip(NO_SCORE)
            else:
                yield one_line(src), one_line(tgt), score
    for language in layout.languages:
        if n_objects and language not in present:
            raise DataError(
                f"{file.name}: no key for {language} in any of {n_objects:,} objects; the first has the keys "
                f"{shown(keys)}; write {written(layout, 'KEY', 'KEY')}, or column: KEY if that maps languages to text"
            )


def _unique(items: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object. Raises ValueError for a key that it has twice, as where the end of a line is lost."""
    values = dict(items)
    if len(values) < len(items):
        raise ValueError("an object has a key twice")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _object(line: str, where: str) -> dict[str, object]:
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
        raise DataError(f"{where}: {_kind(row)}, where JSON Lines has an object such as {{...}} per line")
    raise DataError(f"{where}: not JSON: {problem}; JSON Lines has an object per line; jq -c '.[]' writes a list so")


def _text(row: dict[str, object], language: str, layout: Layout, where: str) -> str | None:
    """Return the text of one side, None if it is null. Raises KeyError if it is missing, DataError if it is no text."""
    if layout.column is not None:
        mapping = _follow(row, layout.column)
        if mapping is None:
            return None
        if not isinstance(mapping, dict):
            raise DataError(
                f"{where}: {layout.column} is {_kind(mapping)}, where an object from language to text is needed"
            )
        row = mapping
    text = _side(row, language, layout, where)
    if language == LABEL and is_label(text):
        return label_text(text)
    if text is None or isinstance(text, str):
        return text
    raise DataError(f"{where}: {_kind(text)} for {language}, where text is needed")


def _side(values: dict[str, object], language: str, layout: Layout, where: str) -> object:
    if layout.columns:
        return _follow(values, layout.columns[language])
    if language in values:
        return values[language]
    names = matching(language, values)
    if len(names) > 1:
        raise DataError(
            f"{where}: {len(names)} keys for {language}, {shown(names)}; write {written(layout, 'KEY', 'KEY')}"
        )
    if not names:
        raise KeyError(language)
    return values[names[0]]


def _score(row: dict[str, object], path: str) -> float | None:
    try:
        value = _follow(row, path)
    except KeyError:
        return None
    return None if isinstance(value, bool) else parse_score(value)


def _follow(row: dict[str, object], path: str) -> object:
    """Return the value at a key, which may contain dots itself, or else at the end of a dotted path. Raises KeyError if
    it is missing."""
    if path in row:
        return row[path]
    value: object = row
    for key in path.split("."):
        if not isinstance(value, dict):
            raise KeyError(path)
        value = value[key]
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
