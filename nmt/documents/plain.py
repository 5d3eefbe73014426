"""Plain text, whose lines are divided at tabs."""

from __future__ import annotations

import re

from nmt.documents.inline import Mark, Passage, Text
from nmt.documents.types import Document, DocumentOptions, Languages, Results, decoded_text
from nmt.errors import DataError
from nmt.text.formats import BEGINNING, document_kind

_BREAK = re.compile(r"(\r\n|[\n\r\t])")


def open_text(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open a text file. Raises DataError if it cannot be decoded."""
    text, encoding = decoded_text(name, content)
    if kind := document_kind(content[:BEGINNING]):
        raise DataError(f"{name}: {kind}, not lines of text as the name says; save it as plain text")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    parts = _BREAK.split(text.removeprefix(mark))
    tokens = [Mark("break", part) if i % 2 else Text(part, part) for i, part in enumerate(parts)]
    passage = Passage(tokens)

    def write(results: Results, _: Languages) -> bytes:
        written = passage.translated(results)[1]
        parts = (token.raw or token.text if isinstance(token, Text) else token.markup for token in written)
        return (mark + "".join(parts)).encode(encoding)

    return Document(passage.texts, write)
