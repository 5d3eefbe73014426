"""Zip archives, whose members are opened by their place in the file.

The members are read here and not by `zipfile`, which decompresses bzip2 and LZMA in memory without bound, and reads the
directory of the archive again for each member.
"""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.files.compressed import BZIP2, DEFLATE, ZSTANDARD, Compression, decompress
from nmt.files.read import open_regular, reading
from nmt.files.streams import DamagedError, file_of, section
from nmt.prepare.members import Listed
from nmt.text.lines import READ_TWICE

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
