"""The encoding of documents that are text."""

from __future__ import annotations

import codecs

from nmt.errors import DataError
from nmt.text.formats import BEGINNING, other_encoding, text_problem

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def encoding_of_mark(content: bytes) -> str | None:
    """Return the encoding that the byte order mark at the start says; None without one."""
    if content.startswith(codecs.BOM_UTF32_LE):
        return None
    return next((encoding for mark, encoding in _MARKS.items() if content.startswith(mark)), None)


def decoded(name: str, content: bytes, encoding: str) -> str:
    """Return the text of a document, with its byte order mark, which is a character.

    Raises DataError for other formats and for what is not in this encoding.
    """
    if (encoding_of_mark(content) or "utf-8") == "utf-8" and (problem := text_problem(name, content[:BEGINNING])):
        raise DataError(f"{name}: {problem}")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise DataError(f"{name}: not {encoding}, the encoding that it declares; save it as UTF-8") from None
        before = content[: error.start]
        number, start = before.count(b"\n") + 1, before.rfind(b"\n") + 1
        line = content[start:].split(b"\n", 1)[0]
        advice = other_encoding(name, line, is_mixed=not before.isascii())
        raise DataError(f"{name}: not UTF-8 at line {number}; {advice}") from None


def decoded_text(name: str, content: bytes) -> tuple[str, str]:
    """Return the text of a document that declares no encoding, and its encoding. Raises as `decoded`."""
    encoding = encoding_of_mark(content) or "utf-8"
    return decoded(name, content, encoding), encoding
