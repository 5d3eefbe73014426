"""Zip archives, whose members are opened by their place in the file.

The members are read here and not by `zipfile`, which decompresses bzip2 and LZMA in memory without bound, and reads the
directory of the archive again for each member.
"""

from __future__ import annotations

import io
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
from nmt.errors import DataError
from nmt.files.compressed import BLOCK, BZIP2, DEFLATE, ZSTANDARD, Compression, DamagedError, decompress, one_line
from nmt.files.read import open_regular, reading
from nmt.files.section import section
from nmt.prepare.members import Listed
from nmt.text.lines import READ_TWICE

_METHODS: dict[int, Compression | None] = {0: None, 8: DEFLATE, 12: BZIP2, 93: ZSTANDARD}
_ENCRYPTED = 0x2041  # flags: of the file, strongly, with its directory


def list_zip(path: Path) -> Iterator[Listed]:
    """Yield the members of a zip, and check that they do not overlap. Raises DataError."""
    with reading(path), open_regular(path, READ_TWICE) as file:
        try:
            infos = zipfile.ZipFile(file).infolist()
        except Exception as error:  # the library has no common one
            raise DamagedError(path, "zip", one_line(error)) from error
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise DamagedError(path, "zip", f"{printable(info.filename)} overlaps another member")
        end = info.header_offset + 30 + info.compress_size
    for info in infos:
        yield Listed(info.filename, _kind(info), partial(_open, path, info))


def _kind(info: zipfile.ZipInfo) -> str:
    mode = stat.S_IFMT(info.external_attr >> 16)  # 0 from systems without
    if info.is_dir():
        return "folder"
    return "link" if mode == stat.S_IFLNK else "device" if mode not in (0, stat.S_IFREG) else ""


@contextmanager
def _open(path: Path, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """Open a member at its place, without the directory of the archive, which may be long."""
    name = f"{path}/{printable(info.filename)}"
    if info.flag_bits & _ENCRYPTED:
        raise DataError(f"{name}: encrypted; unpack it with its password first")
    if info.compress_type not in _METHODS:
        method = zipfile.compressor_names.get(info.compress_type, str(info.compress_type))
        raise DataError(
            f"{name}: compressed in a way that is not read here ({method}); pack it again, such as by zip -r"
        )
    with ExitStack() as stack:
        with reading(path):
            file = stack.enter_context(open_regular(path, READ_TWICE))
            file.seek(info.header_offset)
            header = file.read(30)
            if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
                raise DamagedError(name, "zip", "its header is not where the archive says")
            lengths = (int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little"))
            file.seek(sum(lengths), os.SEEK_CUR)  # the name, and more that only the directory needs
        content = section(file.read, info.compress_size, name, "zip")
        compression = _METHODS[info.compress_type]
        if compression is not None:
            content = decompress(content, name, compression)
        yield stack.enter_context(io.BufferedReader(_Checked(content, name, info.file_size, info.CRC), BLOCK))


class _Checked(io.RawIOBase):
    """The content of a member, compared with the size and the checksum that the archive declares."""

    def __init__(self, file: IO[bytes], name: str, size: int, crc: int) -> None:
        self._file, self._name, self._rest, self._crc = file, name, size, crc
        self._found = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # Buffer, from Python 3.12 on
        data = self._file.read(len(buffer))
        self._rest -= len(data)
        self._found = zlib.crc32(data, self._found)
        if self._rest < 0 or (not data and self._rest):
            raise DamagedError(self._name, "zip", "its size is not what the archive declares")
        if not data and self._found != self._crc:
            raise DamagedError(self._name, "zip", "its checksum is not what the archive declares")
        buffer[: len(data)] = data
        return len(data)
