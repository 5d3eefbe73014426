"""Strings files of Apple's systems.

https://developer.apple.com/library/archive/documentation/Cocoa/Conceptual/LoadingResources/Strings/Strings.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from nmt.documents.keyed import Part, open_texts, unescaped
from nmt.documents.types import Document, DocumentOptions, decoded_text
from nmt.errors import DataError
from nmt.text.constraints import protected

_STRING = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_WORD = r"[\w.$:/-]++"
_GAP = r"(?:\s++|/\*(?:[^*]|\*(?!/))*+\*/|//[^\r\n]*+)*+"
_ENTRY = re.compile(
    rf"(?s)\ufeff?{_GAP}(?:\Z|(?:{_STRING}|({_WORD})){_GAP}(?:={_GAP}(?:{_STRING}|{_WORD}){_GAP})?;|(.))"
)
"""Matches an entry, with its key, in quotes or not, and its text in quotes; the end; or anything else."""
_CODE = re.compile(r"(?<!\\)\\U(?=[\dA-Fa-f]{4})")


def open_strings(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a strings file in UTF-8 or UTF-16. Raises DataError if it is malformed, such as a property list in XML."""
    text, encoding = decoded_text(name, content)

    def spelled(part: Part, written: str) -> str:
        line_end = "\n" if "\n" in text[part.start : part.end] else r"\n"
        return line_end.join(json.dumps(line, ensure_ascii=False)[1:-1] for line in written.split("\n"))

    return open_texts(text, encoding, _parts(name, text), options, spelled)


def _parts(name: str, text: str) -> Iterator[Part]:
    """Yield the texts. Raises DataError at anything else."""
    for match in _ENTRY.finditer(text):
        if match[4]:
            line = text.count("\n", 0, match.end()) + 1
            raise DataError(f'{name}: line {line}: neither a comment nor an entry such as "key" = "text"; correct it')
        key, word, value = (unescaped(_CODE.sub(r"\\u", string)) for string in match.groups("")[:3])
        formats = ["objc-format"] * any(part.startswith("%") for part in protected(value))
        yield Part(*match.span(3), value, formats=formats, key=key or word)
