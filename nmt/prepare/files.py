"""Facts about the files of a data directory, and samples of what was dropped, for the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.data.manifest import FileRecord
from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import CleanReport, total


def samples_of(
    reports: Sequence[CleanReport], labels: Sequence[str], languages: Sequence[str]
) -> dict[str, list[dict[str, str | int]]]:
    """Return a few of the dropped pairs by reason, each with its corpus and its line number there.

    Those of the development set are left out: they are not lost, and have a file of their own.
    """
    reasons = [reason for reason in total(reports).dropped_in_order if reason != "valid"]
    return {
        reason: [
            {"source": f"train.{number}", "corpus": label, "line": line, **dict(zip(languages, texts, strict=True))}
            for number, (report, label) in enumerate(zip(reports, labels, strict=True))
            for line, *texts in report.samples.get(reason, [])
        ]
        for reason in reasons
    }


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
