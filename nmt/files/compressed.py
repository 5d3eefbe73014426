"""Files made of other files: parts, and decompressed content, known by name and checked by its first bytes.

The standard library's files end silently where the second of several streams of .bz2 or .xz is damaged, so its
decompressors are used directly: whatever is not a whole number of streams, or zeros after them, is an error.
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
"""Bytes that are read at a time."""


class DamagedError(DataError):
    """A compressed file or an archive is cut off or damaged."""

    def __init__(self, name: Path | str, kind: str, problem: str, after: str = "") -> None:
        super().__init__(f"{name}: not readable as {kind}{after}: {problem}")
        self._name, self._kind, self._problem = name, kind, problem

    def after(self, place: str) -> DamagedError:
        """Return the same error with the last place that was readable, such as `line 3`."""
        return DamagedError(self._name, self._kind, self._problem, f" after {place}")


def file_of(read: Callable[[int], bytes]) -> io.BufferedReader:
    """Make a file of a function that returns the next bytes, at most the given number, and none at the end."""
    return io.BufferedReader(_Raw(read), BLOCK)


class _Raw(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of buffers is Python 3.12's
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


LZMA_BYTES = 1 << 29
"""Maximum memory of decompressing .xz, which its header asks for; `xz -9` asks for 65 MB. Zstandard's own is 128 MB."""
NO_ZSTD = (
    "Python before 3.14 reads Zstandard with the package backports.zstd; install it with pip install backports.zstd, "
    "or with nmt's extra zst"
)


class _Zlib:
    """`zlib`'s decompressor of gzip as a `Decompressor`; it lacks `needs_input` before Python 3.12."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

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
    """A way of compression."""

    name: str
    suffix: str
    command: str
    """Writes a decompressed file to standard output."""
    start: re.Pattern[bytes]
    """How a stream begins."""
    decompressor: Callable[[], Any]
    """Makes a decompressor of one stream, as those of `bz2`, `lzma` and `compression.zstd` are."""


GZIP = Compression("gzip", ".gz", "gzip -dc", re.compile(rb"\x1f\x8b"), _Zlib)
BZIP2 = Compression("bzip2", ".bz2", "bzip2 -dc", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), BZ2Decompressor)
XZ = Compression("xz", ".xz", "xz -dc", re.compile(rb"\xfd7zXZ\x00"), lambda: LZMADecompressor(FORMAT_XZ, LZMA_BYTES))
ZSTANDARD = Compression(  # or a frame to be skipped, with which pzstd begins
    "Zstandard", ".zst", "zstd -dc", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), _zstd
)
COMPRESSIONS = (GZIP, BZIP2, XZ, ZSTANDARD)
START_BYTES = 10  # the longest start


def compression_of(name: Path | str) -> Compression | None:
    """Return the compression that the suffix of a file name says."""
    suffix = Path(name).suffix.lower()
    return next((one for one in COMPRESSIONS if suffix == one.suffix), None)


def recognised(start: bytes) -> Compression | None:
    """Return the compression of a file that begins with `start`."""
    return next((one for one in COMPRESSIONS if one.start.match(start)), None)


@contextmanager
def decompressed(file: IO[bytes], name: Path | str) -> Iterator[IO[bytes]]:
    """Give the decompressed content of an open file as its name says; of a name that says nothing, the file itself.

    Several streams one after the other are read as one. It is read from front to back, in memory of a few MB at most
    (and what xz or Zstandard ask for), whatever it expands to.
    Raises DataError if the content is not what the name says, and, as it is read, DamagedError.
    """
    compression = compression_of(name)
    with nullcontext(file) if compression is None else decompress(file, name, compression) as content:
        yield content


def decompress(file: IO[bytes], name: Path | str, compression: Compression) -> IO[bytes]:
    """Give the content of an open file in a given compression, as `decompressed` does; `name` is for messages."""
    return file_of(_Decompressed(file, name, compression).read)


class _Decompressed:
    def __init__(self, file: IO[bytes], name: Path | str, compression: Compression) -> None:
        self._file, self._name, self._compression = file, name, compression
        self._stream: Any = None  # None: before a stream
        self._input = b""  # read, but not given to the stream
        self._is_first = True

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end."""
        try:
            return self._next(size)
        except DataError:
            raise
        except ModuleNotFoundError:
            raise DataError(f"{self._name}: {NO_ZSTD}") from None
        except Exception as error:  # of whichever library
            raise DamagedError(self._name, self._compression.name, error_text(error)) from error

    def _next(self, size: int) -> bytes:
        data = b""
        while not data:
            if self._stream is None:
                if not self._begin():
                    break
                self._stream = self._compression.decompressor()
            if self._stream.needs_input and not self._input and not self._more():
                raise EOFError("it is cut off")
            data, self._input = self._stream.decompress(self._input, size), b""
            if self._stream.eof:
                self._input, self._stream = self._stream.unused_data, None
        return data

    def _begin(self) -> bool:
        """Go to the next stream, beyond zeros; return whether there is one."""
        if not self._is_first:
            self._input = self._input.lstrip(b"\0")
            while not self._input and self._more():
                self._input = self._input.lstrip(b"\0")
            if not self._input:
                return False
        while len(self._input) < START_BYTES and self._more():
            pass
        if not self._compression.start.match(self._input):
            if not self._is_first:
                raise ValueError("there is other data after its end")
            if not self._input:
                raise EOFError("it is empty")
            raise _misnamed(self._name, self._input, self._compression)
        self._is_first = False
        return True

    def _more(self) -> bool:
        """Read more input; return whether there is some."""
        block = self._file.read(BLOCK)
        self._input += block
        return bool(block)


def _misnamed(name: Path | str, start: bytes, compression: Compression) -> DataError:
    """Return the error for a file that is not compressed as its name says."""
    found, stem = recognised(start), Path(name).stem
    if found is None:
        problem = f"its name ends in {compression.suffix}, but it is not compressed with {compression.name}"
        return DataError(f"{name}: {problem}; if it is not compressed at all, rename it to {stem}")
    problem = f"compressed with {found.name}, but its name ends in {compression.suffix}"
    return DataError(f"{name}: {problem}; rename it to {stem}{found.suffix}")
