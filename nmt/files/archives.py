"""Archives, .zip and .tar: their members are listed and read as streams, and never unpacked into a folder.

`zipfile` and `tarfile` read them. Checked here is what these let pass: how much an archive expands to, the memory that
headers of a tar take, and whether a tar has its end. The memory does not depend on what is in a member.
"""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast

from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.files.compressed import BLOCK, DamagedError, compression_of, decompress, file_of
from nmt.files.read import check_regular, open_regular, reading

MAX_RATIO = 300
"""Maximum ratio of the size of what is in an archive to its own; XML that repeats itself has 50."""
ALLOWED_BYTES = 1 << 24
"""What is in an archive may be this large, whatever the ratio."""


class Member(NamedTuple):
    """An entry of an archive."""

    name: str
    kind: str
    """What it is if it is not a file, such as `links`."""
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Open its content, which may be compressed itself."""


@contextmanager
def damage(name: Path | str, kind: str) -> Iterator[None]:
    """Turn errors of reading an archive of this kind into DamagedError; the libraries have no common one."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        problem = "it is cut off" if isinstance(error, EOFError) else error_text(error)
        raise DamagedError(name, kind, problem) from error


def _member(read: Callable[[int], bytes], name: str, kind: str) -> IO[bytes]:
    """Make a file of the content of a member, which raises DamagedError."""

    def next_bytes(most: int) -> bytes:
        with damage(name, kind):
            return read(most)

    return file_of(next_bytes)


def _check_size(name: Path | str, packed: int, unpacked: int) -> None:
    if unpacked > max(ALLOWED_BYTES, packed * MAX_RATIO):
        raise DataError(f"{name}: {packed:,} bytes that unpack to {unpacked:,}, too much to be safe; is it damaged?")


# --- zip ------------------------------------------------------------------------------------------


def open_zip(file: Path | IO[bytes], name: Path | str, size: int) -> zipfile.ZipFile:
    """Open a zip archive of `size` bytes if it is safe to read; `name` is for messages.

    Raises DataError if it is damaged or encrypted, or unpacks to too much. bzip2 and LZMA are refused, since `zipfile`
    unpacks them in memory without bound.
    """
    with damage(name, "zip"):
        archive = zipfile.ZipFile(file)
    infos = archive.infolist()
    _check_size(name, size, sum(info.file_size for info in infos))
    for info in infos:
        if info.flag_bits & 1:
            raise DataError(f"{name}: {printable(info.filename)} is encrypted; save or pack it without a password")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            method = f"{printable(info.filename)} is compressed with method {info.compress_type}"
            raise DataError(f"{name}: {method}, which is not supported; save or pack it again, for example with zip -r")
    return archive


@lru_cache(maxsize=4)
def _opened(_listing: object, path: Path, _process: int) -> zipfile.ZipFile:
    """Open an archive for the members of one listing in one process, since a forked one shares the position in it."""
    check_regular(path)
    return open_zip(path, path, path.stat().st_size)


def _list_zip(path: Path) -> Iterator[Member]:
    listing = object()
    with reading(path):
        infos = _opened(listing, path, os.getpid()).infolist()
    for info in infos:
        mode = stat.S_IFMT(info.external_attr >> 16)  # 0 from systems without
        kind = "links" if mode == stat.S_IFLNK else "devices" if mode not in (0, stat.S_IFREG) else ""
        kind = "folders" if info.filename.endswith("/") else kind
        yield Member(info.filename, kind, partial(_open_in_zip, listing, path, info))


@contextmanager
def _open_in_zip(listing: object, path: Path, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    name = f"{path}/{printable(info.filename)}"
    with damage(name, "zip"):
        content = _opened(listing, path, os.getpid()).open(info)
    with content, _member(content.read, name, "zip") as file:
        yield file


# --- tar ------------------------------------------------------------------------------------------

HEADER_BYTES = 1 << 20
"""Maximum size of the headers of a member, which hold a long name, and, in vain, the map of a sparse file."""
PADDING_BYTES = 1 << 24  # zeros after the end that are read
SHORT = {".tgz": ".gz", ".tbz": ".bz2", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
"""The suffixes that are short for .tar and one of compression."""
_KINDS = {
    tarfile.DIRTYPE: "folders",
    tarfile.LNKTYPE: "links",
    tarfile.SYMTYPE: "links",
    tarfile.CHRTYPE: "devices",
    tarfile.BLKTYPE: "devices",
    tarfile.FIFOTYPE: "pipes",
}


class _Stream:
    """The decompressed content of a tar, read sequentially: the part of the file interface that `tarfile` needs."""

    def __init__(self, path: Path) -> None:
        self.position, self.process = 0, os.getpid()
        self.allowed = HEADER_BYTES
        """How many bytes may be read before it is set again."""
        self.last = b""
        """What was read last."""
        self._stack = ExitStack()
        with reading(path):
            file = self._stack.enter_context(open_regular(path))
        self.packed = os.fstat(file.fileno()).st_size
        compression = compression_of(f"tar{SHORT.get(path.suffix.lower(), path.suffix)}")
        self._is_plain = compression is None
        self._file = file if compression is None else self._stack.enter_context(decompress(file, path, compression))

    def __del__(self) -> None:
        self._stack.close()

    def tell(self) -> int:
        return self.position

    def read(self, size: int) -> bytes:
        """Return the next bytes, less than `size` only at the end."""
        if size > self.allowed:
            raise ValueError(f"a header of a member takes more than {HEADER_BYTES:,} bytes")
        self.allowed -= size
        self.last = self._file.read(size)
        self.position += len(self.last)
        return self.last

    def seek(self, position: int) -> int:
        """Seek forward; in a compressed file at most to its end."""
        if position < self.position:
            raise ValueError("the size of a member is wrong")
        if self._is_plain:
            self.position = self._file.seek(position)
        while self.position < position and (block := self._file.read(min(position - self.position, BLOCK))):
            self.position += len(block)
        return self.position


class _Tar:
    """Opens the files of a tar. A stream is kept between two of them, since a compressed one has no way back."""

    def __init__(self, path: Path) -> None:
        self.end = 0
        """Where its last file ends."""
        self._path = path
        self._idle: _Stream | None = None

    @contextmanager
    def open(self, name: str, start: int, size: int) -> Iterator[IO[bytes]]:
        """Open a file by its place. Raises DataError."""
        stream, self._idle = self._idle, None  # a file that is opened meanwhile has a stream of its own
        if stream is None or stream.position > start or stream.process != os.getpid():
            stream = _Stream(self._path)
        with damage(name, "tar"):
            stream.seek(start)
        stream.allowed = rest = size

        def read(most: int) -> bytes:
            nonlocal rest
            data = stream.read(min(most, rest))
            if rest and not data:
                raise EOFError
            rest -= len(data)
            return data

        with _member(read, name, "tar") as content:
            yield content
        if start + size < self.end:
            self._idle = stream


def _list_tar(path: Path) -> Iterator[Member]:
    """Yield the members of a tar, and check that it is whole. Raises DataError."""
    archive, stream = _Tar(path), _Stream(path)
    with damage(path, "tar"):
        tar = tarfile.TarFile(fileobj=cast(Any, stream))
        while (info := tar.next()) is not None:
            cast(Any, tar).members.clear()  # which it would keep
            if info.issparse():
                raise DataError(f"{path}: {printable(info.name)} is a sparse file; pack it again without --sparse")
            kind = _KINDS.get(info.type, "")
            size = 0 if kind else info.size
            archive.end = info.offset_data + size
            _check_size(path, stream.packed, archive.end)
            name = f"{path}/{printable(info.name)}"
            yield Member(info.name, kind, partial(archive.open, name, info.offset_data, size))
            stream.allowed = HEADER_BYTES
        if len(stream.last) < tarfile.BLOCKSIZE:
            raise EOFError
        if stream.last.strip(b"\0"):
            raise ValueError(f"there is no header of a member at byte {stream.position - tarfile.BLOCKSIZE}")
        stream.allowed = PADDING_BYTES
        while block := stream.read(min(BLOCK, stream.allowed)):
            if block.strip(b"\0"):
                raise ValueError("there is other data after its end")


# --- both -----------------------------------------------------------------------------------------


def is_archive(name: str) -> bool:
    """Whether a file name is one of an archive: .zip, .tar, or a compressed tar."""
    path = PurePosixPath(name.lower())
    inner = path if compression_of(path.name) is None else path.with_suffix("")
    return path.suffix == ".zip" or path.suffix in SHORT or inner.suffix == ".tar"


def is_read_in_order(name: str) -> bool:
    """Whether an archive can only be read from front to back: a compressed tar."""
    return not name.lower().endswith((".zip", ".tar"))


def read_archive(path: Path) -> tuple[list[Member], Counter[str]]:
    """List the files in an archive in its order, and count what is left out by its kind in words, such as `links`.

    Left out are links, devices, and names that lead out of the archive. Of several files with one name it is the last,
    as when they are unpacked.
    A compressed tar can only be read from front to back: once to list it, and once more if its members are opened in
    order, each closed before the next; else from its start for each.
    Raises DataError if it cannot be read, or is damaged.
    """
    left_out: Counter[str] = Counter()
    members: dict[str, Member] = {}
    for member in _list_zip(path) if path.suffix.lower() == ".zip" else _list_tar(path):
        parts = PurePosixPath(member.name.replace("\\", "/")).parts
        if member.kind == "folders":
            continue
        if member.kind:
            left_out[member.kind] += 1
        elif not parts or parts[0].startswith("/") or ".." in parts:
            left_out["names that lead out of the archive"] += 1
        else:
            name = "/".join(parts)
            members.pop(name, None)
            members[name] = member._replace(name=name)
    return list(members.values()), left_out
