"""Functions that read untrusted files: only regular files, of bounded size.

Configurations and files inside a run, an export or a data directory must be regular: reading a named pipe would block
forever, and /dev/zero would fill the memory. Text that the user names to be read once, such as a file to translate, may
also come from a pipe (`open_text`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nmt.console import Progress
from nmt.errors import DataError, UnsafeFileError

DOCUMENT_BYTES = 1 << 26
"""Maximum size of a small file, such as JSON or the model of a tokenizer."""
CONFIG_BYTES = 1 << 18
"""Maximum size of a configuration: YAML needs a hundred times the time and memory of JSON."""
LOG_BYTES = 1 << 30
"""Maximum size of log.jsonl: millions of records."""
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path, why: str = "") -> IO[bytes]:
    """Open a regular file for reading. Raises OSError, and UnsafeFileError (with `why`) for another kind of file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # does not wait for the writer of a pipe
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a missing device
            refuse_special(path, path.stat().st_mode, why)
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        refuse_special(path, mode, why)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def refuse_special(path: Path, mode: int, why: str = "") -> None:
    """Raise UnsafeFileError, with `why` in its message, unless `mode` is the mode of a regular file."""
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
        raise UnsafeFileError(f"{path}: {kind}, where a regular file is needed{why}")


def check_regular(path: Path) -> None:
    """Raise the same errors as `open_regular`, for a file that a library then opens by its name."""
    open_regular(path).close()


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """Read a regular file. Raises OSError, and UnsafeFileError for another kind of file or more than `limit` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        most = limit
        what = "such a file has"
        if most is None:
            most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            what = "this machine has memory"
        if size > most:
            raise UnsafeFileError(f"{path}: {size:,} bytes, more than {what} ({most:,})")
        return file.read(size or min(most, 1 << 16))  # files in /proc have size 0


def read_text(path: Path) -> str:
    """Read a small text file in UTF-8. Raises OSError, UnsafeFileError and UnicodeDecodeError."""
    return read_regular(path, DOCUMENT_BYTES).decode("utf-8")


def open_text(path: Path) -> IO[bytes]:
    """Open a text file, pipe or terminal specified by the user, to be read once.

    Raises UnsafeFileError for another special file, and OSError.
    """
    mode = path.stat().st_mode
    return path.open("rb") if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) else open_regular(path)


def checksum(path: Path, why: str = "", advice: str = "") -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises DataError if it is not readable.

    `why` is described at `open_regular`, `advice` at `reading`.
    """
    digest = hashlib.sha256()
    # only the main thread of the first process shows progress
    is_shown = os.environ.get("RANK", "0") == "0" and threading.current_thread() is threading.main_thread()
    with reading(path, advice), open_regular(path, why) as file:
        size = os.fstat(file.fileno()).st_size
        with Progress(f"checksum of {path.name}", size, "bytes", shown=is_shown) as progress:
            while block := file.read(1 << 20):
                digest.update(block)
                progress.add(len(block))
    return digest.hexdigest()


def checksums_in(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder, by its path relative to the folder. Raises DataError."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): checksum(path) for path in paths}


def fingerprint_of(content: bytes) -> str:
    """Return the first sixteen hexadecimal digits of the SHA-256 of `content`."""
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """Convert OSError to DataError while a file is read; the message for a missing file ends with `advice`."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file{advice}") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a directory, where a text file is needed") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def shipped(name: str) -> Path:
    """Return a directory that is shipped with nmt."""
    package = Path(__file__).parent.parent
    # inside an installed package; beside the package in a checkout
    return next(path for path in (package / name, package.parent / name) if path.is_dir())
