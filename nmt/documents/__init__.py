"""Documents, in which texts are replaced by their translations and everything else is unchanged.

The suffix of its name, and for some suffixes the content, determine the format of a file; see `nmt.documents.formats`.
"""

from __future__ import annotations

from pathlib import Path, PurePath

from nmt.console import printable
from nmt.documents.formats import FORMATS, format_of, has_markup, is_translated
from nmt.documents.types import Columns, Document, DocumentOptions, encoding_of_mark
from nmt.errors import DataError
from nmt.files.compressed import compression_of
from nmt.files.read import read_regular, reading
from nmt.text.formats import BEGINNING, document_kind
from nmt.text.lines import beginning
from nmt.text.translated import Translated

__all__ = [
    "FORMATS",
    "Columns",
    "Document",
    "DocumentOptions",
    "Translated",
    "format_of",
    "has_markup",
    "is_document",
    "is_translated",
    "open_document",
    "read_document",
    "refuse_document",
]


def open_document(
    name: Path | str, content: bytes, source: str = "", target: str = "", columns: Columns | None = None
) -> Document:
    """Open a document and extract its texts.

    name: the file name, whose suffix determines the format; source: the language to translate, by which HTML and WebVTT
    marked as another language is left out, unless it is empty or unknown; target: the language to translate into, which
    must be that of a document that states one, such as XLIFF, unless it is empty or unknown; columns: those of a table,
    which otherwise is translated by the languages that its header names, and a workbook as a whole.

    Raises DataError if the format is not supported or does not match the content, or if the document is damaged,
    encrypted or not safe to read, such as an archive that decompresses to too much.
    """
    name = printable(str(name))
    if not isinstance(content, bytes):
        raise DataError(f"{name}: content must be bytes, found {type(content).__name__}; use Path.read_bytes")
    row = format_of(name, content[:BEGINNING])
    if row is None or not row.is_translated:
        raise DataError(f"{name}: {_not_supported(name)}")
    return row.open(name, content, DocumentOptions(source, target, columns))


def _not_supported(name: str) -> str:
    """Return what is wrong with a document that has none of the supported formats."""
    suffix = PurePath(name).suffix.lower()
    if suffix in FORMATS:
        return f"not {FORMATS[suffix].name}, although its name ends in {suffix}"
    kind = f"documents of the type {suffix} are" if suffix else "a document whose name has no suffix is"
    return f"{kind} not supported; save the document as one of {' '.join(FORMATS)}"


def read_document(path: Path, source: str = "", target: str = "", columns: Columns | None = None) -> Document:
    """Read and open a document; see `open_document`.

    Raises DataError, also if the file cannot be read, or if another program changes it in the meantime.
    """
    with reading(path):
        before = path.stat()
        content = read_regular(path)
        after = path.stat()
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise DataError(f"{path}: changed while it was read; run the command again when it has been saved")
    return open_document(path, content, source, target, columns)


def is_document(source: Path | str) -> bool:
    """Return whether a source is a document: by its format, or a text in UTF-16, which has no lines of UTF-8."""
    path = Path(source)
    row = format_of(path)
    if row is not None and row.is_text and path.is_file():
        return "utf-16" in str(encoding_of_mark(beginning(path)))
    return row is not None and row.is_translated and not row.is_text


def refuse_document(
    source: Path | str, start: bytes = b"", remedy: str = "; --as-text translates lines as they are"
) -> None:
    """Raise DataError if the source is a document, whose markup or times would be translated as lines of text.

    start: the first bytes of a source that is not a file; remedy: the end of the message.
    """
    path = Path(source)
    start = beginning(path) if path.is_file() else start
    named = path.with_suffix("") if compression_of(path) else path
    row = format_of(named, start)
    kind = document_kind(start, named.suffix.lower())
    if row is not None and not row.is_text:
        kind = row.name
    if kind:
        advice = (row and row.advice) or f"documents are translated from files named {' '.join(FORMATS)}"
        raise DataError(f"{printable(str(source))}: {kind}, not lines of text; {advice} (docs/documents.md){remedy}")
