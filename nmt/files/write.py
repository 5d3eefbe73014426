"""Writing files: atomically, durably, and by one process at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from nmt.console import say
from nmt.errors import DataError, LockedError, UnsafeFileError
from nmt.files.read import create, open_own, read_text, refuse_links

CHUNK = 1 << 24  # bytes per write; the kernel accepts at most 2 GiB


def write_file(path: Path, data: bytes, folder: int | None = None) -> None:
    """Write a new file and sync it to disk. A failure may leave a part of it.

    An existing file or link of this name is removed. `folder`: a descriptor of its directory, by default that of the
    path. Raises OSError, which names the file without the suffix of its temporary name.
    """
    try:
        descriptor = create(path if folder is None else path.name, folder)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest[:CHUNK]) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        error.filename = str(path).removesuffix(".part")
        raise


def replace_file(path: Path, content: str | bytes, may_follow: bool = True) -> None:
    """Write or replace a file atomically.

    may_follow: whether its directory may be a symbolic link.
    Raises UnsafeFileError if it is one and may not be, and OSError.
    """
    if not may_follow:
        refuse_links([path.parent])
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | (0 if may_follow else os.O_NOFOLLOW))
        try:
            _replace_in(folder, path.name, content.encode() if isinstance(content, str) else content)
        finally:
            os.close(folder)
    except OSError as error:
        error.filename = str(path)
        raise


def _replace_in(folder: int, name: str, data: bytes) -> None:
    part = f"{name}.part"
    try:
        write_file(Path(part), data, folder)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)


def append_line(path: Path, line: bytes) -> None:
    """Append a line, without its line feed, to a file that several processes append to, and sync it to disk.

    On failure nothing is appended. A line that a killed process left unfinished is ended first. Raises UnsafeFileError
    if the file is a link or not a regular one, and OSError.
    """
    descriptor = open_own(path, os.O_APPEND)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: a single write is atomic on most
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        end = os.fstat(descriptor).st_size
        is_whole = end == 0 or os.pread(descriptor, 1, end - 1) == b"\n"
        data = (b"" if is_whole else b"\n") + line + b"\n"
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_output(target: Path | str) -> Iterator[IO[bytes]]:
    """Open a file that gets its name only when it is complete; `-` is standard output. Raises DataError."""
    if str(target) == "-" and sys.stdout is None:
        raise DataError("standard output is closed; name a file with --output")
    try:
        with _opened(target) as out:
            yield out
            out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(target)):
            raise  # concerns another file, which is read meanwhile
        name = "standard output" if str(target) == "-" else str(target)
        raise DataError(f"{name}: cannot be written: {error.strerror}") from error


def refuse_overwriting(targets: Sequence[Path | str | None], inputs: Sequence[Path | str | None]) -> None:
    """Raise DataError if a file to write is also an input, or is to be written twice."""
    read = [path for path in map(_regular, inputs) if path is not None]
    written: list[str] = []
    for target in (str(name) for name in targets if name is not None and str(name) != "-"):
        path = _regular(target)
        if path is not None and any(path.samefile(other) for other in read):
            raise DataError(f"{target}: is an input and would be overwritten; name another output file")
        if os.path.realpath(target) in written:
            raise DataError(f"{target}: would be written twice; name two files")
        written.append(os.path.realpath(target))


def _regular(name: Path | str | None) -> Path | None:
    """Return the regular file of this name, if there is one."""
    with contextlib.suppress(OSError):  # an impossible or unreachable name, which is reported when it is opened
        if name is not None and str(name) != "-" and Path(name).is_file():
            return Path(name)
    return None


@contextlib.contextmanager
def _opened(target: Path | str) -> Iterator[IO[bytes]]:
    path = Path(target)
    if str(target) == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
    elif path.is_dir():
        raise DataError(f"{path}: a directory, where a file is to be written")
    elif not path.parent.is_dir():
        raise DataError(f"{path}: the directory {path.parent} does not exist")
    elif path.exists() and not path.is_file():  # a device or a named pipe, not to be replaced by a file
        with path.open("wb") as out:
            yield out
    else:
        part = path.with_name(path.name + ".part")
        try:
            with os.fdopen(create(part), "wb") as out:
                yield out
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Sync a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Lock:
    """A lock file, locked by the kernel so that a crash releases it.

    The file names its holder: host, process and time. It is not removed on release: a removed lock file could be
    locked twice.
    """

    def __init__(self, path: Path, activity: str) -> None:
        """Acquire the lock; `activity` is a verb for the message, such as `trains`.

        Raises LockedError if another process holds it, UnsafeFileError if it is a link.
        """
        for _ in range(10):  # `lock_holder` holds it for an instant
            self._descriptor = open_own(path)
            if self._taken(path):
                break
            os.close(self._descriptor)
            time.sleep(0.05)
        else:
            raise locked_error(path, activity)
        holder = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat("T", "seconds"),
        }
        with contextlib.suppress(OSError):  # a full disk: the lock is held all the same
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder).encode() + b"\n", 0)

    def _taken(self, path: Path) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(self._descriptor).st_ino == path.stat().st_ino  # else it was just removed
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:  # a file system without locks: go on without one
            say(f"{path} cannot be locked ({error.strerror}): make sure that only one process writes here")
            return True

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def locked_error(path: Path, activity: str) -> LockedError:
    """Return the error for a lock file that is held, naming the process; `activity` as for `Lock`."""
    holder = _read_holder(path)
    who = "process {} on {} since {}".format(*(holder.get(key, "?") for key in ("pid", "host", "since")))
    return LockedError(f"{path.parent}: another process {activity} here: {who}; wait for it to end or stop it")


def lock_holder(path: Path) -> dict[str, object] | None:
    """Return host, pid and since of the process that holds this lock file; None if none does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # O_NONBLOCK: it might be a pipe
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(path)
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(descriptor)
    return None


def _read_holder(path: Path) -> dict[str, object]:
    """Return the content of the lock file; empty while its holder is about to write it."""
    try:
        return dict(json.loads(read_text(path)))
    except (UnsafeFileError, OSError, ValueError, TypeError):
        return {}
