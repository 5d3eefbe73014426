"""A directory that appears whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from nmt.errors import DataError


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
        if old.exists():
            shutil.rmtree(old)
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
    staged.mkdir(exist_ok=True)
    lock = os.open(staged, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken = staged.exists() and os.fstat(lock).st_ino == staged.stat().st_ino
    except BlockingIOError:
        taken = False
    if not taken:
        os.close(lock)
        raise DataError(f"{staged}: another prepare is writing here; wait for it to end")
    for path in staged.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return lock


def _sync_tree(directory: Path) -> None:
    """Have everything on the disk before the directory gets its name."""
    for path in [*directory.rglob("*"), directory]:
        sync(path)


def sync(path: Path) -> None:
    """Have a file or the entries of a directory on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
