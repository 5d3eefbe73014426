"""Zip and tar archives: their members are listed and read as streams, never unpacked to disk.

`zipfile` and `tarfile` read them. The checks that these lack are added: how much an archive unpacks to, and whether a
tar is complete. The memory does not depend on the content of members.
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
from nmt.errors import DataError
from nmt.files.compressed import BLOCK, compression_of, damage, decompress, file_of
from nmt.files.read import check_regular, open_regular, reading

MAX_RATIO = 300
"""Maximum ratio of the unpacked size to the size of an archive; repetitive XML has 50."""
ALLOWED_BYTES = 1 << 24
"""Unpacked size that is allowed whatever the ratio."""


class Member(NamedTuple):
    """An entry of an archive."""

    name: str
    kind: str
    """The kind of an entry that is not a file, such as `links`; empty for files."""
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Opens its content, which may be compressed itself."""


def _content(file: IO[bytes], name: str, kind: str) -> IO[bytes]:
    """Return the content of a member as a file whose read errors are DamagedError."""

    def blocks() -> Iterator[bytes]:
        with damage(name, kind):
            yield from iter(partial(file.read, BLOCK), b"")

    return file_of(blocks())


def _check_size(name: Path | str, packed: int, unpacked: int) -> None:
    if unpacked > max(ALLOWED_BYTES, packed * MAX_RATIO):
        raise DataError(f"{name}: {packed:,} bytes that unpack to {unpacked:,}, which is unsafe; is it damaged?")


# --- zip ------------------------------------------------------------------------------------------


def open_zip(file: Path | IO[bytes], name: Path | str, size: int) -> zipfile.ZipFile:
    """Open a zip archive of `size` bytes after checking that it is safe to read; `name` is for messages.

    Raises DataError if it is damaged or encrypted, unpacks to too much, or uses bzip2 or LZMA, which `zipfile` unpacks
    without a limit of memory.
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
    """Open an archive once per listing and process: a forked process would share the position in the file."""
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
    with content, _content(content, name, "zip") as file:
        yield file


# --- tar ------------------------------------------------------------------------------------------

SHORT = {".tgz": ".gz", ".tbz": ".bz2", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
"""Suffixes that are short for .tar and one of compression."""


class _Header(tarfile.TarInfo):
    """A tar header. Unlike in `tarfile`, only a block of zeros ends an archive: anything else is an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) < tarfile.BLOCKSIZE:
                raise EOFError from error
            if buf.strip(b"\0"):
                raise ValueError("a header of a member is damaged") from error
            raise


class _Tar:
    """A tar archive whose members are opened by their headers.

    A compressed tar cannot be rewound, so it stays open between two consecutive members.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: tuple[tarfile.TarFile, IO[bytes], int] | None = None

    def __del__(self) -> None:
        if self._idle is not None:
            self._idle[1].close()

    def _opened(self) -> tuple[tarfile.TarFile, IO[bytes], int]:
        """Return the open tar archive, its file, and the id of this process."""
        with reading(self._path):
            file = open_regular(self._path)
        compression = compression_of(f"tar{SHORT.get(self._path.suffix.lower(), self._path.suffix)}")
        content = file if compression is None else decompress(file, self._path, compression)
        mode: Any = "r:" if compression is None else "r|"
        with ExitStack() as stack, damage(self._path, "tar"):
            stack.callback(file.close)
            tar = tarfile.open(fileobj=content, mode=mode, tarinfo=_Header)  # noqa: SIM115
            stack.pop_all()
            return tar, file, os.getpid()

    def members(self) -> Iterator[Member]:
        """Yield the members of the archive. Raises DataError if it is damaged, truncated or unpacks to too much."""
        tar, file, _ = self._opened()
        packed = self._path.stat().st_size
        with file, damage(self._path, "tar"):
            for info in tar:
                _check_size(self._path, packed, info.offset_data + info.size)
                kind = "folders" if info.isdir() else "links" if info.issym() or info.islnk() else "devices"
                yield Member(info.name, "" if info.isfile() else kind, partial(self.open, info))
            while cast(Any, tar).fileobj.read(BLOCK):  # to its end, which has the checksum of compressed content
                pass

    @contextmanager
    def open(self, info: tarfile.TarInfo) -> Iterator[IO[bytes]]:
        """Open a file in the archive. Raises DataError."""
        kept, self._idle = self._idle, None  # a file that is opened meanwhile has a tar of its own
        if kept is not None and (kept[2] != os.getpid() or cast(Any, kept[0]).fileobj.tell() > info.offset_data):
            kept[1].close()
            kept = None
        tar, file, process = kept or self._opened()
        name = f"{self._path}/{printable(info.name)}"
        with ExitStack() as stack:
            stack.callback(file.close)
            with damage(name, "tar"):
                content = cast(IO[bytes], tar.extractfile(info))
            yield stack.enter_context(_content(content, name, "tar"))
            if self._idle is None:
                stack.pop_all()
                self._idle = tar, file, process


# --- both -----------------------------------------------------------------------------------------


def is_archive(name: str) -> bool:
    """Return whether a file name has the suffix of an archive: .zip, .tar, or a compressed tar."""
    path = PurePosixPath(name.lower())
    inner = path if compression_of(path.name) is None else path.with_suffix("")
    return path.suffix == ".zip" or path.suffix in SHORT or inner.suffix == ".tar"


def is_read_in_order(name: str) -> bool:
    """Return whether an archive can only be read sequentially, as a compressed tar can."""
    return not name.lower().endswith((".zip", ".tar"))


def read_archive(path: Path) -> tuple[list[Member], Counter[str]]:
    """List the files in an archive, and count the skipped entries by kind, such as `links`.

    Links, devices, and names that lead out of the archive are left out. Of several files with one name the last is
    listed, as when they are unpacked. A compressed tar is read once to list it, and once more if its members are opened
    in order, each closed before the next; opening a member out of order reads it from its beginning again.
    Raises DataError if the archive cannot be read or is damaged.
    """
    left_out: Counter[str] = Counter()
    members: dict[str, Member] = {}
    for member in _list_zip(path) if path.suffix.lower() == ".zip" else _Tar(path).members():
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
