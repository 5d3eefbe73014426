"""Directories that appear when they are complete, and what is kept of work that was interrupted."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.console import say
from nmt.errors import DataError
from nmt.files.read import refuse_links, remove_tree
from nmt.files.write import sync

KEPT_AFTER = 60.0
"""Seconds of work from which on it is kept when it fails or is stopped."""


@contextmanager
def work_directory(final: Path) -> Iterator[Path]:
    """Yield a directory beside `final` for the work on it, which is removed when that is done.

    What another process left there that was killed is still in it; so is what was done in `KEPT_AFTER` seconds or more
    when the block fails. It is locked. Raises DataError if it cannot be written, or another process works there.
    """
    final = final.resolve()
    work = final.parent / f".{final.name}.work"
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        lock = _take(work)
    except OSError as error:
        raise DataError(f"{final.parent}: cannot be written: {error.strerror}") from error
    start = time.monotonic()
    is_kept = False
    try:
        yield work
    except BaseException as error:
        is_kept = time.monotonic() - start >= KEPT_AFTER
        if isinstance(error, OSError):
            raise DataError(f"{final}: cannot be written: {error.strerror or error}") from error
        raise
    finally:
        if is_kept:
            say(f"what is done is kept in {work}: the same command goes on from there; remove it to free the disk")
        else:
            shutil.rmtree(work, ignore_errors=True)
        os.close(lock)


@contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """Yield an empty directory beside `final`, which replaces `final` if the block succeeds.

    It is locked while its writer lives: the remains of a killed writer are recognised and removed, and a second
    concurrent writer is refused. Raises DataError if it cannot be written.
    """
    final = final.resolve()
    staged, old = (final.parent / f".{final.name}.{suffix}" for suffix in ("partial", "old"))
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        lock = _take(staged)
        _empty(staged)
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
    """Create or take over a directory and lock it. Returns the file descriptor that holds the lock."""
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
    return lock


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        remove_tree(path) if path.is_dir() else path.unlink()


def _sync_tree(directory: Path) -> None:
    """Sync everything to disk, before the directory gets its name."""
    for path in [*directory.rglob("*"), directory]:
        sync(path)
