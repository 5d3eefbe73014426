"""Java properties, whose texts may be patterns of MessageFormat.

https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)
https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/text/MessageFormat.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from nmt.documents.keyed import Part, open_texts, unescaped
from nmt.documents.types import Document, DocumentOptions, decoded, encoding_of_mark

_BLANK = r"(?:[ \t\f]|\\(?:\r\n|[\r\n]))*+"
_ENTRY = re.compile(
    rf"(?s)[#!][^\r\n]*+|((?:[^\\ \t\f\r\n=:]|\\(?:\r\n|.))++|(?=[=:])){_BLANK}[=:]?{_BLANK}"
    r"((?:[^\\\r\n]|\\(?:\r\n|.|\Z))*+)"
)
"""Matches a comment, or a key and its value."""
_PATTERN = re.compile(r"(?s)(?=.*''|.*\{\d{1,9}\s*[,}])(?:[^']|'')*")
"""Matches texts of MessageFormat without quoted text."""


def open_properties(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a Java properties file, in ISO-8859-1 unless it is valid UTF-8. Raises DataError if it is binary."""
    encoding = encoding_of_mark(content) or "utf-8"
    last = "\x7f" if content.isascii() else "\U0010ffff"  # ASCII may be read in either encoding
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        encoding, last = "iso-8859-1", "\xff"
    text = decoded(name, content, encoding)

    def spelled(part: Part, written: str) -> str:
        written = json.dumps(written.replace("'", part.kind), ensure_ascii=max(written, default="") > last)
        return re.sub(r"\A ", r"\\ ", written[1:-1].replace(r"\"", '"'))

    return open_texts(text, encoding, _parts(text), options, spelled)


def _parts(text: str) -> Iterator[Part]:
    for match in _ENTRY.finditer(text, text.startswith("\ufeff")):
        key, value = map(unescaped, match.groups(""))
        apostrophe, formats = "'", ["java-format"] * ("'{" in value)
        if _PATTERN.fullmatch(value):
            apostrophe, formats = "''", []
        yield Part(*match.span(2), value.replace(apostrophe, "'"), apostrophe, formats, key=key)
