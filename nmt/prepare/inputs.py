"""Files of a source, on disk or in archives, that are found by a path or pattern and decompressed when opened."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO

from nmt.console import listed, printable, say
from nmt.data.sources import FilesSource, PathSource
from nmt.documents.formats import FORMATS as DOCUMENTS
from nmt.errors import DataError
from nmt.files.compressed import (
    START_BYTES,
    OpenContent,
    compression_of,
    decompressed,
    is_archive,
    is_read_in_order,
    read_archive,
)
from nmt.files.read import check_regular, checksum, open_regular, reading
from nmt.text.formats import compression_problem
from nmt.text.lines import READ_TWICE

_WILDCARDS = re.compile(r"[*?]")


def natural(name: str) -> tuple[list[list[str | tuple[int, str]]], str]:
    """Return a sort key for file names that orders numbers by value: `file.2` before `file.10`."""
    return [_natural(part) for part in name.split("/")], name


def _natural(part: str) -> list[str | tuple[int, str]]:
    texts: list[str | tuple[int, str]] = [*re.split("([0-9]+)", part)]
    for i in range(1, len(texts), 2):
        digits = str(texts[i]).lstrip("0")
        texts[i] = len(digits), digits  # of any length, unlike int()
    return texts


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern, in which `*` stands for any text and `?` for any character."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def is_hidden(name: str) -> bool:
    """Return whether a part of a name begins with a dot, or is the folder that macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def find_files(path: str, root: Path) -> tuple[list[tuple[Path, str]], int]:
    """Find the files under a path in natural order, and count the skipped links and special files.

    A folder stands for all files below it. In a pattern, `*` and `?` stand for text within a name, and `**` for any
    folders. Hidden files are found only by their names; links to folders are followed only where the path names them.

    Returns each file with its name relative to the folder (empty if `path` is a file or a pattern), and the count.
    Raises DataError if there are no files, or a folder cannot be read.
    """
    full = root / path
    with reading(full):
        if full.is_dir():
            entries = [(file, str(file.relative_to(full))) for file in _below(full)]
            problem = "no files in it"
        elif full.exists():
            check_regular(full)
            return [(full, "")], 0
        else:
            entries = [(file, "") for file in _matching(full)]
            problem = "nothing there"
    if _WILDCARDS.search(path):
        problem = "no file matches"
    files = [(file, name) for file, name in entries if file.is_file()]
    if not files:
        under = "" if Path(path).is_absolute() else f" under {root}"
        raise DataError(f"{path}: {problem}{under}; check path and data.root in the config")
    return sorted(files, key=lambda file: natural(str(file[0]))), len(entries) - len(files)


def _below(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder that is neither hidden nor a folder; links to folders are not followed."""
    for parent, folders, names in os.walk(folder, onerror=_fail):
        folders[:] = [name for name in folders if not is_hidden(name)]
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for name in [*links, *names]:
            if not is_hidden(name):
                yield Path(parent, name)


def _fail(error: OSError) -> None:
    raise error


def _matching(pattern: Path) -> Iterator[Path]:
    """Yield the files and links of `_below` whose names match a pattern."""
    n_fixed = next((i for i, part in enumerate(pattern.parts) if _WILDCARDS.search(part)), None)
    if n_fixed is None:
        return
    folder = Path(*pattern.parts[:n_fixed])
    parts = pattern.parts[n_fixed:]
    folders = ""
    for part in parts[:-1]:
        folders += "(?:[^/]+/)*" if part == "**" else f"{_expression(part)}/"
    name = ".*" if parts[-1] == "**" else _expression(parts[-1])
    if folder.is_dir():
        for path in _below(folder):
            if re.fullmatch(folders + name, str(path.relative_to(folder)), re.DOTALL):
                yield path


def _expression(part: str) -> str:
    return re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


FORMATS = {
    ".tmx": "tmx",
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mxliff", ".mqxliff"), "xliff"),
    ".po": "po",
    ".lift": "lift",
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    ".csv": "csv",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
}
"""Suffix of a file name -> one of the formats of `Paths.format`."""
_ALIGN = "align its sentences with their translations, and name two text files (files) or a TMX or TSV file (path)"
_USFM = {".usfm": "usfm", ".sfm": "usfm"}
_NO_CORPORA = {
    **dict.fromkeys(_USFM, "USFM, which has one language; name a file or folder for each language (files)"),
    **{suffix: f"{row.name}, not a corpus; {_ALIGN}" for suffix, row in DOCUMENTS.items() if not row.is_text},
    **dict.fromkeys((".doc", ".rtf", ".pdf"), f"a document, not a corpus; {_ALIGN}"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet; save it as CSV"),
}
"""Suffix of a file name -> what such a file is, and how to make a corpus of it."""
_SET_FORMAT = (
    f"the name shows no known format; set format to one of {', '.join(dict.fromkeys(FORMATS.values()))}, or to moses "
    "for a .zip of two aligned text files; names of USFM files, which files takes, end in .usfm or .sfm"
)


@dataclass(frozen=True)
class Input:
    """A file with text in both languages, which can be opened repeatedly."""

    name: str
    """Its path for messages: `memories.zip/legal/a.tmx` if it is in an archive."""
    format: str
    """One of the formats of `Paths.format`."""
    open: OpenContent
    """Opens its decompressed content, which may not be seekable."""
    path: Path = Path()
    """The file on disk, which may be an archive."""
    is_member: bool = False
    """Whether it is in an archive."""


def find_inputs(
    source: PathSource, root: Path, is_quiet: bool = False, formats: Mapping[str, str] = FORMATS
) -> list[Input]:
    """Find the files of a source with a `path`, including those in archives; see `find_files`.

    Files in a folder or an archive are read if their names match `members` and are not hidden; if `members` is `*` and
    there is no `format`, only if their names show their format. Files that are left out are reported, unless
    `is_quiet`. The order is natural; only the members of a compressed tar come in its own order, in which it is read.
    `formats`: suffix of a file name -> format.

    Raises DataError if there are no files, one cannot be read, or an archive is damaged.
    """
    path = source.path
    inputs = []
    unknown = []
    unmatched = []
    files, n_links = find_files(path, root)
    left_out = Counter({"links, special files": n_links})
    for file, file_name in files:
        for name, entry in _entries(file, file_name, left_out):
            kind = source.format or formats.get(_suffix(name or file.name))
            if name and is_hidden(name):
                continue
            if name and not matches(name, source.members):
                unmatched.append(name)
            elif kind is None:
                unknown.append(name)
            else:
                inputs.append(replace(entry, format=kind))
    if unknown and (source.members != "*" or not inputs):
        where = f"{path}: {_some(unknown)}" if unknown[0] else path
        raise DataError(f"{where}: {_NO_CORPORA.get(PurePosixPath(unknown[0] or path).suffix.lower(), _SET_FORMAT)}")
    if unmatched and not inputs:
        raise DataError(f"{path}: no file matches members: {source.members}; the files are {_some(unmatched)}")
    reasons = [f"{kind} ({n:,})" for kind, n in sorted(left_out.items()) if n]
    if not inputs:
        raise DataError(", only ".join(filter(None, [f"{path}: contains no files to read", ", ".join(reasons)])))
    if unknown:
        reasons.append(f"names without a known format ({_some(unknown)})")
    if reasons and not is_quiet:
        say(f"{path}: skipped: {', '.join(reasons)}")
    return inputs


def _entries(path: Path, name: str, left_out: Counter[str]) -> Iterator[tuple[str, Input]]:
    """Yield the file at a path, or the files in it if it is an archive, each with its name in the folder or archive."""
    if not is_archive(path.name):
        yield name, Input(str(path), "", partial(_decompressed, partial(_open_file, path), path), path)
        return
    members, kinds = read_archive(path)
    left_out.update(kinds)
    if not is_read_in_order(path.name):
        members.sort(key=lambda member: natural(member.name))
    for member in members:
        label = f"{path}/{printable(member.name)}"
        within = f"{name}/{member.name}" if name else member.name
        yield within, Input(label, "", partial(_decompressed, member.open, label), path, is_member=True)


def fingerprints(inputs: Sequence[Input], root: Path) -> dict[str, str]:
    """Return the SHA-256 of the files on disk that contain the inputs; an archive counts as one file.

    The keys are names relative to `root`, or absolute names of files elsewhere. Raises DataError.
    """
    paths = dict.fromkeys(file.path for file in inputs)
    return {relative_name(path, root): checksum(path, READ_TWICE) for path in paths}


def relative_name(path: Path, root: Path) -> str:
    """Return the name of a file relative to `root`, or its whole path if it is elsewhere."""
    if path.is_relative_to(root):
        path = path.relative_to(root)
    return str(path)


def _suffix(name: str) -> str:
    """Return the suffix of a file name in lower case, without the suffix of a compression."""
    path = PurePosixPath(name.lower())
    if compression_of(path.name) is not None:
        path = PurePosixPath(path.stem)
    return path.suffix


def is_usfm(path: Path) -> bool:
    """Return whether a side of a corpus is in USFM instead of lines: a file with its suffix, a folder or an archive."""
    return _suffix(path.name) in _USFM or is_archive(path.name) or path.is_dir()


def has_verses(source: FilesSource, root: Path) -> bool:
    """Return whether the sides of a source are paired by verse instead of by line."""
    return any([source.vref, source.books, *(is_usfm(root / name) for name in source.files.values())])


def find_usfm(path: Path) -> list[Input]:
    """Find the USFM files of one side of a corpus, without other files in their folder; see `find_inputs`."""
    return find_inputs(PathSource(path=str(path)), Path(), is_quiet=True, formats=_USFM)


def side_checksum(path: Path) -> str:
    """Return the SHA-256 of a side of a corpus; for a folder, it is made from those of its files. Raises DataError."""
    if not path.is_dir():
        return checksum(path, READ_TWICE, "; check data.root and files in the config")
    return hashlib.sha256("".join(fingerprints(find_usfm(path), path).values()).encode()).hexdigest()


def _some(names: Sequence[str]) -> str:
    return listed([printable(name) for name in names], 5)


def _open_file(path: Path) -> IO[bytes]:
    with reading(path):
        return open_regular(path, READ_TWICE)


@contextmanager
def _decompressed(opened: OpenContent, name: Path | str) -> Iterator[IO[bytes]]:
    with opened() as file, decompressed(file, name) as content:
        assert isinstance(content, BufferedReader)
        if problem := compression_problem(content.peek(START_BYTES)):
            raise DataError(f"{name}: {problem}")
        yield content
