"""Functions that write files and directories atomically, without following symbolic links, and lock files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from nmt.console import say
from nmt.errors import DataError, LockedError, UnsafeFileError
from nmt.files.read import check_regular, read_text, refuse_special

CHUNK = 1 << 24  # bytes per write; the kernel accepts at most 2 GiB
KEPT_AFTER = 60.0
"""Seconds of work after which unfinished work is kept when it fails or is stopped."""
_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


@contextmanager
def staged(
    final: Path, part: Path | None = None, is_directory: bool = False, is_kept: Callable[[], bool] = lambda: False
) -> Iterator[Path]:
    """Yield a file name or an empty directory to write to, which replaces `final` atomically if the block succeeds.

    The content is synced to disk first. A failure leaves `final` unchanged, and the next writer removes what a killed
    one has left. Processes that write `final` at the same time need different values of `part`.

    Args:
        part: the name to yield, in the same directory as `final`; by default `final`.part.
        is_kept: called if `final` is a directory that contains files; returns whether to keep it.

    Raises OSError, whose message names files in `final`.
    """
    part = part or final.with_name(f"{final.name}.part")
    old = part.with_name(f"{part.name}.old")
    try:
        if is_directory:
            _clear(final, part, old)
            part.mkdir(parents=True)
        yield part
        for path in [*sorted(part.rglob("*")), part]:
            sync(path)
        while True:
            try:
                part.rename(final)
                break
            except OSError as error:  # a directory that holds files cannot be replaced
                if error.errno not in _IN_THE_WAY:
                    raise
            if is_kept():
                return
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                final.rename(old)
        sync(final.parent)
    except OSError as error:
        if error.errno is not None:  # otherwise it has its own message
            error.filename = str(error.filename or final).replace(str(part), str(final))
        raise
    finally:
        with contextlib.suppress(OSError):
            if is_directory:
                _clear(final, part, old)
            else:
                part.unlink(missing_ok=True)


def _clear(final: Path, part: Path, old: Path) -> None:
    remove(part)
    if os.path.lexists(old) and not os.path.lexists(final):  # nothing has taken its place
        old.rename(final)
    remove(old)


def remove(path: Path) -> None:
    """Remove a file, a symbolic link, or a directory with its content, if it exists. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def sync(path: Path) -> None:
    """Sync a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writing(path: Path, advice: str = "") -> Iterator[None]:
    """Convert OSError to DataError; the message ends with `advice`, unless the disk is full."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {write_problem(error, advice)}") from error


def write_problem(error: OSError, advice: str = "") -> str:
    """Return why a file cannot be written. It ends with `advice`, or with other advice if the disk is full."""
    text = error.strerror or str(error)  # "9 requested and 2 written", from numpy, has no number
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or " requested and " in text:
        return "No space left on device; make room and run the same command again"
    return f"{text}{advice}"


def link(path: Path, target: Path) -> None:
    """Create a hard link to a file, or a copy if that fails. Raises UnsafeFileError and OSError."""
    check_regular(path)
    try:
        target.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, target)


def write_file(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file, given as one or several parts, without syncing it; a failure may leave a partial file.

    An existing file or link with this name is removed. Raises OSError, whose message names the file.
    """
    try:
        descriptor = _create(path)
        try:
            for part in parts:
                left = memoryview(part)
                while left:
                    left = left[os.write(descriptor, left[:CHUNK]) :]
        finally:
            os.close(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise


def replace_file(path: Path, content: str | bytes, may_follow: bool = True) -> None:
    """Write or replace a file atomically.

    Raises OSError, and UnsafeFileError if its directory is a symbolic link and `may_follow` is false.
    """
    if not may_follow:
        refuse_links([path.parent])
    if isinstance(content, str):
        content = content.encode()
    with staged(path) as part:
        write_file(part, content)


def append_line(path: Path, line: bytes) -> None:
    """Append a line, given without its line feed, to a file shared by several processes, and sync it to disk.

    On failure nothing is appended. An unfinished line of a killed process is ended first. Raises OSError, and
    UnsafeFileError if the file is a link or not a regular file.
    """
    descriptor = open_own(path, os.O_APPEND)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: a single write is atomic on most
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        end = os.fstat(descriptor).st_size
        data = line + b"\n"
        if end > 0 and os.pread(descriptor, 1, end - 1) != b"\n":
            data = b"\n" + data
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_output(target: Path | str) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears only when it is complete; `-` is standard output. Raises DataError."""
    path = Path(target)
    name = "standard output" if str(target) == "-" else str(target)
    try:
        with contextlib.ExitStack() as stack:
            if str(target) == "-":
                if sys.stdout is None:
                    raise DataError("standard output is closed; specify a file with --output")
                sys.stdout.flush()
                out = sys.stdout.buffer
            elif path.is_dir():
                raise DataError(f"{path}: is a directory, but the output must be a file")
            elif not path.parent.is_dir():
                raise DataError(f"{path}: the directory {path.parent} does not exist")
            elif path.exists() and not path.is_file():  # a device or a named pipe, not to be replaced by a file
                out = stack.enter_context(path.open("wb"))
            else:
                out = stack.enter_context(os.fdopen(_create(stack.enter_context(staged(path))), "wb"))
            yield out
            out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(target)):
            raise  # about another file, which is being read
        raise DataError(f"{name}: cannot be written: {write_problem(error)}") from error


def refuse_overwriting(targets: Sequence[Path | str | None], inputs: Sequence[Path | str | None]) -> None:
    """Raise DataError if an output file is also an input, or is given twice."""
    # not Path.is_file, which raises OSError for an impossible or unreachable name
    read = set()
    written = set()
    for name in inputs:
        if name is not None and os.path.isfile(name):  # noqa: PTH113
            read.add(os.path.realpath(name))
    for target in targets:
        if target is None or str(target) == "-":
            continue
        path = os.path.realpath(target)
        if path in read:
            raise DataError(f"{target}: is an input and would be overwritten; choose another output file")
        if path in written:
            raise DataError(f"{target}: would be written twice; choose two different files")
        written.add(path)


def refuse_links(paths: Iterable[Path]) -> None:
    """Raise UnsafeFileError if a path is a symbolic link, or neither a directory nor a regular file."""
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except OSError:  # missing, or unreachable, which writing it reports
            continue
        if stat.S_ISLNK(mode):
            raise UnsafeFileError(
                f"{path}: a symbolic link, and nothing is written through links; replace it with its target "
                "(a directory above it may be a link)"
            )
        if not stat.S_ISDIR(mode):
            refuse_special(path, mode)


def open_own(path: Path, flags: int = 0) -> int:
    """Open a file to be changed in place, creating it if missing, and return its descriptor.

    `flags` are further flags of `os.open`. Raises OSError, and UnsafeFileError if it is a link or not a regular file.
    """
    refuse_links([path])
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags, 0o666)
    try:
        refuse_special(path, os.fstat(descriptor).st_mode)
    except UnsafeFileError:
        os.close(descriptor)
        raise
    return descriptor


def _create(path: Path) -> int:
    """Create a file for writing, replacing a file or link, and return its descriptor. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        path.unlink()
        return os.open(path, flags, 0o666)


class Lock(contextlib.AbstractContextManager["Lock"]):
    """A lock on a file or directory, held by the kernel so that a crash releases it; also a context manager.

    A lock file contains the host, process and time of its holder. It is not removed on release: a removed lock file
    could be locked twice.
    """

    def __init__(self, path: Path, activity: str, waits: bool = False) -> None:
        """Acquire the lock; if `waits`, wait until another process releases it.

        `activity` is a verb for the message, such as `trains`. Raises LockedError if another process holds the lock,
        and UnsafeFileError if the file is a link.
        """
        for attempt in itertools.count(1):  # `lock_holder` holds it for an instant
            self._descriptor = os.open(path, os.O_RDONLY) if path.is_dir() else open_own(path)
            if self._taken(path):
                break
            os.close(self._descriptor)
            if attempt == 10:
                error = locked_error(path, activity)
                if not waits:
                    raise error
                say(f"waiting; {error}")
            time.sleep(0.05)
        since = datetime.now(UTC).isoformat("T", "seconds")
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
        with contextlib.suppress(OSError):  # a full disk, or a directory: the lock is held nevertheless
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder).encode() + b"\n", 0)

    def _taken(self, path: Path) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(self._descriptor).st_ino == path.stat().st_ino  # otherwise it was just removed
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:  # a file system without locks: go on without one
            say(f"{path} cannot be locked ({error.strerror}): make sure that only one process writes here")
            return True

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def __exit__(self, *_: object) -> None:
        self.release()


def locked_error(path: Path, activity: str) -> LockedError:
    """Return the error for a lock that another process holds; for `activity`, see `Lock`."""
    holder = _read_holder(path)
    who = "process {} on {} since {}".format(*(holder.get(key, "?") for key in ("pid", "host", "since")))
    where, end = (path, "") if path.is_dir() else (path.parent, f": {who}")
    return LockedError(f"{where}: another process {activity} here{end}; wait for it to end or stop it")


def lock_holder(path: Path) -> dict[str, object] | None:
    """Return the `host`, `pid` and `since` of the process that has locked a file; None if it is not locked."""
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
    """Return the content of a lock file, which is empty until the process that holds the lock has written it."""
    try:
        return dict(json.loads(read_text(path)))
    except (UnsafeFileError, OSError, ValueError, TypeError):
        return {}


@contextmanager
def alone_in(directory: Path, activity: str, advice: str = "") -> Iterator[None]:
    """Create a directory and lock it for the block, waiting for other processes; for `activity`, see `Lock`.

    Raises DataError, whose message ends with `advice`, if the directory cannot be written.
    """
    with writing(directory, advice):
        directory.mkdir(parents=True, exist_ok=True)
        lock = Lock(directory, activity, waits=True)
    with lock:
        yield


@contextmanager
def work_directory(work: Path, activity: str) -> Iterator[Path]:
    """Create and lock a directory for resumable work, and remove it when the work is done.

    Parents that it creates are removed again if they stay empty. Files of an interrupted process are retained. If the
    block fails, the directory is kept if it had files before, or after `KEPT_AFTER` seconds of work. `activity` is
    described at `Lock`.
    Raises DataError if it cannot be written or is no such directory, and LockedError if another process works there.
    """
    refuse_links([work])
    with writing(work):
        names = {path.name for path in work.iterdir()} if work.exists() else set()
        if names and "lock" not in names:
            raise DataError(f"{work}: has a name reserved for unfinished work; move it, or choose another output")
        created = [path for path in work.parents if not path.exists()]
        work.mkdir(parents=True, exist_ok=True)
        lock = Lock(work / "lock", activity)
    start = time.monotonic()
    is_done = False
    with lock:
        try:
            yield work
            is_done = True
        finally:
            if not is_done and (len(names) > 1 or time.monotonic() - start >= KEPT_AFTER):
                say(f"finished work is kept in {work}: run the same command to continue, or remove the directory")
            else:
                shutil.rmtree(work, ignore_errors=True)
                with contextlib.suppress(OSError):  # something was put into it
                    for path in created:
                        path.rmdir()
