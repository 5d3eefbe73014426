"""The files of a source: found under a path, a pattern or in an archive, and opened decompressed."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from nmt.config.source import PathSource
from nmt.console import printable, say
from nmt.errors import DataError
from nmt.files.archives import is_archive, is_read_in_order, read_archive
from nmt.files.compressed import START_BYTES, compression_of, decompressed
from nmt.files.read import check_regular, checksum, open_regular, reading
from nmt.text.formats import compression_problem
from nmt.text.lines import READ_TWICE

_WILDCARDS = re.compile(r"[*?]")


class Found(NamedTuple):
    """A file that a path leads to."""

    path: Path
    name: str
    """Its name below the folder that the path names; empty if the path or a pattern names the file itself."""


def natural(name: str) -> tuple[list[list[str | tuple[int, str]]], str]:
    """Return a key to sort file names by, part by part, with numbers by their value: `file.2` before `file.10`."""
    parts = [re.split("([0-9]+)", part) for part in name.split("/")]
    return [[_number(text) if n % 2 else text for n, text in enumerate(part)] for part in parts], name


def _number(digits: str) -> tuple[int, str]:  # of any length, unlike int()
    significant = digits.lstrip("0")
    return len(significant), significant


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern, in which `*` is any text and `?` any character."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def is_hidden(name: str) -> bool:
    """Whether a part of a name is hidden: it begins with a dot, or is the folder that macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def find_files(path: str, root: Path) -> tuple[list[Found], Counter[str]]:
    """Find the files under a path in natural order, and count ignored ones.

    A folder gives all that is below it. In a pattern, `*` and `?` stand for text within a name, and `**` for any
    folders. Hidden files are found only by name, and links to folders are followed only where the path names them.
    Raises DataError if there are none, or a folder cannot be read.
    """
    full, left_out = root / path, Counter[str]()
    with reading(full):
        if full.is_dir():
            found = [Found(file, str(file.relative_to(full))) for file in _below(full)]
        elif full.exists():
            check_regular(full)
            return [Found(full, "")], left_out
        else:
            found = [Found(file, "") for file in _matching(full)]
    files = [file for file in found if file.path.is_file()]
    left_out["links to folders"] = sum(file.path.is_dir() for file in found)
    left_out["links that lead nowhere, special files"] = len(found) - len(files) - left_out["links to folders"]
    if not files:
        what = "no file matches" if _WILDCARDS.search(path) else "no files in it" if full.is_dir() else "nothing there"
        under = "" if Path(path).is_absolute() else f" under {root}"
        raise DataError(f"{path}: {what}{under}; check path and data.root in the config")
    return sorted(files, key=lambda file: natural(str(file.path))), left_out


def _below(folder: Path) -> Iterator[Path]:
    """Yield all below a folder that is not hidden, except folders."""
    for parent, folders, names in os.walk(folder, onerror=_fail):
        folders[:] = [name for name in folders if not is_hidden(name)]
        links = [name for name in folders if Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in [*links, *names] if not is_hidden(name))


def _fail(error: OSError) -> None:
    raise error


def _matching(pattern: Path) -> Iterator[Path]:
    """Yield all that matches a pattern, except folders and what is hidden."""
    n_fixed = next((i for i, part in enumerate(pattern.parts) if _WILDCARDS.search(part)), None)
    if n_fixed is None:
        return
    folder, parts = Path(*pattern.parts[:n_fixed]), pattern.parts[n_fixed:]
    folders = "".join("(?:[^/]+/)*" if part == "**" else f"{_expression(part)}/" for part in parts[:-1])
    wanted = re.compile(folders + (".*" if parts[-1] == "**" else _expression(parts[-1])), re.DOTALL)
    if folder.is_dir():
        yield from (path for path in _below(folder) if wanted.fullmatch(str(path.relative_to(folder))))


def _expression(part: str) -> str:
    return re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


FORMATS = {
    **dict.fromkeys((".tmx",), "tmx"),
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mxliff", ".mqxliff"), "xliff"),
    **dict.fromkeys((".po",), "po"),
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    **dict.fromkeys((".csv",), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".parquet",), "parquet"),
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
}
"""Suffix of a file name -> one of the formats of `Paths.format`."""
_ALIGN = "align its sentences with their translations, and name two text files (files) or a TMX or TSV file (path)"
_NO_CORPORA = {
    **dict.fromkeys((".docx", ".doc"), f"a Word document, not a corpus; {_ALIGN}"),
    **dict.fromkeys((".odt", ".rtf", ".pdf", ".html", ".htm", ".srt", ".vtt"), f"a document, not a corpus; {_ALIGN}"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet; save it as CSV"),
}
"""What files with these suffixes are, and how to make a corpus of them."""
_SET_FORMAT = f"the name shows no known format; set format to one of {', '.join(dict.fromkeys(FORMATS.values()))}"


@dataclass(frozen=True)
class Input:
    """One file that holds both languages, which can be opened repeatedly."""

    name: str
    """Its path for messages, `memories.zip/legal/a.tmx` if it is in an archive."""
    format: str
    """One of the formats of `Paths.format`."""
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Open its decompressed content; not seekable in general."""
    is_member: bool = False
    """Whether it is in an archive."""


def find_inputs(source: PathSource, root: Path, is_told: bool = False) -> list[Input]:
    """Find the files of a source with a `path`, relative to `root` or absolute.

    The path is a file, a folder with all that is below it, or a pattern (`*` and `?` within a name, `**` for any
    folders); archives found so are opened. Links to files are followed, those to folders only where the path names
    them. Of a folder or an archive, the files are read whose names in it match `members`, except hidden ones and
    archives in archives; if that is `*` and there is no `format`, only those whose names tell their format. What is
    left out is said.

    The order is that of the names, with numbers by their value: `file.2` before `file.10`. Only the members of a
    compressed tar come in its own order, since it is read from front to back.

    is_told: what is left out has been said before.

    Raises DataError if there are none, one cannot be read, or an archive is damaged.
    """
    files, left_out = find_files(source.path, root)
    is_single = len(files) == 1 and not files[0].name and not is_archive(files[0].path.name)
    choice = _Choice(source, left_out, is_single)
    for file in files:
        choice.add(file)
    choice.tell(is_told)
    return choice.inputs


def fingerprints(source: PathSource, root: Path) -> dict[str, str]:
    """Compute the SHA-256 of each file on disk that belongs to a source with a `path`; an archive is one
    file.

    The keys are names relative to `root`, absolute ones of files elsewhere. Raises DataError.
    """
    files, _ = find_files(source.path, root)
    choice = _Choice(source, Counter(), is_single=False)
    wanted = [file.path for file in files if is_archive(file.path.name) or choice.format_of(file.name, file.path.name)]
    return {relative_name(path, root): checksum(path, READ_TWICE) for path in wanted}


def relative_name(path: Path, root: Path) -> str:
    """Return the name of a file relative to `root`, or as it is if it is elsewhere."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


class _Choice:
    """The inputs of a source that have been chosen, and what has been left out."""

    def __init__(self, source: PathSource, left_out: Counter[str], is_single: bool) -> None:
        self.inputs: list[Input] = []
        self._source, self._left_out, self._is_single = source, left_out, is_single
        self._unknown: list[str] = []  # their names show no known format
        self._unmatched: list[str] = []  # they do not match `members`

    def format_of(self, name: str, file_name: str) -> str | None:
        """Return the format of a file, None if it is left out. `name`: in a folder or archive, or empty."""
        if name and is_hidden(name):
            return None
        if name and not matches(name, self._source.members):
            self._unmatched.append(name)
            return None
        found = self._source.format or _named_format(file_name)
        if found is None:
            self._unknown.append(name or file_name)
        return found

    def add(self, file: Found) -> None:
        """Add a file, or the files in it if it is an archive."""
        if not is_archive(file.path.name):
            if own := self.format_of(file.name, file.path.name):
                self.inputs.append(Input(str(file.path), own, partial(_open_file, file.path)))
            return
        members, left_out = read_archive(file.path)
        self._left_out += left_out
        if not is_read_in_order(file.path.name):
            members.sort(key=lambda member: natural(member.name))
        for member in members:
            name = f"{file.name}/{member.name}" if file.name else member.name
            if is_archive(name) and not is_hidden(name):
                self._left_out["archives in archives"] += 1
            elif own := self.format_of(name, member.name):
                label = f"{file.path}/{printable(member.name)}"
                self.inputs.append(Input(label, own, partial(_open_member, member.open, label), True))

    def tell(self, is_told: bool) -> None:
        """Print the ignored files, unless `is_told`. Raises DataError if nothing has been chosen, or a file asked
        for is unknown."""
        path, members = self._source.path, self._source.members
        if self._unknown and (self._is_single or members != "*" or not self.inputs):
            where = path if self._is_single else f"{path}: {_some(self._unknown)}"
            suffix = PurePosixPath(self._unknown[0]).suffix.lower()
            raise DataError(f"{where}: {_NO_CORPORA.get(suffix, _SET_FORMAT)}")
        if not self.inputs and self._unmatched:
            raise DataError(f"{path}: no file matches members: {members}; there are {_some(self._unmatched)}")
        left_out = ", ".join(f"{kind} ({n:,})" for kind, n in sorted(self._left_out.items()) if n)
        if not self.inputs:
            raise DataError(f"{path}: no files to read in it{f', but {left_out}' if left_out else ''}")
        if left_out and not is_told:
            say(f"{path}: left out: {left_out}")
        if self._unknown and not is_told:
            say(f"{path}: left out, since their names show no known format: {_some(self._unknown)}")


def _named_format(name: str) -> str | None:
    """Return the format that a file name tells, compressed or not."""
    path = PurePosixPath(name.lower())
    return FORMATS.get(path.suffix if compression_of(path.name) is None else PurePosixPath(path.stem).suffix)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(map(printable, names[:5])) + more


@contextmanager
def _open_file(path: Path) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        with reading(path):
            file = stack.enter_context(open_regular(path, READ_TWICE))
        yield stack.enter_context(_decompressed(file, path))


@contextmanager
def _open_member(opened: Callable[[], AbstractContextManager[IO[bytes]]], name: str) -> Iterator[IO[bytes]]:
    with opened() as file, _decompressed(file, name) as content:
        yield content


@contextmanager
def _decompressed(file: IO[bytes], name: Path | str) -> Iterator[IO[bytes]]:
    with decompressed(file, name) as content:
        assert isinstance(content, BufferedReader)
        if problem := compression_problem(content.peek(START_BYTES)):
            raise DataError(f"{name}: {problem}")
        yield content
