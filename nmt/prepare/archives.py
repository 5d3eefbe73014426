"""Archives, .zip and .tar: their members are listed and read as streams, and never unpacked into a folder.

The members are read here and not by `zipfile`, which decompresses bzip2 and LZMA in memory without bound, and reads the
directory of the archive again for each member.

The headers are read here and not by `tarfile`, which holds a header of any declared size in memory, and takes an
archive that is cut off between two members for a whole one.

What an archive declares of itself is checked where it is read: members that overlap, that have another size or checksum
than declared, and an archive without the mark of its end are damaged, or made to harm. The memory does not depend on
what is in a member.
"""

from __future__ import annotations

import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.files.compressed import (
    BLOCK,
    BZIP2,
    DEFLATE,
    ZSTANDARD,
    Compression,
    DamagedError,
    compression_of,
    decompress,
    file_of,
    section,
)
from nmt.files.read import open_regular, reading
from nmt.text.lines import READ_TWICE


class Listed(NamedTuple):
    """An entry of an archive."""

    name: str
    kind: str
    """What it is if it is not a file, such as `links`."""
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Open its content, which may be compressed itself."""


_METHODS: dict[int, Compression | None] = {0: None, 8: DEFLATE, 12: BZIP2, 93: ZSTANDARD}
_END_BYTES = 22 + 0xFFFF  # the record at the end, with its comment
_IN_ZIP64 = 0xFFFF  # the number is too large for the end record
_UTF8 = 0x800
_ENCRYPTED = 0x2041  # flags: of the file, strongly, with its directory


def list_zip(path: Path) -> Iterator[Listed]:
    """Yield the members of a zip, and check that its directory is true and that they do not overlap.

    Raises DataError.
    """
    with reading(path), open_regular(path, READ_TWICE) as file:
        try:
            infos = zipfile.ZipFile(file).infolist()
        except Exception as error:  # the library has no common one
            raise DamagedError(path, "zip", error_text(error)) from error
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END_BYTES))
        _, _, end_record = file.read().rpartition(b"PK\x05\x06")
        n_declared = int.from_bytes(end_record[6:8], "little")
        if n_declared not in (len(infos), _IN_ZIP64):
            raise DamagedError(path, "zip", f"it declares {n_declared:,} members, of which {len(infos):,} are listed")
        starts, end = {}, 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.header_offset < end:
                raise DamagedError(path, "zip", f"{printable(info.filename)} overlaps another member")
            is_whole = info.header_offset + info.compress_size < size
            if is_whole:
                starts[info.header_offset] = start = _start(file, path, info)
                end = start + info.compress_size
            if not is_whole or end > size:
                raise DamagedError(path, "zip", f"{printable(info.filename)} is cut off")
    for info in infos:
        yield Listed(info.filename, _kind(info), partial(_open, path, info, starts[info.header_offset]))


def _start(file: IO[bytes], path: Path, info: zipfile.ZipInfo) -> int:
    """Where the content of a member starts, after its own header."""
    file.seek(info.header_offset)
    header = file.read(30)
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise DamagedError(path, "zip", f"{printable(info.filename)} is not where its directory says")
    n_name, n_extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    name = file.read(n_name).decode("utf-8" if info.flag_bits & _UTF8 else "cp437", "replace")
    if name != info.orig_filename:
        raise DamagedError(path, "zip", f"{printable(info.filename)} is called {printable(name)} at its place")
    return info.header_offset + 30 + n_name + n_extra


def _kind(info: zipfile.ZipInfo) -> str:
    mode = stat.S_IFMT(info.external_attr >> 16)  # 0 from systems without
    if info.filename.endswith("/"):
        return "folders"
    return "links" if mode == stat.S_IFLNK else "devices" if mode not in (0, stat.S_IFREG) else ""


@contextmanager
def _open(path: Path, info: zipfile.ZipInfo, start: int) -> Iterator[IO[bytes]]:
    """Open a member at its place, without the directory of the archive, which may be long."""
    name = f"{path}/{printable(info.filename)}"
    if info.flag_bits & _ENCRYPTED:
        raise DataError(f"{name}: encrypted; unpack it with its password first")
    if info.compress_type not in _METHODS:
        method = f"method {info.compress_type}, which is not read here"
        raise DataError(f"{name}: compressed with {method}; pack it again, such as by zip -r")
    with ExitStack() as stack:
        with reading(path):
            file = stack.enter_context(open_regular(path, READ_TWICE))
            file.seek(start)
        content: IO[bytes] = section(file.read, info.compress_size, name, "zip")
        compression = _METHODS[info.compress_type]
        if compression is not None:
            content = decompress(content, name, compression)
        yield stack.enter_context(file_of(_Checked(content, name, info.file_size, info.CRC).read))


class _Checked:
    """The content of a member, compared with the size and the checksum that the archive declares."""

    def __init__(self, file: IO[bytes], name: str, size: int, crc: int) -> None:
        self._file, self._name, self._rest, self._crc = file, name, size, crc
        self._found = 0

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end."""
        data = self._file.read(size)
        self._rest -= len(data)
        self._found = zlib.crc32(data, self._found)
        if self._rest < 0 or (not data and self._rest):
            raise DamagedError(self._name, "zip", "its size is not what the archive declares")
        if not data and self._found != self._crc:
            raise DamagedError(self._name, "zip", "its checksum is not what the archive declares")
        return data


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


LIST_BYTES = 1 << 29
"""Maximum memory of the list of an archive's members: a million or so. A few compressed bytes expand to any number."""
MEMBER_BYTES = 500
"""Memory of a member in addition to its name."""


def is_archive(name: str) -> bool:
    """Whether a file name is one of an archive: .zip, .tar, or a compressed tar."""
    path = PurePosixPath(name.lower())
    inner = path if compression_of(path.name) is None else path.with_suffix("")
    return path.suffix == ".zip" or path.suffix in SHORT or inner.suffix == ".tar"


def is_read_in_order(name: str) -> bool:
    """Whether an archive can only be read from front to back: a compressed tar."""
    return not name.lower().endswith((".zip", ".tar"))


def read_archive(path: Path) -> tuple[list[Listed], Counter[str]]:
    """List the files in an archive in its order, and count what is left out by its kind in words, such as `links`.

    Left out are links, devices, and names that lead out of the archive. Of several files with one name it is the last,
    as when they are unpacked.
    A compressed tar can only be read from front to back: once to list it, and once more if its members are opened in
    order, each closed before the next; else from its start for each.
    Raises DataError if it cannot be read, or is damaged.
    """
    left_out: Counter[str] = Counter()
    members: dict[str, Listed] = {}
    size = 0
    for listed in list_zip(path) if path.suffix.lower() == ".zip" else list_tar(path):
        parts = PurePosixPath(listed.name.replace("\\", "/")).parts
        if listed.kind == "folders":
            continue
        if listed.kind:
            left_out[listed.kind] += 1
        elif not parts or parts[0].startswith("/") or ".." in parts:
            left_out["names that lead out of the archive"] += 1
        else:
            name = "/".join(parts)
            members.pop(name, None)
            members[name] = listed._replace(name=name)
            size += MEMBER_BYTES + len(name)
            if size > LIST_BYTES:
                raise DataError(
                    f"{path}: too many members to list, {len(members):,} so far; unpack it and name the folder"
                )
    return list(members.values()), left_out
