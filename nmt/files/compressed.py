"""Decompression of gzip, bzip2, xz and Zstandard files, which are recognised by their names.

The file objects of the standard library end without an error where the second of several streams of .bz2 or .xz is
damaged. The decompressors are therefore used directly: a file must be whole streams, and perhaps zeros after them.
"""

from __future__ import annotations

import io
import re
import sys
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from lzma import FORMAT_XZ, LZMADecompressor
from pathlib import Path
from typing import IO, Any

from nmt.errors import DataError, error_text

BLOCK = 1 << 16
"""Number of bytes that are read at a time."""


class DamagedError(DataError):
    """The error raised for a truncated or damaged archive or compressed file."""

    def __init__(self, name: Path | str, kind: str, problem: str, after: str = "") -> None:
        super().__init__(f"{name}: not readable as {kind}{after}: {problem}")
        self._name, self._kind, self._problem = name, kind, problem

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
        self._blocks, self._rest = blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of buffers is Python 3.12's
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = block
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def file_of(blocks: Iterator[bytes]) -> io.BufferedReader:
    """Return a file whose content is the concatenation of blocks."""
    return io.BufferedReader(_Blocks(blocks), BLOCK)


LZMA_BYTES = 1 << 29
"""Maximum memory that decompressing .xz may need (after `xz -9`, 65 MB); Zstandard has its own limit of 128 MB."""
NO_ZSTD = (
    "Python before 3.14 reads Zstandard with the package backports.zstd; install it with pip install backports.zstd, "
    "or with nmt's extra zst"
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


@contextmanager
def decompressed(file: IO[bytes], name: Path | str) -> Iterator[IO[bytes]]:
    """Yield the content of an open file, decompressed if the suffix of its name indicates a compression.

    The content is read sequentially, in memory of a few MB (and what xz or Zstandard need). Reading it raises DataError
    if the file is not compressed as its name says, and DamagedError.
    """
    compression = compression_of(name)
    with nullcontext(file) if compression is None else decompress(file, name, compression) as content:
        yield content


def decompress(file: IO[bytes], name: Path | str, compression: Compression) -> IO[bytes]:
    """Return the decompressed content of an open file; `name` is for messages. Errors are those of `decompressed`."""
    return file_of(_decompress(file, name, compression))


def _decompress(file: IO[bytes], name: Path | str, compression: Compression) -> Iterator[bytes]:
    with damage(name, compression.name):
        data = file.read(BLOCK)
        if not data:
            raise ValueError("it is empty")
        if not compression.start.match(data):
            raise _misnamed(name, data, compression)
        while data:
            stream = compression.decompressor()
            while not stream.eof:
                if stream.needs_input and not data:
                    data = file.read(BLOCK)
                    if not data:
                        raise EOFError
                yield stream.decompress(data, BLOCK)
                data = b""
            data = stream.unused_data.lstrip(b"\0")  # zeros may follow a stream
            while len(data) < START_BYTES and (block := file.read(BLOCK)):
                data = (data + block).lstrip(b"\0")
            if data and not compression.start.match(data):
                raise ValueError("other data follows its end")


def _misnamed(name: Path | str, start: bytes, compression: Compression) -> DataError:
    """Return the error for a file that is not compressed as its suffix indicates."""
    actual, stem = recognised(start), Path(name).stem
    if actual is None:
        problem = f"its name ends in {compression.suffix}, but it is not compressed with {compression.name}"
        return DataError(f"{name}: {problem}; if it is not compressed at all, rename it to {stem}")
    problem = f"compressed with {actual.name}, but its name ends in {compression.suffix}"
    return DataError(f"{name}: {problem}; rename it to {stem}{actual.suffix}")
