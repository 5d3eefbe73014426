"""Columns of a table: which of them hold the texts of the two languages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nmt.console import printable
from nmt.errors import DataError
from nmt.prepare.pairs import Layout

_SHOWN, _CHARS = 10, 30  # of the names in a message, and of each
_SUBTAGS = re.compile(r"(-[a-z]{4})?(-([a-z]{2}|\d{3}))?")  # a script, a region


def matching(language: str, names: Iterable[str]) -> list[str]:
    """Return the names that stand for a language: its code, or else its code with a script or region, `de-AT` for
    `de`. Case does not matter, nor whether subtags follow a hyphen or an underscore."""
    codes = {name: _normal(name) for name in names}
    code = _normal(language)
    exact = [name for name in codes if codes[name] == code]
    return exact or [
        name for name in codes if codes[name].startswith(code) and _SUBTAGS.fullmatch(codes[name], len(code))
    ]


def _normal(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def find_columns(layout: Layout, names: Sequence[str], where: str, remedy: str) -> tuple[int, int]:
    """Return the positions of the columns of both languages among all names.

    Raises DataError, which begins with `where` and ends with `remedy`, unless there is one for each.
    """
    first, second = (_find(layout, language, names, where, remedy) for language in layout.languages)
    if first == second:
        both = " and ".join(layout.languages)
        raise DataError(f"{where}: column {shown([names[first]])} cannot hold both {both}; {remedy}")
    return first, second


def _find(layout: Layout, language: str, names: Sequence[str], where: str, remedy: str) -> int:
    if wanted := layout.columns.get(language):
        exact = [name for name in names if name.strip() == wanted.strip()]
        found = exact or [name for name in names if _normal(name) == _normal(wanted)]
        what = f"named {shown([wanted])}"
    else:
        alike = matching(language, names)
        found, what = [name for name in names if name in alike], f"for {language}"
    if len(found) != 1:
        many = f"{len(found)} columns {what}, {shown(found)}, where one is needed" if found else f"no column {what}"
        raise DataError(f"{where}: {many}; there are {shown(names)}; {remedy}")
    return names.index(found[0])


def find_score(layout: Layout, names: Sequence[str], where: str) -> list[int]:
    """Return the position of the column with the scores, none if there are to be no scores. Raises DataError."""
    if layout.score is None:
        return []
    found = [i for i, name in enumerate(names) if name.strip() == layout.score.strip()]
    if len(found) != 1:
        raise DataError(
            f"{where}: {len(found) or 'no'} columns named {shown([layout.score])} for score; there are {shown(names)}"
        )
    return found


def written(layout: Layout, first: str, second: str) -> str:
    """Return the setting that gives each language a column."""
    return f"columns: {{{layout.languages[0]}: {first}, {layout.languages[1]}: {second}}}"


def shown(names: Sequence[str]) -> str:
    """Return names from a file for a message: the first ones, the beginning of each."""
    some = [printable(name[:_CHARS].strip()) + "..." * (len(name) > _CHARS) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return (", ".join(some) or "none") + more
