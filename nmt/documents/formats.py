"""The formats of documents: one row for each, which all rooms read.

A new format is a module with a function that opens it, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import TypeAlias

from nmt.documents.types import Document, DocumentOptions
from nmt.errors import DataError
from nmt.text.formats import TABLE, document_kind
from nmt.text.lines import beginning

Opener: TypeAlias = Callable[[str, bytes, DocumentOptions], Document]
"""A function that opens a document, given its file name in messages, its content and options. Raises DataError if the
content is damaged, encrypted, not safe to read, or in another format."""


@dataclass(frozen=True)
class DocumentFormat:
    """A format of documents."""

    name: str
    """Its name in messages."""
    suffixes: tuple[str, ...]
    """The suffixes of its files, in lower case."""
    opener: str = ""
    """The function that opens it, as `module.function` of this package; empty: such files are rejected."""
    advice: str = ""
    """What to do with a file that is rejected."""
    is_text: bool = False
    """Whether its lines are translated as text unless a document is asked for."""
    has_markup: bool = True
    """Whether there may be markup within sentences, which is placed by aligned words."""
    is_binary: bool = False
    """Whether it cannot be shown on a terminal."""
    has_columns: bool = False
    """Whether columns can be chosen."""
    separators: tuple[bytes, ...] = ()
    """What separates texts, besides line breaks and tags. Its number in a file is limited on servers."""
    kind: str = ""
    """The kind by the content (see `document_kind`), where other files have the same suffixes, which may be codes of
    languages; empty: the suffix decides."""

    @property
    def is_translated(self) -> bool:
        """Whether documents in this format are translated."""
        return bool(self.opener)

    def open(self, name: str, content: bytes, options: DocumentOptions) -> Document:
        """Open a document; see `Opener`. Raises DataError, also for columns of a document that has none."""
        if options.columns is not None and not self.has_columns:
            raise DataError(f"{name}: {self.name}, which has no columns; --columns is for tables")
        module, _, function = self.opener.rpartition(".")
        opener: Opener = getattr(import_module(f"nmt.documents.{module}"), function)
        return opener(name, content, options)


_ROWS = (
    DocumentFormat("plain text", (".txt",), "plain.open_text", is_text=True, has_markup=False, separators=(b"\t",)),
    DocumentFormat("SubRip subtitles", (".srt",), "subtitles.open_subtitles", has_markup=False),
    DocumentFormat("WebVTT subtitles", (".vtt",), "subtitles.open_subtitles"),
    DocumentFormat("a PO catalogue", (".po",), "catalogue.open_catalogue"),
    DocumentFormat(TABLE, (".csv", ".tsv"), "tables.open_table", has_columns=True, separators=(b"\t",), kind=TABLE),
    DocumentFormat("an Excel workbook", (".xlsx",), "office.open_xlsx", is_binary=True, has_columns=True),
    DocumentFormat("HTML", (".html", ".htm"), "html.open_html"),
    DocumentFormat("a Word document", (".docx",), "office.open_docx", is_binary=True),
    DocumentFormat("a PowerPoint presentation", (".pptx",), "office.open_pptx", is_binary=True),
    DocumentFormat("an OpenDocument text", (".odt",), "office.open_odt", is_binary=True),
)

FORMATS = {suffix: row for row in _ROWS if row.is_translated for suffix in row.suffixes}
"""The formats of documents that are translated, by the suffixes of their files."""


def is_translated(name: Path | str, start: bytes | None = None) -> bool:
    """Return whether a file is a document that can be translated; see `format_of`."""
    row = format_of(name, start)
    return row is not None and row.is_translated


def format_of(name: Path | str, start: bytes | None = None) -> DocumentFormat | None:
    """Return the format of a document by its name and, where the suffix does not decide, by its content.

    start: the first bytes of the document, by default those of the file with this name.
    """
    suffix = PurePath(name).suffix.lower()
    rows = [row for row in _ROWS if suffix in row.suffixes]
    if start is None and any(row.kind for row in rows):
        path = Path(name)
        start = beginning(path) if path.is_file() else b""
    return next((row for row in rows if not row.kind or row.kind == document_kind(start or b"", suffix)), None)


def has_markup(name: Path | str, start: bytes | None = None) -> bool:
    """Return whether a document may have markup within sentences, which is placed by aligned words; see `format_of`."""
    row = format_of(name, start)
    return row is not None and row.has_markup
