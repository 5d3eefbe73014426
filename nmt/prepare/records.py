"""Records of the preparation in the manifest, beyond those needed to read the data directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from nmt.data.corpus import FileRecord, Manifest, MonoRecord, SourceRecord, SplitRecord, TokenizerRecord
from nmt.files.document import Document
from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import CleanReport, total


def file_facts(directory: Path) -> dict[str, FileRecord]:
    """Return size and SHA-256 of every file below a directory, sorted by name."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): FileRecord(bytes=path.stat().st_size, sha256=checksum(path))
        for path in paths
    }


def content_fingerprint(files: Mapping[str, FileRecord]) -> str:
    """Return a hash of sixteen hexadecimal digits of the names and checksums of all files but the profiles of the
    languages, on which no training depends and which older directories lack."""
    content = sorted(files.keys() - {DataDir(Path()).tokenizer.profiles.as_posix()})
    text = "".join(f"{name} {files[name].sha256}\n" for name in content)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class CleanRecord(Document):
    """Counts of the pairs of a split, or of lines of monolingual text: read, kept, and dropped for each reason."""

    read: int
    kept: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, reports: Iterable[CleanReport]) -> CleanRecord:
        """Return the sums of reports."""
        report = total(reports)
        return cls(read=report.read, kept=report.kept, dropped=report.dropped_in_order)


class TextRecord(Document):
    """Counts of one side of a split, or of monolingual text."""

    words: int
    characters: int
    """Characters of words: without white space."""
    pieces: int
    bytes: int
    """Pieces that are single bytes."""
    unknown: int


def added(counts: Iterable[TextRecord]) -> TextRecord:
    """Return the sums of counts."""
    counts = list(counts)
    return TextRecord(**{name: sum(getattr(each, name) for each in counts) for name in TextRecord.model_fields})


class RoundTripRecord(Document):
    """Counts of the lines of a development or test set, and of those that the tokenizer decodes exactly."""

    lines: int
    exact: int
    control: int
    """Lines with control characters, which are not compared."""


class SplitOffRecord(Document):
    """The development set that was split off the training text."""

    asked: int | float
    """The number of pairs (int) or share (float) that the config asks for."""
    of: int
    """Training pairs before the split."""
    left_out: int
    """Training pairs dropped because they share a side with it."""


class PreparedSplit(SplitRecord):
    """One split as it was written."""

    clean: CleanRecord
    text: dict[str, TextRecord]
    """By language."""
    round_trip: RoundTripRecord | None = None
    split_off: SplitOffRecord | None = None
    classes: dict[str, int] | None = None
    """Number of pairs by label; None if the target is a language."""


class PreparedMono(MonoRecord):
    """The monolingual text of one language as it was written."""

    clean: CleanRecord
    text: TextRecord


class PreparedTokenizers(TokenizerRecord):
    """The tokenizers as they were written."""

    joint: bool
    pieces: dict[str, int]
    """Vocabulary size by language."""


class PreparedManifest(Manifest):
    """The manifest as it was written."""

    tokenizer: PreparedTokenizers
    splits: dict[str, PreparedSplit]  # type: ignore[assignment]
    mono: dict[str, PreparedMono] = Field({})  # type: ignore[assignment]


def counted_source(record: SourceRecord, report: CleanReport, skipped: Mapping[str, int]) -> SourceRecord:
    """Return the record of a source that has been read, with its counts."""
    counts = {"read": report.read, "kept": report.kept, "dropped": report.dropped_in_order}
    given = {name: n for name, n in (("skipped", skipped), ("repaired", report.repaired)) if n}
    return record.model_copy(update=counts | given)


def write_manifest(directory: DataDir, manifest: Manifest) -> None:
    """Write the manifest of a data directory. Raises OSError."""
    # serialize_as_any: splits and tokenizer have more fields than a reader of the manifest needs
    tree = manifest.model_dump(mode="json", exclude_unset=True, serialize_as_any=True)
    text = json.dumps(tree, ensure_ascii=False, indent=1)
    directory.manifest.write_bytes(f"{text}\n".encode())
