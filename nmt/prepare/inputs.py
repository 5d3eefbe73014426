"""The files of a source: found under a path, a pattern or in an archive, and opened decompressed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO

from nmt.config import Source
from nmt.console import printable, say
from nmt.errors import DataError
from nmt.files.compressed import START_BYTES, compression_of, decompressed
from nmt.files.read import checksum, open_regular, reading
from nmt.prepare.archives import is_archive, is_read_in_order, read_archive
from nmt.prepare.paths import Found, find_files, is_hidden, matches, natural
from nmt.text.formats import compression_problem
from nmt.text.lines import READ_TWICE

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
"""Suffix of a file name -> one of the formats of `Source.format`."""
_SET_FORMAT = f"set format to one of {', '.join(dict.fromkeys(FORMATS.values()))}"


@dataclass(frozen=True)
class Input:
    """One file that holds both languages, which can be opened repeatedly."""

    name: str
    """Its path for messages, `memories.zip/legal/a.tmx` if it is in an archive."""
    format: str
    """One of the formats of `Source.format`."""
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Open its decompressed content; not seekable in general."""
    is_member: bool = False
    """Whether it is in an archive."""


def find_inputs(source: Source, root: Path, is_told: bool = False) -> list[Input]:
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
    files, left_out = find_files(str(source.path), root)
    is_single = len(files) == 1 and not files[0].name and not is_archive(files[0].path.name)
    choice = _Choice(source, left_out, is_single)
    for file in files:
        choice.add(file)
    choice.tell(is_told)
    return choice.inputs


def fingerprints(source: Source, root: Path) -> dict[str, str]:
    """Compute the SHA-256 of each file on disk that belongs to a source with a `path`, of an archive as a whole.

    The keys are names relative to `root`, absolute ones of files elsewhere. Raises DataError.
    """
    files, _ = find_files(str(source.path), root)
    choice = _Choice(source, Counter(), is_single=False)
    wanted = [file.path for file in files if is_archive(file.path.name) or choice.format_of(file.name, file.path.name)]
    return {relative_name(path, root): checksum(path, READ_TWICE) for path in wanted}


def relative_name(path: Path, root: Path) -> str:
    """Return the name of a file relative to `root`, or as it is if it is elsewhere."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


class _Choice:
    """The inputs of a source that have been chosen, and what has been left out."""

    def __init__(self, source: Source, left_out: Counter[str], is_single: bool) -> None:
        self.inputs: list[Input] = []
        self._source, self._left_out, self._is_single = source, left_out, is_single
        self._unknown: list[str] = []  # their names tell no format
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
        """Say what has been left out, unless `is_told`. Raises DataError if nothing has been chosen, or a file asked
        for is unknown."""
        path, members = self._source.path, self._source.members
        if self._unknown and (self._is_single or members != "*"):
            raise DataError(f"{path}: no format is told by the name of {_some(self._unknown)}; {_SET_FORMAT}")
        if not self.inputs and self._unknown:
            raise DataError(f"{path}: no file whose name tells its format, but {_some(self._unknown)}; {_SET_FORMAT}")
        if not self.inputs and self._unmatched:
            raise DataError(f"{path}: no file matches members: {members}; there are {_some(self._unmatched)}")
        left_out = ", ".join(f"{kind} ({n:,})" for kind, n in sorted(self._left_out.items()) if n)
        if not self.inputs:
            raise DataError(f"{path}: no files to read in it{f', but {left_out}' if left_out else ''}")
        if left_out and not is_told:
            say(f"{path}: left out: {left_out}")
        if self._unknown and not is_told:
            say(f"{path}: left out, since their names tell no format: {_some(self._unknown)}")


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
        if problem := compression_problem(name, content.peek(START_BYTES)):
            raise DataError(f"{name}: {problem}")
        yield content
