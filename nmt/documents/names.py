"""Names of translated files: where the source language is a part of a path, the target language replaces it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from nmt.languages.codes import names_of, tag_of

_CODE = "[a-z]{2,3}(?:[-_][A-Z][a-z]{3})?(?:-[a-z]{2}|[-_][A-Z]{2}|[-_][0-9]{3})?"
_PLACE = re.compile(
    rf"(?<=/)(?:{_CODE}|Base(?=\.lproj))(?=((?:\.lproj)?/))"  # de/  de.lproj/
    r"|(?<=/values)(?:-b\+[\w+]+|-[a-z]{2,3}(?:-r[A-Z]{2})?)?(?=([-/]).*\.xml$)"  # values-de/  values/
    rf"|(?<=[/._]){_CODE}(?=(\.[^./]+)$)"  # de.json  app.de.yml  app_de_AT.arb
)
"""Matches what may be the code of a language in a path that begins with a slash, or stands for the default language;
its group is what follows."""

_ANDROID = re.compile(r"\w+(-[A-Z]{2})?")
"""Matches a tag that Android writes without `b+`."""


def target_names(paths: Sequence[str], source: str, target: str) -> list[str]:
    """Return for each path in a folder that of its translation; an empty string for a file in another language.

    Codes are folders (`de/`, `de.lproj/`, `values-de/`), or end the stem of a file (`de.json`, `app.de.yml`,
    `app_de_AT.arb`). Of several that belong to the source, such as `de` and `de-AT`, only the most similar ones do.
    Other languages are recognized beside the source: `fr/` beside `de/`. Nothing else changes, nor does anything if one
    of the languages is unknown.
    """
    if not tag_of(source).language or not target:
        return [*paths]
    codes = defaultdict[object, set[str]](set)
    for path in paths:
        for match in _PLACE.finditer(f"/{path}"):
            place, code = _read(match)
            codes[place].add(code)
    tag = target.replace("_", "-")

    def renamed(match: re.Match[str]) -> str:
        """Return what replaces a code; a null character for that of another language."""
        (before, after), code = place, _ = _read(match)
        of_source = names_of(source, codes[place]) or codes[place] & {""}
        if code not in of_source:
            # words of three letters, such as `app` and `src`, are codes, too
            is_other = of_source and (code == "" or (len(code) != 3 and tag_of(code).language))
            return "\0" if is_other else match[0]
        if before.endswith("/values"):
            return f"-{tag.replace('-', '-r')}" if _ANDROID.fullmatch(tag) else f"-b+{tag.replace('-', '+')}"
        return tag if "-" in match[0] or after == ".lproj/" else target

    names = [_PLACE.sub(renamed, f"/{path}")[1:] for path in paths]
    return ["" if "\0" in name else name for name in names]


def _read(match: re.Match[str]) -> tuple[tuple[str, str], str]:
    """Return what precedes a code in a path and follows it in the same part, and the code as a tag: `pt-BR` for
    `-pt-rBR`, empty for the default language."""
    place = match.string[: match.start()], match[match.lastindex or 0]
    return place, re.sub("-r(?=[A-Z])|[+]", "-", re.sub(r"^-(b\+)?|^Base$", "", match[0]))
