"""How files get to the disk: whole or not at all, and by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from nmt.console import say
from nmt.errors import DataError, LockedError, UnsafeFileError
from nmt.files.read import create, open_own, read_text, refuse_links, remove_tree

CHUNK = 1 << 24  # bytes of one write: the kernel takes at most 2 GiB at a time


def write_file(path: Path, data: bytes, folder: int | None = None) -> None:
    """Write a new file and have it on the disk before going on. A failure may leave a part of it.

    What has its name, be it a link, is removed. `folder`: a descriptor of the directory it is in, by default the path
    is followed. Raises OSError, which names the file without the ending of its temporary name.
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
    """Write a file whole or not at all, over what was there, in a directory that `may_follow` from a link.

    Raises UnsafeFileError if it is a link and may not, and OSError.
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


@contextlib.contextmanager
def open_output(target: Path | str) -> Iterator[IO[bytes]]:
    """A file to write, which has its name only when it is complete; `-` is standard output. Raises DataError."""
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
            raise  # of something else that is read meanwhile
        name = "standard output" if str(target) == "-" else str(target)
        raise DataError(f"{name}: cannot be written: {error.strerror}") from error


def refuse_overwriting(targets: Sequence[Path | str | None], inputs: Sequence[Path | str | None]) -> None:
    """Raise DataError if one of the files to write is one that is read, or another that is written."""
    read = [path for path in map(_regular, inputs) if path is not None]
    written: list[str] = []
    for target in (str(name) for name in targets if name is not None and str(name) != "-"):
        path = _regular(target)
        if path is not None and any(path.samefile(other) for other in read):
            raise DataError(f"{target}: is read, and would be written over; name another file to write")
        if os.path.realpath(target) in written:
            raise DataError(f"{target}: would be written twice; name two files")
        written.append(os.path.realpath(target))


def _regular(name: Path | str | None) -> Path | None:
    """The regular file of this name, if there is one."""
    with contextlib.suppress(OSError):  # no file can have such a name, or it cannot be reached: told where it is opened
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
        raise DataError(f"{path}: there is no directory {path.parent} to write it in")
    elif path.exists() and not path.is_file():  # a device or a named pipe, which no file may replace
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
    """Have a file or the entries of a directory on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """An empty directory beside `final` to write into; it takes the place of `final` if the block ends well.

    The kernel holds a lock on it while its writer lives. So what a killed writer has left behind is seen to be
    nobody's and is removed, and two writers at a time are refused. Raises DataError where nothing can be written.
    """
    final = final.resolve()
    staged, old = (final.parent / f".{final.name}.{what}" for what in ("partial", "old"))
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        lock = _take(staged)
    except OSError as error:
        raise DataError(f"{final.parent}: cannot be written: {error.strerror}") from error
    try:
        yield staged
        _sync_tree(staged)
        remove_tree(old)
        # a directory cannot be renamed over another one that holds files
        if final.exists():
            final.rename(old)
        staged.rename(final)
        sync(final.parent)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException as error:
        shutil.rmtree(staged, ignore_errors=True)
        if isinstance(error, OSError):
            raise DataError(f"{final}: cannot be written: {error.strerror or error}") from error
        raise
    finally:
        os.close(lock)


def _take(staged: Path) -> int:
    """Make or take over the directory, emptied and locked; the file descriptor that holds the lock."""
    refuse_links([staged])
    staged.mkdir(exist_ok=True)
    lock = os.open(staged, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken = staged.exists() and os.fstat(lock).st_ino == staged.lstat().st_ino
    except BlockingIOError:
        taken = False
    if not taken:
        os.close(lock)
        raise DataError(f"{staged}: another prepare is writing here; wait for it to end")
    for path in staged.iterdir():
        remove_tree(path) if path.is_dir() else path.unlink()
    return lock


def _sync_tree(directory: Path) -> None:
    """Have everything on the disk before the directory gets its name."""
    for path in [*directory.rglob("*"), directory]:
        sync(path)


class Lock:
    """A lock file that the kernel holds for this process, so that a crash does not leave it stuck.

    The file names its holder: host, process and since when. It stays when the lock is given up: a lock file that is
    removed could be locked twice.
    """

    def __init__(self, path: Path, what: str) -> None:
        """Take the lock; `what` is done under it. Raises LockedError if another process holds it, UnsafeFileError if
        it is a link."""
        for _ in range(10):  # someone who only looks holds it for an instant
            self._descriptor = open_own(path)
            if self._taken(path):
                break
            os.close(self._descriptor)
            time.sleep(0.05)
        else:
            raise locked_error(path, what)
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
            return os.fstat(self._descriptor).st_ino == path.stat().st_ino  # and not one that was just removed
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:  # a file system without locks: that is no reason not to work
            say(f"{path} cannot be locked ({error.strerror}): see that one process writes here")
            return True

    def release(self) -> None:
        """Give the lock up."""
        os.close(self._descriptor)


def locked_error(path: Path, what: str) -> LockedError:
    """The error that names the process that holds a lock file; `what` it does there."""
    holder = _read_holder(path)
    who = "process {} on {} since {}".format(*(holder.get(key, "?") for key in ("pid", "host", "since")))
    return LockedError(f"{path.parent}: another process {what} here: {who}; wait for it to end or stop it")


def lock_holder(path: Path) -> dict[str, Any] | None:
    """Host, pid and since of the living process that holds this lock file; None if none does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # should it be a pipe
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


def _read_holder(path: Path) -> dict[str, Any]:
    """What the lock file says, or nothing while its holder is about to write it."""
    try:
        return dict(json.loads(read_text(path)))
    except (UnsafeFileError, OSError, ValueError, TypeError):
        return {}
