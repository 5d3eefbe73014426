"""Tar archives, perhaps compressed, read from front to back.

The headers are read here and not by `tarfile`, which holds a header of any declared size in memory, and takes an
archive that is cut off between two members for a whole one.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from nmt.console import printable
from nmt.errors import DataError
from nmt.files.compressed import compression_of, decompress
from nmt.files.read import open_regular, reading
from nmt.files.streams import BLOCK, DamagedError, section
from nmt.prepare.members import Listed
from nmt.text.lines import READ_TWICE

HEADER_BYTES = 1 << 20
"""Maximum size of an extended header, which holds the long name of a member."""
PADDING_BYTES = 1 << 24
"""Maximum number of zeros after the end."""
RECORD = 512

SHORT = {".tgz": ".gz", ".tbz": ".bz2", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
"""The suffixes that are short for .tar and one of compression."""
_PAX = re.compile(rb"([1-9]\d{0,9}) ([^=\n]+)=")
_EXTENDED = (b"x", b"X", b"g", b"L", b"K")
_KINDS = {
    tarfile.DIRTYPE: "folders",
    tarfile.LNKTYPE: "links",
    tarfile.SYMTYPE: "links",
    tarfile.CHRTYPE: "devices",
    tarfile.BLKTYPE: "devices",
    tarfile.FIFOTYPE: "pipes",
}


def list_tar(path: Path) -> Iterator[Listed]:
    """Yield the members of a tar, and check that it is whole. Raises DataError."""
    archive = _Tar(path)
    extended: dict[str, str] = {}  # of the next member
    with _Stream(path) as stream:
        while (header := stream.read(RECORD)).strip(b"\0"):
            info = _header(path, header, stream.position)
            start = stream.position
            if info.type in _EXTENDED:
                extended |= _extended(path, info, stream)
                continue
            kind = _KINDS.get(info.type, "")
            size = 0 if kind else _size(path, extended.get("size", info.size))
            name = extended.get("path", info.name)
            if info.type == tarfile.GNUTYPE_SPARSE or "sparse" in extended:
                raise DataError(f"{path}: {printable(name)} is a sparse file; pack it again without --sparse")
            archive.end = max(archive.end, start + size)
            yield Listed(name, kind, partial(archive.open, f"{path}/{printable(name)}", start, size))
            stream.skip_to(start + _padded(size))
            extended = {}
        if len(header) < RECORD:
            raise DamagedError(path, "tar", "it is cut off: it lacks the mark of its end")
        end = stream.position
        while block := stream.read(BLOCK):
            if block.strip(b"\0") or stream.position - end > PADDING_BYTES:
                raise DamagedError(path, "tar", "after its end there is something else")


def _header(path: Path, header: bytes, position: int) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except Exception as error:  # the library has no common one
        at = position - len(header)
        why = "it is cut off" if len(header) < RECORD else f"there is no header of a member at byte {at}"
        raise DamagedError(path, "tar", why) from error


def _extended(path: Path, info: tarfile.TarInfo, stream: _Stream) -> dict[str, str]:
    """Read what an extended header says of the next member."""
    size = _size(path, info.size)
    if size > HEADER_BYTES:
        raise DamagedError(path, "tar", f"a header of {size:,} bytes")
    data = stream.read(_padded(size))[:size]
    if len(data) < size:
        raise DamagedError(path, "tar", "it is cut off")
    if info.type == b"L":
        return {"path": _text(data.rstrip(b"\0"))}
    return dict(_records(path, data)) if info.type in (b"x", b"X") else {}


def _records(path: Path, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the name and the size of a pax header, and whether the member is sparse. It consists of records,
    `LENGTH KEY=VALUE`, where the length is that of the whole line."""
    position = 0
    while position < len(data):
        match = _PAX.match(data, position)
        end = position + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise DamagedError(path, "tar", "a damaged header of a member")
        if match[2] in (b"path", b"size"):
            yield _text(match[2]), _text(data[match.end() : end - 1])
        elif match[2].startswith(b"GNU.sparse."):
            yield "sparse", ""
        position = end


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _size(path: Path, size: int | str) -> int:
    if str(size).isascii() and str(size).isdecimal() and len(str(size)) < 19:
        return int(size)
    raise DamagedError(path, "tar", "a member of a size that is no number")


def _padded(size: int) -> int:
    return -(-size // RECORD) * RECORD


class _Stream:
    """The decompressed content of a tar, read from front to back."""

    def __init__(self, path: Path) -> None:
        self.position, self.process = 0, os.getpid()
        self._path, self._stack = path, ExitStack()
        with reading(path):
            self._file = self._stack.enter_context(open_regular(path, READ_TWICE))
        suffix = SHORT.get(path.suffix.lower(), path.suffix)
        compression = compression_of(f"tar{suffix}")
        self.is_plain = compression is None
        self._size = os.fstat(self._file.fileno()).st_size
        if compression is not None:
            self._file = self._stack.enter_context(decompress(self._file, path, compression))

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def read(self, size: int) -> bytes:
        """Return the next bytes, less than `size` only at the end."""
        with reading(self._path):
            data = self._file.read(size)
        self.position += len(data)
        return data

    def skip_to(self, position: int) -> None:
        """Go forward; raises DamagedError if the tar ends before."""
        if self.is_plain and position <= self._size:
            self.position = self._file.seek(position)
        while self.position < position:
            if self.is_plain or not self.read(min(position - self.position, BLOCK)):
                raise DamagedError(self._path, "tar", "it is cut off")


class _Tar:
    """Opens the files of a tar. Of a compressed one, a stream stays open between two files."""

    def __init__(self, path: Path) -> None:
        self.end = 0
        """Where its last file ends."""
        self._path = path
        self._idle: _Stream | None = None

    def __del__(self) -> None:
        if self._idle is not None:
            self._idle.close()

    @contextmanager
    def open(self, name: str, start: int, size: int) -> Iterator[IO[bytes]]:
        """Open a file by its place. Raises DataError."""
        stream, self._idle = self._idle, None
        # a forked process shares the position in the file with its parent
        if stream is None or stream.position > start or stream.process != os.getpid():
            if stream is not None:
                stream.close()
            stream = _Stream(self._path)
        is_whole = False
        try:
            stream.skip_to(start)
            with section(stream.read, size, name, "tar") as content:
                yield content
            is_whole = True
        finally:
            if is_whole and self._idle is None and not stream.is_plain and start + size < self.end:
                self._idle = stream
            else:
                stream.close()
