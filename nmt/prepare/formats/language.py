"""Matching of language tags in files, such as `de-AT`, to the language codes of a config, such as `de`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from nmt.errors import DataError
from nmt.languages.codes import language_of
from nmt.prepare.pairs import Layout, Units

MAX_TAG = 20  # maximum length in a report
_MAX_REASONS = 50  # a damaged file may have a language of its own for each unit


def side_of(tag: str, languages: tuple[str, ...]) -> int | None:
    """Return the index of the language that a tag belongs to; None if it belongs to neither.

    A code matches the tag or its beginning: `de` matches `de-AT`, and `pt_BR` matches `pt-br`, but not `pt-PT`. The
    longer code wins where both match.
    """
    return _match(tag, languages)[0]


def by_language(texts: Iterable[tuple[str, str]], codes: tuple[str, ...]) -> list[list[str]]:
    """Return the texts that belong to each language code, given pairs of a tag and a text.

    If a tag is exactly the code of a language, only texts with that tag are returned: not `de-AT` if there is `de`.
    """
    found: list[list[str]] = [[] for _ in codes]
    exact: list[list[str]] = [[] for _ in codes]
    for tag, text in texts:
        code, is_exact = _match(tag, codes)
        if code is not None:
            found[code].append(text)
            if is_exact:
                exact[code].append(text)
    return [same or alike for same, alike in zip(exact, found, strict=True)]


def side_in_columns(name: str, layout: Layout, first: str, second: str) -> int | None:
    """Return the index of the language whose column is `first`; None if the layout specifies no columns.

    `name` is the file for messages. Raises DataError if the columns are not `first` and `second`.
    """
    if not layout.columns:
        return None
    columns = layout.all_names
    if sorted(columns) != sorted((first, second)):
        raise DataError(f"{name}: columns must be {first} and {second}, found {' and '.join(columns)}")
    return columns.index(first)


def side_of_source(source: str, target: str, layout: Layout, units: Units) -> int | None:
    """Return the index of the source language of a unit. A unit in other languages is counted, and None returned."""
    sides = side_of(source, layout.languages), side_of(target, layout.languages)
    if None not in sides and sides[0] != sides[1]:
        return sides[0]
    reason = f"languages {source[:MAX_TAG]}-{target[:MAX_TAG]}"
    units.skip(limited(reason, "other languages", units))
    return None


def limited(reason: str, otherwise: str, units: Units) -> str:
    """Return `reason`, or `otherwise` if `reason` is new and many reasons have been counted already."""
    return reason if reason in units.skipped or len(units.skipped) < _MAX_REASONS else otherwise


@lru_cache(maxsize=1024)
def _match(tag: str, languages: tuple[str, ...]) -> tuple[int | None, bool]:
    """Return the index of the language of a tag, and whether the tag is exactly its code."""
    parts = parts_of(tag)
    codes = [parts_of(language) for language in languages]
    matching = [side for side, code in enumerate(codes) if parts[: len(code)] == code]
    if not matching:
        return None, False
    side = max(matching, key=lambda side: len(codes[side]))
    return side, parts == codes[side]


def parts_of(tag: str) -> list[str]:
    """Return the parts of a language tag for comparison: `km` and `kh` for `khm_Khmr_KH`.

    The script of a language that has only one is left out.
    """
    language, *subtags = re.split("[-_@]", tag.strip().lower())  # `@` as in sr@latin of gettext
    known = language_of(language)
    if known is None:
        return [language, *subtags]
    scripts = {*known.scripts, *known.scripts_by_region.values()}
    return [known.code, *(subtag for subtag in subtags if {subtag.title()} != scripts)]
