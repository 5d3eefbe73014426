"""Compressed files, which are recognised by their names, and archives, whose members are never unpacked to disk.

The file objects of the standard library end without an error where the second of several streams of .bz2 or .xz is
damaged. The decompressors are therefore used directly: a file must be whole streams, and perhaps zeros after them.

`zipfile` and `tarfile` read archives. The checks that these lack are added: how much an archive unpacks to, and whether
a tar is complete. The memory does not depend on the content of members.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import tarfile
import zipfile
import zlib
from bz2 import BZ2Decompressor
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from lzma import FORMAT_XZ, LZMADecompressor
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, Self, TypeAlias, cast

from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.files.read import check_regular, open_regular, reading

BLOCK_BYTES = 1 << 16
"""Number of bytes that are read at a time."""


class DamagedError(DataError):
    """The error raised for a truncated or damaged archive or compressed file."""

    def __init__(self, name: Path | str, kind: str, problem: str, after: str = "") -> None:
        super().__init__(f"{name}: not readable as {kind}{after}: {problem}")
        self._name = name
        self._kind = kind
        self._problem = problem

    def after(self, place: str) -> DamagedError:
        """Return the same error with the last readable position, such as `line 3`."""
        return DamagedError(self._name, self._kind, self._problem, f" after {place}")


@contextmanager
def damage(name: Path | str, kind: str) -> Iterator[None]:
    """Convert any error in reading a compressed file or archive to DamagedError; `kind` is for the message."""
    try:
        yield
    except DataError:
        raise
    except ModuleNotFoundError:
        raise DataError(f"{name}: {NO_ZSTD}") from None
    except Exception as error:  # the libraries have no common base
        problem = "it is cut off" if isinstance(error, EOFError) else error_text(error)
        raise DamagedError(name, kind, problem) from error


class _Blocks(io.RawIOBase):
    """A file whose content is produced by an iterator of blocks of bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of buffers is Python 3.12's
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = block
        data = self._rest[: len(buffer)]
        self._rest = self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def file_of(blocks: Iterator[bytes]) -> io.BufferedReader:
    """Return a file whose content is the concatenation of blocks."""
    return io.BufferedReader(_Blocks(blocks), BLOCK_BYTES)


LZMA_BYTES = 1 << 29
"""Maximum memory that decompressing .xz may need (after `xz -9`, 65 MB); Zstandard has its own limit of 128 MB."""
NO_ZSTD = (
    "Python before 3.14 reads Zstandard with the package backports.zstd; install it with pip install backports.zstd, "
    "or with nmt-train[zst]"
)


class _Gzip:
    """The gzip decompressor of `zlib` with the interface of `bz2.BZ2Decompressor`."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.needs_input = True

    def __getattr__(self, name: str) -> Any:  # eof and unused_data
        return getattr(self._zlib, name)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        result = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = len(result) < max_length and not self._zlib.unconsumed_tail
        return result


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor
    else:
        from backports.zstd import ZstdDecompressor
    return ZstdDecompressor()


@dataclass(frozen=True)
class Compression:
    """A compression format."""

    name: str
    suffix: str
    command: str
    """The command that writes a decompressed file to standard output."""
    start: re.Pattern[bytes]
    """Matches the beginning of a stream."""
    decompressor: Callable[[], Any]
    """Returns a decompressor of one stream with the interface of `bz2.BZ2Decompressor`."""


GZIP = Compression("gzip", ".gz", "gzip -dc", re.compile(rb"\x1f\x8b"), _Gzip)
BZIP2 = Compression("bzip2", ".bz2", "bzip2 -dc", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), BZ2Decompressor)
XZ = Compression("xz", ".xz", "xz -dc", re.compile(rb"\xfd7zXZ\x00"), lambda: LZMADecompressor(FORMAT_XZ, LZMA_BYTES))
ZSTANDARD = Compression(  # or a frame to be skipped, with which pzstd begins
    "Zstandard", ".zst", "zstd -dc", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), _zstd
)
COMPRESSIONS = (GZIP, BZIP2, XZ, ZSTANDARD)
START_BYTES = 10  # the longest start


def compression_of(name: Path | str) -> Compression | None:
    """Return the compression that the suffix of a file name indicates; None if it indicates none."""
    suffix = Path(name).suffix.lower()
    return next((compression for compression in COMPRESSIONS if suffix == compression.suffix), None)


def recognised(start: bytes) -> Compression | None:
    """Return the compression of a file that begins with `start`; None if it is not compressed."""
    return next((compression for compression in COMPRESSIONS if compression.start.match(start)), None)


def decompressed(file: IO[bytes], name: Path | str) -> AbstractContextManager[IO[bytes]]:
    """Return the content of an open file, decompressed if the suffix of its name indicates a compression, as a context.

    The content is read sequentially, in memory of a few MB (and what xz or Zstandard need). Reading it raises DataError
    if the file is not compressed as its name says, and DamagedError.
    """
    compression = compression_of(name)
    return nullcontext(file) if compression is None else decompress(file, name, compression)


def decompress(file: IO[bytes], name: Path | str, compression: Compression) -> IO[bytes]:
    """Return the decompressed content of an open file; `name` is for messages. Raises the errors of `decompressed`."""
    return file_of(_decompress(file, name, compression))


def _decompress(file: IO[bytes], name: Path | str, compression: Compression) -> Iterator[bytes]:
    with damage(name, compression.name):
        data = file.read(BLOCK_BYTES)
        if not data:
            raise ValueError("it is empty")
        if not compression.start.match(data):
            raise _misnamed(name, data, compression)
        while data:
            stream = compression.decompressor()
            while not stream.eof:
                if stream.needs_input and not data:
                    data = file.read(BLOCK_BYTES)
                    if not data:
                        raise EOFError
                yield stream.decompress(data, BLOCK_BYTES)
                data = b""
            data = stream.unused_data.lstrip(b"\0")  # zeros may follow a stream
            while len(data) < START_BYTES and (block := file.read(BLOCK_BYTES)):
                data = (data + block).lstrip(b"\0")
            if data and not compression.start.match(data):
                raise ValueError("other data follows its end")


def _misnamed(name: Path | str, start: bytes, compression: Compression) -> DataError:
    """Return the error for a file that is not compressed as its suffix indicates."""
    actual = recognised(start)
    stem = Path(name).stem
    if actual is None:
        problem = f"its name ends in {compression.suffix}, but it is not compressed with {compression.name}"
        return DataError(f"{name}: {problem}; if it is not compressed at all, rename it to {stem}")
    problem = f"compressed with {actual.name}, but its name ends in {compression.suffix}"
    return DataError(f"{name}: {problem}; rename it to {stem}{actual.suffix}")


# --- archives -------------------------------------------------------------------------------------

MAX_RATIO = 300
"""Maximum ratio of the unpacked size to the size of an archive; repetitive XML has 50."""
ALLOWED_BYTES = 1 << 24
"""Unpacked size that is allowed whatever the ratio."""


OpenContent: TypeAlias = Callable[[], AbstractContextManager[IO[bytes]]]
"""A function that opens the content of a file or an entry of an archive."""


class Member(NamedTuple):
    """An entry of an archive."""

    name: str
    kind: str
    """The kind of an entry that is not a file, such as `links`; empty for files."""
    open: OpenContent
    """Opens its content, which may be compressed itself."""


def _content(file: IO[bytes], name: str, kind: str) -> IO[bytes]:
    """Return the content of a member as a file whose read errors are DamagedError."""

    def blocks() -> Iterator[bytes]:
        with damage(name, kind):
            yield from iter(partial(file.read, BLOCK_BYTES), b"")

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
        kind = ""
        if info.filename.endswith("/"):
            kind = "folders"
        elif mode not in (0, stat.S_IFREG):
            kind = "links" if mode == stat.S_IFLNK else "devices"
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


_TARFILE: Any = tarfile
"""The module with its errors, which type checkers do not know."""


class _Header(tarfile.TarInfo):
    """A tar header. Unlike in `tarfile`, only a block of zeros ends an archive: anything else is an error."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except (_TARFILE.EmptyHeaderError, _TARFILE.TruncatedHeaderError) as error:
            raise EOFError from error
        except _TARFILE.InvalidHeaderError as error:
            raise ValueError("a header of a member is damaged") from error


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
        content = file
        mode: Any = "r:"
        if compression is not None:
            content = decompress(file, self._path, compression)
            mode = "r|"
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
                kinds = {tarfile.DIRTYPE: "folders", tarfile.SYMTYPE: "links", tarfile.LNKTYPE: "links"}
                kind = "" if info.isfile() else kinds.get(info.type, "devices")
                yield Member(info.name, kind, partial(self.open, info))
            while cast(Any, tar).fileobj.read(BLOCK_BYTES):  # to its end, which has the checksum of compressed content
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


# --- all archives ---------------------------------------------------------------------------------


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

    Links, devices, and names that lead out of the archive are left out. The last of several files with one name is
    listed, as when they are unpacked. A compressed tar is read once to list it, and once more if its members are opened
    in order, each closed before the next; opening a member out of order reads it from its beginning again.
    Raises DataError if the archive cannot be read or is damaged.
    """
    left_out: Counter[str] = Counter()
    members: dict[str, Member] = {}
    listing = _list_zip(path) if path.suffix.lower() == ".zip" else _Tar(path).members()
    for member in listing:
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
