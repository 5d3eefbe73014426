"""Untrusted files: only regular ones are read, and nothing is written through a symbolic link.

Files inside a run, an export or a data directory, and configurations, must be regular: reading a named pipe would
block forever, and /dev/zero would fill the memory. Text that the user names to be read once, such as a file to
translate, may also come from a pipe (`open_text`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nmt.console import Progress
from nmt.errors import DataError, UnsafeFileError

DOCUMENT_BYTES = 1 << 26
"""Maximum size of a small file: JSON, a tokenizer's model."""
CONFIG_BYTES = 1 << 18
"""Maximum size of a configuration: YAML takes a hundred times the time and memory of JSON."""
HEADER_BYTES = 100_000_000  # the limit of the safetensors library
LOG_BYTES = 1 << 30
"""Maximum size of log.jsonl that is read: millions of records."""
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path, why: str = "") -> IO[bytes]:
    """Open a regular file for reading. Raises UnsafeFileError, which says `why`, for another kind, and OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # does not wait for the writer of a pipe
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a missing device
            _refuse_special(path, path.stat().st_mode, why)
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        _refuse_special(path, mode, why)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse_special(path: Path, mode: int, why: str = "") -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
        raise UnsafeFileError(f"{path}: {kind}, where a regular file is needed{why}")


def check_regular(path: Path) -> None:
    """Raise what `open_regular` raises, for libraries that open a file by name."""
    open_regular(path).close()


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """Read a regular file. Raises UnsafeFileError for another kind of file or more than `limit` bytes, and OSError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        most = _memory() if limit is None else limit
        if size > most:
            what = "this machine has memory" if limit is None else "such a file has"
            raise UnsafeFileError(f"{path}: {size:,} bytes, more than {what} ({most:,})")
        return file.read(size or min(most, 1 << 16))  # files in /proc have size 0


def read_text(path: Path) -> str:
    """Return the text of a small UTF-8 file. Raises OSError, UnsafeFileError and UnicodeDecodeError."""
    return read_regular(path, DOCUMENT_BYTES).decode("utf-8")


def read_tensors(path: Path) -> bytes:
    """Read a safetensors file, unless it is larger than its header declares.

    Raises UnsafeFileError for another kind of file or size, and OSError. The format is eight bytes with the length of
    the header, the header in JSON, the data: https://github.com/huggingface/safetensors.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if length > min(HEADER_BYTES, max(size - 8, 0)):
            raise UnsafeFileError(f"{path}: damaged: it begins with no header of safetensors")
        promised = 8 + length + _data_bytes(path, file.read(length)) if start else 0
    if size > promised:
        raise UnsafeFileError(f"{path}: damaged: {size:,} bytes, where its header promises {promised:,}")
    return read_regular(path)


def _data_bytes(path: Path, header: bytes) -> int:
    """Return the size of the data that the header of a safetensors file declares."""
    try:
        tensors = json.loads(header)
        return max((int(x["data_offsets"][1]) for name, x in tensors.items() if name != "__metadata__"), default=0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        raise UnsafeFileError(f"{path}: damaged: its header is not one of safetensors") from None


def _memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def open_text(path: Path) -> IO[bytes]:
    """Open a text file named by the user, which may be a pipe or a terminal, to be read once.

    Raises UnsafeFileError for a device with endless content, and OSError.
    """
    mode = path.stat().st_mode
    return path.open("rb") if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and _ends(path)) else open_regular(path)


def _ends(device: Path) -> bool:
    """Whether the content of a device ends: a terminal, or /dev/null."""
    descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.isatty(descriptor) or os.fstat(descriptor).st_rdev == Path(os.devnull).stat().st_rdev
    finally:
        os.close(descriptor)


# --- writing --------------------------------------------------------------------------------------


def refuse_links(paths: Iterable[Path]) -> None:
    """Raise UnsafeFileError if one of these is a symbolic link, or neither a directory nor a regular file."""
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except OSError:  # missing, or unreachable, which is reported when it is written
            continue
        if stat.S_ISLNK(mode):
            raise UnsafeFileError(
                f"{path}: a symbolic link, and nothing is written through one here; put what it points to in its place "
                "(the directory above may be a link itself)"
            )
        if not stat.S_ISDIR(mode):
            _refuse_special(path, mode)


def open_own(path: Path, flags: int = 0) -> int:
    """Open a file to change in place, creating it if missing; returns the descriptor. `flags`: additional ones.

    Raises UnsafeFileError if it is a link or not a regular file, and OSError.
    """
    refuse_links([path])
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags, 0o666)
    try:
        _refuse_special(path, os.fstat(descriptor).st_mode)
    except UnsafeFileError:
        os.close(descriptor)
        raise
    return descriptor


def create(name: Path | str, folder: int | None = None) -> int:
    """Create a file for writing, replacing a file or link of this name; returns the descriptor.

    `folder`: the descriptor of its directory. Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        return os.open(name, flags, 0o666, dir_fd=folder)
    except FileExistsError:
        os.unlink(name, dir_fd=folder)
        return os.open(name, flags, 0o666, dir_fd=folder)


def remove_tree(path: Path) -> None:
    """Remove a directory with its content, if it exists; of a link to one, only the link. Raises OSError."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def checksum(path: Path, why: str = "") -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises DataError if it is not readable.

    `why` as in `open_regular`.
    """
    digest = hashlib.sha256()
    # another thread has no screen of its own
    is_shown = os.environ.get("RANK", "0") == "0" and threading.current_thread() is threading.main_thread()
    with reading(path), open_regular(path, why) as file:
        size = os.fstat(file.fileno()).st_size
        with Progress(f"checksum of {path.name}", size, "bytes", shown=is_shown) as progress:
            while block := file.read(1 << 20):
                digest.update(block)
                progress.add(len(block))
    return digest.hexdigest()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of opening and reading a source file into DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check data.root and files in the config") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a directory, where a text file is needed") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
