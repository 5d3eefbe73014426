"""Documents, in which texts are replaced by their translations and everything else is unchanged.

A file is opened by the suffix of its name. In plain text, lines are divided at tabs.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from nmt.console import printable
from nmt.documents.catalogue import open_catalogue
from nmt.documents.html import HtmlFragment, open_html
from nmt.documents.inline import Mark, Passage, Text
from nmt.documents.office import open_docx, open_odt
from nmt.documents.subtitles import open_subtitles
from nmt.documents.types import Document, Languages, Results, decoded_text, encoding_of_mark
from nmt.errors import DataError
from nmt.files.compressed import compression_of
from nmt.files.read import read_regular, reading
from nmt.text.formats import BEGINNING, document_kind
from nmt.text.lines import beginning
from nmt.text.translated import Translated

__all__ = [
    "FORMATS",
    "Document",
    "HtmlFragment",
    "Translated",
    "is_document",
    "is_marked_up",
    "open_document",
    "read_document",
    "refuse_document",
]

_BREAK = re.compile(r"(\r\n|[\n\r\t])")


def open_text(name: str, content: bytes) -> Document:
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


FORMATS = (".txt", ".srt", ".vtt", ".po", ".html", ".htm", ".docx", ".odt")
"""Suffixes of the supported documents; the first is plain text."""


def open_document(name: Path | str, content: bytes, source: str = "") -> Document:
    """Open a document and extract its texts.

    name: the file name, whose suffix determines the format; source: the language to translate, by which HTML and WebVTT
    marked as another language is left out, unless it is empty or unknown.

    Raises DataError if the format is not supported or does not match the content, or if the document is damaged,
    encrypted or not safe to read, such as an archive that decompresses to too much.
    """
    name = printable(str(name))
    if not isinstance(content, bytes):
        raise DataError(f"{name}: content must be bytes, found {type(content).__name__}; use Path.read_bytes")
    match PurePath(name).suffix.lower():
        case ".txt":
            return open_text(name, content)
        case ".srt" | ".vtt":
            return open_subtitles(name, content, source)
        case ".po":
            return open_catalogue(name, content)
        case ".html" | ".htm":
            return open_html(name, content, source)
        case ".docx":
            return open_docx(name, content)
        case ".odt":
            return open_odt(name, content)
        case suffix:
            kind = f"documents of the type {suffix} are" if suffix else "a document whose name has no suffix is"
            raise DataError(f"{name}: {kind} not supported; save the document as one of {' '.join(FORMATS)}")


def read_document(path: Path, source: str = "") -> Document:
    """Read and open a document; see `open_document`.

    Raises DataError, also if the file cannot be read, or if another program changes it in the meantime.
    """
    with reading(path):
        before = path.stat()
        content = read_regular(path)
        after = path.stat()
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise DataError(f"{path}: changed while it was read; run the command again when it has been saved")
    return open_document(path, content, source)


def is_marked_up(name: Path | str) -> bool:
    """Return whether a document, by its name, may have markup within sentences, which is placed by aligned words."""
    return PurePath(name).suffix.lower() not in (".txt", ".srt")


def is_document(source: Path | str) -> bool:
    """Return whether a source is a document: by its name, or a text in UTF-16, which has no lines of UTF-8."""
    path = Path(source)
    if path.suffix.lower() == FORMATS[0] and path.is_file():
        return "utf-16" in str(encoding_of_mark(beginning(path)))
    return path.suffix.lower() in FORMATS[1:]


def refuse_document(
    source: Path | str, start: bytes = b"", remedy: str = "; --as-text translates lines as they are"
) -> None:
    """Raise DataError if the source is a document, whose markup or times would be translated as lines of text.

    start: the first bytes of a source that is not a file; remedy: the end of the message.
    """
    path = Path(source)
    start = beginning(path) if path.is_file() else start
    suffix = (path.with_suffix("") if compression_of(path) else path).suffix.lower()
    if kind := document_kind(start, suffix) or (f"a document ({suffix})" if suffix in FORMATS[1:] else None):
        raise DataError(
            f"{printable(str(source))}: {kind}, not lines of text; documents are translated from files named "
            f"{' '.join(FORMATS[1:])} (docs/documents.md){remedy}"
        )
