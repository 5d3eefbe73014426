"""Documents by the suffix of their name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from nmt.console import printable
from nmt.documents.catalogue import open_catalogue
from nmt.documents.html import open_html
from nmt.documents.plain import open_text
from nmt.documents.subtitles import open_subtitles
from nmt.documents.types import Document
from nmt.errors import ConfigError, DataError

FORMATS = (".txt", ".srt", ".vtt", ".po", ".html", ".htm", ".docx", ".odt")
"""Suffixes of the documents that can be opened."""

INSTALL = (
    "Word and OpenDocument files need the package lxml; pip install lxml installs it, and so does nmt's extra serve"
)


def open_document(name: str, content: bytes, should_stop: Callable[[], bool] = bool) -> Document:
    """Take a document apart.

    name: its file name, of which the suffix says the format; should_stop: asked while an office document is read and
    written, which then ends with DataError.

    Raises DataError for another format, for content that is not in it, and for what is damaged, encrypted or not safe
    to read, such as an archive that decompresses to too much. Raises ConfigError where a package is missing.
    """
    name = printable(name)
    match PurePath(name).suffix.lower():
        case ".txt":
            return open_text(name, content)
        case ".srt" | ".vtt":
            return open_subtitles(name, content)
        case ".po":
            return open_catalogue(name, content)
        case ".html" | ".htm":
            return open_html(name, content)
        case ".docx" | ".odt" as suffix:
            return _open_office(name, suffix, content, should_stop)
        case suffix:
            found = f"documents of the type {suffix} are" if suffix else "a document whose name has no suffix is"
            raise DataError(f"{name}: {found} not supported; save it as one of {' '.join(FORMATS)}")


def _open_office(name: str, suffix: str, content: bytes, should_stop: Callable[[], bool]) -> Document:
    try:
        from nmt.documents.docx import open_docx
        from nmt.documents.odt import open_odt
    except ModuleNotFoundError:
        raise ConfigError([INSTALL]) from None
    return (open_docx if suffix == ".docx" else open_odt)(name, content, should_stop)
