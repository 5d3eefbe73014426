"""Records in the manifest that describe the preparation, in addition to those needed to read the data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from nmt.data.corpus import FileRecord, Manifest, MonoRecord, SourceRecord, SplitRecord, TokenizerRecord
from nmt.files.document import Document
from nmt.files.read import checksum, fingerprint_of
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import CleanReport, total
from nmt.text.language import Letters


def file_facts(directory: Path) -> dict[str, FileRecord]:
    """Return the size and SHA-256 of each file below a directory, sorted by name."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): FileRecord(bytes=path.stat().st_size, sha256=checksum(path))
        for path in paths
    }


def content_fingerprint(files: Mapping[str, FileRecord], letters: Letters | None = None) -> str:
    """Return a hash, of sixteen hexadecimal digits, of the names and checksums of all files, and of the `letters` in
    the profiles of the languages.

    The rest of the profiles is left out: no training depends on it, and older directories lack it.
    """
    content = sorted(files.keys() - {DataDir(Path()).tokenizer.profiles.as_posix()})
    text = "".join(f"{name} {files[name].sha256}\n" for name in content)
    text += json.dumps(letters) if letters else ""
    return fingerprint_of(text.encode())


class CleanRecord(Document):
    """Counts of pairs of a split, or of lines of monolingual text: read, kept, and dropped by reason."""

    read: int
    kept: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, reports: Iterable[CleanReport]) -> CleanRecord:
        """Return the sum of the counts of reports."""
        report = total(reports)
        return cls(read=report.read, kept=report.kept, dropped=report.dropped_in_order)


class TextRecord(Document):
    """Counts of one side of a split, or of monolingual text."""

    words: int
    characters: int
    """Number of characters without white space."""
    pieces: int
    bytes: int
    """Number of pieces that are single bytes."""
    unknown: int


def added(counts: Iterable[TextRecord]) -> TextRecord:
    """Return the sum of the counts of several texts."""
    counts = list(counts)
    return TextRecord(**{name: sum(getattr(each, name) for each in counts) for name in TextRecord.model_fields})


class RoundTripRecord(Document):
    """Counts of the lines of a development or test set, and of those that the tokenizer decodes exactly."""

    lines: int
    exact: int
    control: int
    """Number of lines with control characters, which are not compared."""


class SplitOffRecord(Document):
    """A record of a development or test set that was split off from the training text."""

    asked: int | float
    """The number of pairs (int) or share (float) that the config asks for."""
    of: int
    """Number of training pairs from which it was chosen."""
    left_out: int
    """Number of training pairs that were dropped because they share a side with a set that was split off; counted once,
    for the first set."""


class PreparedSplit(SplitRecord):
    """A record of a split with the counts of its preparation."""

    clean: CleanRecord
    text: dict[str, TextRecord]
    """By language."""
    round_trip: RoundTripRecord | None = None
    split_off: SplitOffRecord | None = None
    classes: dict[str, int] | None = None
    """Number of pairs by label; None if the target is a language."""


class PreparedMono(MonoRecord):
    """A record of the monolingual text of a language with the counts of its preparation."""

    clean: CleanRecord
    text: TextRecord


class PreparedTokenizers(TokenizerRecord):
    """A record of the tokenizers with their kind and sizes."""

    joint: bool
    pieces: dict[str, int]
    """Vocabulary size by language."""


class PreparedManifest(Manifest):
    """A manifest with the counts of the preparation."""

    tokenizer: PreparedTokenizers
    splits: dict[str, PreparedSplit]  # type: ignore[assignment]
    mono: dict[str, PreparedMono] = Field({})  # type: ignore[assignment]


def counted_source(record: SourceRecord, report: CleanReport, skipped: Mapping[str, int]) -> SourceRecord:
    """Return the record of a source with the counts of its pairs."""
    counts = {"read": report.read, "kept": report.kept, "dropped": report.dropped_in_order}
    given = {name: n for name, n in (("skipped", skipped), ("repaired", report.repaired)) if n}
    return record.model_copy(update=counts | given)


def write_manifest(directory: DataDir, manifest: Manifest) -> None:
    """Write the manifest of a data directory. Raises OSError."""
    # serialize_as_any: splits and tokenizer have more fields than a reader of the manifest needs
    tree = manifest.model_dump(mode="json", exclude_unset=True, serialize_as_any=True)
    text = json.dumps(tree, ensure_ascii=False, indent=1)
    directory.manifest.write_bytes(f"{text}\n".encode())
