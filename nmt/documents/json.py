"""JSON files of keys and texts, such as those of i18next, and ARB files of Flutter.

https://www.i18next.com/misc/json-format
https://github.com/google/app-resource-bundle/wiki/ApplicationResourceBundleSpecification
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from nmt.documents.keyed import Part, open_texts, values
from nmt.documents.types import Document, DocumentOptions, decoded_text
from nmt.errors import DataError

_TOKEN = re.compile(r'(\s*+)(?:("(?:[^"\\]++|\\.)*+")|([{\[])|([}\]])|[^\s"{}\[\],:]++)')
"""Matches a string, a beginning, an end, or another value, after white space."""


def open_json(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a JSON or ARB file. Raises DataError if it is malformed, or no table of texts, such as lines of JSON."""
    text, encoding = decoded_text(name, content)
    try:
        # long numbers, which are left as they are, would be an error
        json.loads(text.removeprefix("\ufeff"), parse_int=str)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: broken JSON: {error}; is it complete, and one table of texts, not lines?") from None
    is_ascii = text.isascii() and r"\u" in text
    # keys with @ are metadata of ARB
    parts = (part for part in values(name, _parts(text)) if not part.key.startswith("@"))
    return open_texts(text, encoding, parts, options, lambda _, written: json.dumps(written, ensure_ascii=is_ascii))


def _parts(text: str) -> Iterator[Part]:
    for match in _TOKEN.finditer(text, text.startswith("\ufeff")):
        space, string, begin, end = match.groups("")
        text = json.loads(string) if string else ""
        yield Part(match.end(1), match.end(), text, string[:1] or begin or (end and "]"), before=f",{space}")
