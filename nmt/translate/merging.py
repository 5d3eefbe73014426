"""Translation again into the same files: what stays, what is translated, and the record by which this is known.

The record of an output is `.nmt/NAME.json` beside it. What an output has that is not in its record was edited, and is
kept. The record is replaced after the output; a killed process may leave it as `.nmt/NAME.json.part`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from nmt.documents import Document, open_document, read_document
from nmt.documents.units import Forms, plain
from nmt.errors import DataError
from nmt.files import document as files
from nmt.files.read import checksum, fingerprint_of

_ADVICE = "; remove it, and all translations in the output are kept as if they were edited"
OUTDATED = "kept with an edited translation, although the source has changed"
REPLACED = "with an edited translation that gave way to that in the source"
UNKNOWN = "kept, since the output has no record of what was translated"
REMOVED = "removed from the output, since the source lacks them"


class Record(files.Document):
    """What is known about an output."""

    made_from: str
    """Hash of the source, the models and the options."""
    contents: list[str]
    """SHA-256 of the output, and of its bilingual file if there is one."""
    sources: dict[str, str]
    """Hash of each text by its key, in formats with keys."""
    translations: dict[str, str]
    """Hash of each translation by its key, except those that were edited."""


class Previous:
    """The files that an earlier translation of a document has written."""

    def __init__(self, paths: Sequence[Path], made_from: str) -> None:
        """Read the record. paths: the document and, if any, the bilingual file; made_from: identifies the source, the
        models and the options. Raises DataError if the record is damaged."""
        self.paths = paths
        self.made_from = fingerprint_of(made_from.encode())
        self.at = paths[0].parent / ".nmt" / f"{paths[0].name}.json"
        self._record = Record(made_from="", contents=[], sources={}, translations={})
        self._edited = set[str]()
        part = self.at.with_name(f"{self.at.name}.part")
        with suppress(FileNotFoundError, DataError):
            if checksum(paths[0]) in files.read_document(part, Record, DataError).contents:
                part.replace(self.at)
        with suppress(FileNotFoundError):
            self._record = files.read_document(self.at, Record, DataError, _ADVICE)

    def reason_to_stay(self, has_keys: bool, overwrite: bool) -> str:
        """Return why the files stay as they are; an empty string if they are written again.

        Raises DataError if a bilingual file, which may contain a review, would be replaced.
        """
        there = [path for path in self.paths if path.is_file()]
        edited = [path for path in there if checksum(path) not in self._record.contents]
        if there == self.paths and self._record.made_from == self.made_from and not (overwrite or there[0] in edited):
            return "unchanged"
        if edited and edited[-1] != self.paths[0]:
            raise DataError(f"{edited[-1]}: exists, and may contain a review; choose another directory, or remove it")
        if edited and not (overwrite or (has_keys and len(self.paths) == 1)):
            return "left, since it was edited or has no record; --overwrite translates it again"
        return ""

    def merge(self, document: Document) -> None:
        """Keep the translations of the output, except those of texts that have changed, unless they were edited.

        Raises DataError if the output cannot be read.
        """
        previous = read_document(self.paths[0]).units
        kept = {}
        remarks = defaultdict[str, list[str]](list)
        for key, unit in document.units.items():
            old = previous.get(key)
            if old is None or not any(map(plain, old.translation.values())):
                continue
            translation = _hash(old.translation)
            is_edited = self._record.translations.get(key) != translation
            is_outdated = self._record.sources.get(key) not in (None, _hash(unit.source))
            if unit.target:  # formats write it as it is
                if is_edited and translation != _hash(unit.target):
                    remarks[REPLACED].append(key)
                continue
            if is_edited:
                self._edited.add(key)
                if is_outdated:
                    remarks[OUTDATED].append(key)
            elif is_outdated:
                continue
            kept[key] = old
            if not self._record.contents:
                remarks[UNKNOWN].append(key)
        if removed := [key for key in previous if key not in document.units]:
            remarks[REMOVED] = removed
        document.keep(kept)
        document.remarks = remarks

    def record(self, document: Document, contents: Sequence[bytes]) -> bytes:
        """Return the record of the files, given their contents."""
        units = open_document(self.paths[0], contents[0]).units.items() if document.units else ()
        record = Record(
            made_from=self.made_from,
            contents=[sha256(content).hexdigest() for content in contents],
            sources={key: _hash(unit.source) for key, unit in document.units.items()},
            translations={key: _hash(unit.translation) for key, unit in units if key not in self._edited},
        )
        return files.document_text(record).encode()


def _hash(forms: Forms) -> str:
    return fingerprint_of(repr([*map(plain, forms.values())]).encode())
