"""Files of keys and texts, such as JSON, whose texts are replaced where they are.

Texts whose keys end in plural categories of CLDR are forms of one unit, as in https://www.i18next.com/ and
https://guides.rubyonrails.org/i18n.html#pluralization.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from nmt.documents.types import Document, DocumentOptions, Languages, Rules, in_target, spliced
from nmt.documents.units import Filled, Unit, message_tokens, open_units, plain
from nmt.errors import DataError
from nmt.languages.codes import plural_categories, tag_of
from nmt.text.message_formats import formats_of

_MAX_DEPTH = 100
_MAX_KEY = 1000
"""Maximum number of characters of a key that are repeated in the keys inside it."""
_SUBTAGS = r"(?:[-_](?:[A-Za-z]{2}|[A-Z][a-z]{3}|\d{3}))*"
_LINE = r"[ \t]*(?:#.*|\r)?$"
_RULES = Rules(
    {
        rf'(\A\ufeff?\s*\{{\s*"|"@@locale"\s*:\s*")(?:SOURCE){_SUBTAGS}(?="\s*:\s*\{{|"\s*[,}}])': r"\1TARGET",
        r'("@@locale"\s*:\s*"\w+)-': r"\1_",
        rf"""(?m)^(["']?)(?:SOURCE){_SUBTAGS}(?=["']?:{_LINE})""": r"\1TARGET",
        rf"(?m)^no(?=:{_LINE})": '"no"',  # would be false
    },
    {},
    {},
)
"""The outermost key of JSON, the language of ARB, and the outermost key of YAML."""
_FORM = re.compile(r"[._](zero|one|two|few|many|other)\Z")
_NO_TEXT = re.compile(r"true|false|null|#[0-9A-Fa-f]{3,8}|:[a-z_]+")
"""Matches values for programs: constants, colours and symbols of Ruby."""
_ESCAPE = re.compile(r'(\\(?:[\\nrtfb"]|u[\dA-Fa-f]{4}))|\\(?:\r\n|[\r\n])[ \t\f]*|\\', re.ASCII)


class Part(NamedTuple):
    """A key or a value of a file, or the beginning or end of a list or mapping."""

    start: int
    end: int
    text: str = ""
    """The text of a key or value; what separates the items of a list or mapping, if it is not before its keys."""
    kind: str = '"'
    """How a text is written; `[`, `{` or `]` at the beginning or end of a list or mapping; empty for other values."""
    formats: Sequence[str] = ()
    """The `GRAMMARS` that it follows; none: they are seen from the text."""
    before: str = ""
    """What is before the key, between it and another entry; empty in formats without plurals."""
    name: int = 0
    """The offset of the last key of a value."""
    key: str = ""
    """All keys of a value, with dots between them."""


def unescaped(text: str) -> str:
    """Return a text without the backslashes before letters, codes such as `u00e4`, line ends and other characters."""
    unicode = _ESCAPE.sub(r"\1", text).encode("latin-1", "backslashreplace").decode("unicode_escape")
    return unicode.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def values(file: str, parts: Iterator[Part], around: Part | None = None, depth: int = 0) -> Iterator[Part]:
    """Yield the values of a file with their keys. around: the list or mapping whose parts follow.

    Raises DataError unless the file consists of mappings that are not nested too deeply.
    """
    outer = name = around or Part(0, 0, kind="")
    for i, part in enumerate(parts):
        if part.kind == "]":
            return
        is_name = outer.kind == "{" and i % 2 == 0
        is_nested = part.kind in ("[", "{")
        if depth > _MAX_DEPTH or (not depth and part.kind != "{") or (is_name and is_nested):
            raise DataError(f"{file}: data, not a table of keys and texts; copy its texts into a text file")
        if is_name:
            name = part
            continue
        key = f"{outer.key[-_MAX_KEY:]}.{i if outer.kind == '[' else name.text}".removeprefix(".")
        value = part._replace(before=outer.text or name.before, name=name.start, key=key)
        if is_nested:
            yield from values(file, parts, value, depth + 1)
        else:
            yield value


def open_texts(
    text: str, encoding: str, parts: Iterable[Part], options: DocumentOptions, spelled: Callable[[Part, str], str]
) -> Document:
    """Open a file of texts. spelled: writes a text in place of a part."""
    groups = [*_groups(parts, options)]
    roots = {part.key.partition(".")[0] for group in groups for part in group.values()}
    is_stated = len(roots) == 1 and tag_of(*roots).language is not None
    units = []
    for group in groups:
        form, last = [*group.items()][-1]
        formats = last.formats or formats_of(last.text)
        source = {form: [*message_tokens(part.text, formats, by_branch=True)] for form, part in group.items()}
        # an outermost key that states the language differs in the translation
        key = last.key.partition(".")[2] if is_stated else last.key
        units.append(Unit(_FORM.split(key)[0] if form else key, source, formats))

    def write(units: Sequence[Filled], languages: Languages) -> bytes:
        edits = []
        for group, filled in zip(groups, units, strict=True):
            last_form, last = [*group.items()][-1]
            for form in filter(filled.changed.__contains__, filled.forms):
                part = group.get(form, last)
                written = spelled(part, plain(filled.forms[form]))
                if form in group:
                    edits.append((part.start, part.end, written))
                else:
                    key = form.join(text[part.name : part.start].rsplit(last_form, 1))
                    edits.append((part.end, part.end, part.before + key + written))
        return in_target(spliced(text, edits), languages, _RULES).encode(encoding, "backslashreplace")

    return open_units(units, write)


def _groups(parts: Iterable[Part], options: DocumentOptions) -> Iterator[dict[str, Part]]:
    """Yield the texts of each unit by plural category, by "" if it has no plural.

    A form `other` alone is one only if the source has no other category: it may be a word like any other.
    """
    groups = defaultdict[object, dict[str, Part]](dict)
    for part in parts:
        base, form, *_ = [*_FORM.split(part.key), ""]
        if part.kind and not _NO_TEXT.fullmatch(part.text):
            groups[base if form and part.before else part.start][form] = part
    n_needed = min(2, len(plural_categories(options.source)) or 2)
    for group in groups.values():
        if "other" in group and len(group) >= n_needed:
            yield group
        else:
            yield from ({"": part} for part in group.values())
