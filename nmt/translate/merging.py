"""Translation again into the same files: what stays, what is translated, and the record by which this is known.

The record of an output is `.nmt/NAME.json` beside it. What an output has that is not in its record was edited, and is
kept. The record is replaced after the output; a killed process may leave it as `.nmt/NAME.json.part`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from nmt.documents import Document, open_document, read_document
from nmt.documents.units import Forms, plain
from nmt.errors import DataError
from nmt.files import document as files
from nmt.files.read import checksum, fingerprint_of

FOLDER = ".nmt"
"""The name of the folders with records."""
_ADVICE = "; remove it, and all translations in the output are kept as if they were edited"
REMOVED = "removed from the output, since the source lacks them"
OUTDATED = "kept with an edited translation, although their source has changed"


class Record(files.Document):
    """What is known about an output; without texts if its format has no keys."""

    made_from: str
    """Hash of the source, the models and the options."""
    contents: list[str]
    """SHA-256 of the output, and of its bilingual file if there is one."""
    sources: dict[str, str]
    """Hash of each text by its key."""
    translations: dict[str, str]
    """Hash of each translation by its key, except those that were edited."""


class Previous:
    """The files that an earlier translation of a document has written."""

    def __init__(self, paths: Sequence[Path], made_from: str) -> None:
        """Read the record. paths: the document and, if any, the bilingual file; made_from: identifies the source, the
        models and the options. Raises DataError if the record is damaged."""
        self.paths = paths
        self.made_from = fingerprint_of(made_from.encode())
        self.at = paths[0].parent / FOLDER / f"{paths[0].name}.json"
        self.record = Record(made_from="", contents=[], sources={}, translations={})
        self._edited = set[str]()
        part = self.at.with_name(f"{self.at.name}.part")
        with suppress(FileNotFoundError, DataError):
            if checksum(paths[0]) in files.read_document(part, Record, DataError).contents:
                part.replace(self.at)
        with suppress(FileNotFoundError):
            self.record = files.read_document(self.at, Record, DataError, _ADVICE)

    def reason_to_leave(self, document: Document, overwrite: bool) -> str:
        """Return why the files stay as they are; an empty string if they are written again.

        Raises DataError if there is only a bilingual file, which may contain a review, or if it would be overwritten.
        """
        there = [path for path in self.paths if path.is_file()]
        edited = [path for path in there if checksum(path) not in self.record.contents]
        if edited and edited[-1] != self.paths[0] and (overwrite or len(there) == 1):
            raise DataError(f"{edited[-1]}: exists, and may contain a review; choose another directory, or remove it")
        if overwrite:
            return ""
        if edited and (self.paths[1:] or not document.units):
            return f"{edited[0].name} was edited, or has no record; --overwrite translates it again"
        is_same = not edited and there == self.paths and self.record.made_from == self.made_from
        return "unchanged" if is_same else ""

    def merge(self, document: Document) -> None:
        """Keep the translations of the output, except those of texts that have changed, unless they were edited.

        Raises DataError if the output cannot be read.
        """
        if not document.units or self.paths[1:] or not self.paths[0].is_file():
            return
        previous = read_document(self.paths[0]).units
        kept = {}
        outdated = []
        for key, unit in document.units.items():
            if unit.target or key not in previous or not any(map(plain, previous[key].translation.values())):
                continue
            source = _hash(unit.source)
            is_outdated = self.record.sources.get(key, source) != source
            if self.record.translations.get(key) != _hash(previous[key].translation):
                self._edited.add(key)
                outdated += [key] * is_outdated
            elif is_outdated:
                continue
            kept[key] = previous[key]
        document.keep(kept)
        removed = [key for key in previous if key not in document.units]
        document.remarks = {name: keys for name, keys in ((OUTDATED, outdated), (REMOVED, removed)) if keys}

    def new_record(self, document: Document, contents: Sequence[bytes]) -> bytes:
        """Return the record of the files, given their new contents."""
        units = open_document(self.paths[0], contents[0]).units.items()
        record = Record(
            made_from=self.made_from,
            contents=[sha256(content).hexdigest() for content in contents],
            sources={key: _hash(unit.source) for key, unit in document.units.items()},
            translations={key: _hash(unit.translation) for key, unit in units if key not in self._edited},
        )
        return files.document_text(record).encode()


def _hash(forms: Forms) -> str:
    return fingerprint_of(repr([*map(plain, forms.values())]).encode())
