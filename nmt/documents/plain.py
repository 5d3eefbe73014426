"""Plain text: each line is translated, and its end, indentation, encoding and byte order mark are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.documents.decoding import decoded_text
from nmt.documents.inline import Mark, Passage, Text, Token
from nmt.documents.placing import place
from nmt.documents.types import Document, Translated

_LINE_END = re.compile("(\r\n|\n|\r)")


def open_text(name: str, content: bytes) -> Document:
    """Take a text file apart. Raises DataError."""
    text, encoding = decoded_text(name, content)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    parts = _LINE_END.split(text.removeprefix(mark))
    tokens: list[Token[str]] = [Mark("break", part) if i % 2 else Text(part, part) for i, part in enumerate(parts)]
    passage = Passage(tokens)

    def write(results: Sequence[Translated]) -> bytes:
        _, written = passage.translated(iter(results), place)
        parts = (token.raw or token.text if isinstance(token, Text) else token.markup for token in written)
        return (mark + "".join(parts)).encode(encoding)

    return Document(passage.texts, write)
