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


_BY_PO = "convert it to PO with po4a, and back afterwards"
_REJECTED = (
    (".stringsdict", "plural forms of Apple", "export the texts of the project as XLIFF", ""),
    (".xcstrings", "a string catalog of Apple", "export the texts of the project as XLIFF", ""),
    (".ftl", "Fluent messages", "convert them to XLIFF or JSON", ""),
    (".toml", "TOML", "convert it to JSON or YAML", ""),
    (".ini", "settings", "convert them to PO with ini2po of Translate Toolkit", ""),
    (".pot", "a template of gettext", "make a .po file of it with msginit", "a PO file of gettext"),
    (".rst", "reStructuredText", "extract its texts as PO with `sphinx-build -b gettext`", ""),
    (".adoc", "AsciiDoc", _BY_PO, ""),
    (".tex", "LaTeX", _BY_PO, "LaTeX"),
    (".ass", "subtitles of SubStation Alpha", "convert them to .srt", "subtitles"),
    (".php", "PHP", "convert it to PO with php2po of Translate Toolkit", ""),
    (".dita", "DITA", "convert it to XLIFF", ""),
    (".xml", "XML", "convert it to XLIFF", "XML"),
    (".mdx", "Markdown with JavaScript", "move its texts to Markdown or JSON", ""),
)
"""Suffixes of files that would be damaged as lines of text: the name of the format, what to do, and the kind."""
_ROWS = (
    DocumentFormat("plain text", (".txt",), "plain.open_text", is_text=True, has_markup=False, separators=(b"\t",)),
    DocumentFormat("SubRip subtitles", (".srt",), "subtitles.open_subtitles", has_markup=False),
    DocumentFormat("WebVTT subtitles", (".vtt",), "subtitles.open_subtitles"),
    DocumentFormat("a PO catalogue", (".po",), "catalogue.open_catalogue"),
    DocumentFormat(TABLE, (".csv", ".tsv"), "tables.open_table", has_columns=True, separators=(b"\t",), kind=TABLE),
    DocumentFormat("an Excel workbook", (".xlsx",), "office.open_xlsx", is_binary=True, has_columns=True),
    DocumentFormat("XLIFF", (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), "xliff.open_xliff"),
    DocumentFormat("JSON", (".json", ".arb"), "json.open_json", separators=(b'"', b"\\n"), kind="JSON"),
    DocumentFormat("Java properties", (".properties",), "properties.open_properties", separators=(b"\\n",)),
    DocumentFormat("a strings file", (".strings",), "strings.open_strings", separators=(b";", b"\\n")),
    DocumentFormat("YAML", (".yaml", ".yml"), "yaml.open_yaml", separators=(b",", b"\\n"), kind="YAML"),
    DocumentFormat("Markdown", (".md", ".markdown"), "markdown.open_markdown", separators=(b"|",)),
    DocumentFormat("HTML", (".html", ".htm"), "html.open_html"),
    DocumentFormat("a Word document", (".docx",), "office.open_docx", is_binary=True),
    DocumentFormat("a PowerPoint presentation", (".pptx",), "office.open_pptx", is_binary=True),
    DocumentFormat("an OpenDocument text", (".odt",), "office.open_odt", is_binary=True),
    DocumentFormat("Android resources", (".xml",), "android.open_resources", kind="Android resources"),
    DocumentFormat("a .resx file", (".resx",), "resx.open_resx"),
    DocumentFormat("a file of Qt Linguist", (".ts",), "qt.open_ts", kind="a file of Qt Linguist"),
    *(DocumentFormat(name, (suffix,), advice=advice, kind=kind) for suffix, name, advice, kind in _REJECTED),
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
