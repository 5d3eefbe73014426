"""Comparison of what two checkouts wrote for the same case, apart from what may differ between two runs."""

from __future__ import annotations

import contextlib
import difflib
import gzip
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

MAY_DIFFER: Sequence[tuple[bytes, bytes]] = [
    (rb"(?<![\d.])0\.\d+\.\d+(?:\.dev\d+)?(?:\+[0-9a-z.]+)?(?: \([0-9a-f]{7,12}(?:, modified)?\))?", b"VERSION"),
    (rb'"(commit|nmt)": ?"[^"]*"', rb'"\1": "VERSION"'),
    (rb"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?", b"DATE"),
    (rb"\b\d{8}T\d{6}Z\b", b"DATE"),
    (rb"\b\d\d:\d\d:\d\d\b", b"CLOCK"),
    (rb"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", b"ID"),
    (
        rb'"((?:\w+_)?(?:seconds|minutes)|tokens_per_second|time|clock|created|started|ended|host|pid|launch|seal'
        rb'|n_bytes|log_bytes)": ?(?:"[^"]*"|[-\d.e+]+)',
        rb'"\1": "TIME"',
    ),
    (rb"tokens_per_second [\d,.]+", b"tokens_per_second RATE"),
    (rb"[\d,.]+ (?:tok|tokens|lines|sentences|pairs|words|updates|tokens/s|it)/s", b"RATE"),
    # columns, which two spaces or more divide, are as wide as the durations in them
    (rb"(?: {2,})?\b\d[\d,.]* ?(?:ms|s|min|h|seconds?|minutes?|hours?)\b", b"DURATION"),
    (rb"(?<=  trained) +age\b", b" age"),
    (rb"\b\d+:\d\d\b", b"M:SS"),
    (rb"[\d,.]+ (?:GiB|MiB|GB|MB)(?= (?:are |is )?free)", b"SIZE"),
    (rb"(?<=http://127\.0\.0\.1:)\d+|(?<=http://localhost:)\d+", b"PORT"),
    (rb"\.py:\d+", b".py:LINE"),
    (rb", line \d+, in ", b", line LINE, in "),
    (
        rb'(?:(?<=id=")|(?<=url\(#)|(?<=href="#))(?:[a-z]|image)?[0-9a-f]{10}(?=["\)])',
        b"ID",
    ),
    (rb"/tmp/tmp\w{8}\b", b"/tmp/TMP"),
    (rb"(?<=translations/)[0-9a-f]{16}(?=\.json)", b"KEY"),  # of the code, too
]
"""What differs between two runs of the same code, and what replaces it."""

AS_WRITTEN = (".safetensors", ".npy", ".npz", ".bin", ".model")
"""Endings of files that are compared as they are."""

WITHOUT_TIMES = (".srt", ".vtt", ".txt", ".docx", ".odt", ".po", ".calls", "")
"""Endings of files in which only paths are replaced: their times are those of the text."""

IGNORED = re.compile(r"(^|/)(tensorboard|__pycache__)/|events\.out|\.lock$|(^|/)lock$")
"""Files that are not compared: they hold times or are empty."""
KEPT = re.compile(r"(?<=translations/)[0-9a-f]{16}(?=\.json$)")
"""Names of kept translations, which depend on the code; they are named by their content instead."""

_PATTERNS = [(re.compile(pattern), replacement) for pattern, replacement in MAY_DIFFER]
_ARCHIVES = (".docx", ".odt", ".zip", ".argosmodel")


@dataclass(frozen=True)
class Difference:
    """A file of a case that differs, with lines that show how."""

    case: str
    file: str
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.case}:{self.file}"


@dataclass(frozen=True)
class Expected:
    """Intended differences: a pattern, as in file names, of cases or of "case:file"."""

    pattern: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        return any(fnmatchcase(name, self.pattern) for name in (difference.case, difference.name))

    def concerns(self, case: str) -> bool:
        """Whether the pattern can only be met if this case is played."""
        return fnmatchcase(case, self.pattern.split(":")[0])


def read_expected(path: Path) -> list[Expected]:
    """Read the table of intended differences."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [Expected(row[0], row[1]) for row in rows if row[0] and not row[0].startswith("#")]


def normalised(content: bytes, paths: Sequence[tuple[str, str]] = ()) -> bytes:
    """Replace paths (each by a name), times, versions and the like by the same words in both checkouts."""
    content = _without_paths(content, paths)
    for pattern, replacement in _PATTERNS:
        content = pattern.sub(replacement, content)
    return content


def _without_paths(content: bytes, paths: Sequence[tuple[str, str]]) -> bytes:
    for path, name in paths:
        content = content.replace(path.encode(), name.encode())
    return content


def comparable(path: Path, paths: Sequence[tuple[str, str]] = ()) -> bytes:
    """Read a file for comparison: archives and compressed files by their content, tensors as they are."""
    content = path.read_bytes()
    if path.suffix in AS_WRITTEN:
        return content
    if path.suffix in _ARCHIVES and zipfile.is_zipfile(io.BytesIO(content)):
        return b"\n".join(_members(content, paths))
    if path.suffix == ".gz" and content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if path.suffix in WITHOUT_TIMES:
        return _without_paths(content, paths)
    return normalised(content, paths)


def _members(content: bytes, paths: Sequence[tuple[str, str]]) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            yield f"== {member.filename}, compression {member.compress_type}".encode()
            is_raw = Path(member.filename).suffix in AS_WRITTEN
            yield archive.read(member) if is_raw else normalised(archive.read(member), paths)


def files_of(folder: Path) -> dict[str, Path]:
    """The files below a folder that are compared, by relative path."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not IGNORED.search(name):
            if KEPT.search(name):
                name = KEPT.sub(hashlib.sha256(path.read_bytes()).hexdigest(), name)
            files[name] = path
    return files


def differences(case: str, old: Path, new: Path, paths: Sequence[tuple[str, str]] = ()) -> list[Difference]:
    """Compare the folders of a case."""
    old_files, new_files = files_of(old), files_of(new)
    found = []
    for name in sorted({*old_files, *new_files}):
        if name not in new_files:
            lines = ["only OLD writes it"]
        elif name not in old_files:
            lines = ["only NEW writes it"]
        else:
            lines = _changes(comparable(old_files[name], paths), comparable(new_files[name], paths))
        if lines:
            found.append(Difference(case, name, tuple(lines)))
    return found


def _changes(old: bytes, new: bytes, n_shown: int = 12) -> list[str]:
    """The lines that differ; where the first byte differs, if these are no texts."""
    if old == new:
        return []
    try:
        old_lines, new_lines = (_lines(content.decode("utf-8")) for content in (old, new))
    except UnicodeDecodeError:
        first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return [f"{len(old)} and {len(new)} bytes, which differ from byte {first}"]
    diff = [*difflib.unified_diff(old_lines, new_lines, n=0, lineterm="")][2:]
    changed = [line for line in diff if not line.startswith("@@")]
    if len(changed) > n_shown:
        changed[n_shown:] = [f"... and {len(changed) - n_shown} more lines"]
    return [_around(line) for line in changed] or ["the ends of lines differ"]


def _lines(text: str) -> list[str]:
    """The lines of a text; the parts of a long line of JSON."""
    if text.startswith(("{", "[")) and text.count("\n") < 3:
        with contextlib.suppress(ValueError):
            text = json.dumps(json.loads(text), indent=0, ensure_ascii=False)
    return text.split("\n")


def _around(line: str, width: int = 400) -> str:
    return line if len(line) <= width else f"{line[:width]}... ({len(line)} characters)"
