"""A disk that is watched: every state in which a death would leave it; and one that is full for a while."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import threading
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import pytest

CHANGES = ("open", "write", "pwrite", "fsync", "ftruncate", "mkdir", "rename", "replace", "unlink", "rmdir")
Before = Callable[[str, Any, Any], None]


def hook(patch: pytest.MonkeyPatch, before: Before) -> None:
    """Have `before(operation, path, second argument)` called before the main thread, or the one that saves,
    changes the disk: by the functions of `os` that pathlib, shutil and nmt.files.write use, and by files that are
    opened to be written."""
    is_inside = False

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **options: Any) -> Any:
            nonlocal is_inside
            thread = threading.current_thread()
            if is_inside or not (thread is threading.main_thread() or thread.name.startswith("nmt saves")):
                return real(first, *rest, **options)
            is_inside = True  # what `before` itself does is not watched
            try:
                second = rest[0] if rest else None
                path = Path(_placed(name, f"/proc/self/fd/{first}" if isinstance(first, int) else first, options))
                path = path.readlink() if isinstance(first, int) else path
                before(name, path, _placed(name, second, options, "dst_dir_fd"))
            finally:
                is_inside = False
            return real(first, *rest, **options)

        return call

    for name in CHANGES:
        patch.setattr(os, name, watched(name, getattr(os, name)))
    written, read = watched("io.open", io.open), io.open
    # io.open is also what reads: only a mode that writes is a change
    patch.setattr(io, "open", lambda file, mode="r", *rest, **options: (
        read if mode.startswith("r") and "+" not in mode else written)(file, mode, *rest, **options))  # fmt: skip


def steps_of(patch: pytest.MonkeyPatch, action: Callable[[], object]) -> list[str]:
    """What an action does to the disk, in order."""
    steps: list[str] = []

    def note(name: str, first: Any, second: Any) -> None:
        steps.append(f"{name} {first.name}" + (f" {Path(second).name}" if name in ("rename", "replace") else ""))

    with patch.context() as inner:
        hook(inner, note)
        action()
    return steps


def _placed(name: str, what: Any, options: dict[str, Any], *of_target: str) -> Any:
    """A name within an open directory as a path; but what shutil.rmtree removes stays a name."""
    folder = next((options[key] for key in of_target or ("dir_fd", "src_dir_fd") if options.get(key) is not None), None)
    if folder is None or not isinstance(what, str) or name in ("unlink", "rmdir"):
        return what
    return str(Path(f"/proc/self/fd/{folder}").readlink() / what)


class Deaths:
    """Copies of a directory as a death at any moment would leave it, those that are alike once.

    `killed`: the process dies before an operation, or half-way through a write. `power`: the machine dies; what was
    not synced is gone, that is the end of a file and the name that a file or directory was given last.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        watched: Path,
        copies: Path,
        at: Container[int] | None = None,
        each_once: bool = False,
    ) -> None:
        """`at`: the numbers of the operations before which it may die, from 1; any by default. `each_once`: of deaths
        before the same operation on files of the same name, only the first."""
        self.watched, self.copies, self.at, self.each_once = watched, copies, at, each_once
        self.killed: dict[Path, str] = {}
        self.power: dict[Path, str] = {}
        self.operations: list[str] = []
        self._seen: set[str] = set()
        # the length up to which a file is surely on the disk, by inode
        self._synced = {path.stat().st_ino: path.stat().st_size for path in watched.rglob("*") if path.is_file()}
        self._renamed: list[tuple[Path, Path, bytes | None]] = []
        hook(patch, self._before)

    def _before(self, name: str, path: Path, second: Any) -> None:
        if not path.is_absolute() or not path.is_relative_to(self.watched):
            if name not in ("unlink", "rmdir", "open"):  # shutil.rmtree names files within an open directory
                return
            path = Path(name)
        elif name != "open":
            self.operations.append(f"{name} {path.relative_to(self.watched)}")
        if self.at is None or len(self.operations) in self.at:
            what = f"{name} {path.name}"
            self._copy(self.killed, what)
            if name in ("write", "pwrite"):
                self._copy(self.killed, f"half of {what}", lambda copy: self._tear(copy, path, second))
            self._copy(self.power, what, self._lose)
        self._note(name, path, second)

    def _copy(self, kept: dict[Path, str], what: str, change: Callable[[Path], None] = lambda _: None) -> None:
        copy = self.copies / f"{len(self._seen):04d}"
        is_known = self.each_once and any(moment.startswith(f"{what}, ") for moment in kept.values())
        if self.watched.exists() and not is_known:
            shutil.copytree(self.watched, copy)
            change(copy)
            digest = hashlib.sha256()
            for path in sorted(copy.rglob("*")):
                digest.update(f"{path.relative_to(copy)} {path.is_dir()}\0".encode())
                digest.update(b"" if path.is_dir() or path.name == "lock" else path.read_bytes())
            if digest.hexdigest() not in self._seen:
                self._seen.add(digest.hexdigest())
                kept[copy] = f"{what}, operation {len(self.operations)}"
                return
            shutil.rmtree(copy)

    def _tear(self, copy: Path, path: Path, data: bytes) -> None:
        with (copy / path.relative_to(self.watched)).open("ab") as file:  # all writes are at a file's end
            file.write(data[: len(data) // 2])

    def _lose(self, copy: Path) -> None:
        for path in self.watched.rglob("*"):
            length = self._synced.get(path.stat().st_ino, 0)
            if path.is_file() and length < path.stat().st_size:
                os.truncate(copy / path.relative_to(self.watched), length)
        for source, target, old in reversed(self._renamed):
            before, now = (copy / path.relative_to(self.watched) for path in (source, target))
            if now.exists() and not before.exists():  # else it was not renamed, as something was in the way
                now.rename(before)
            if old is not None:
                now.write_bytes(old)

    def _note(self, name: str, path: Path, second: Any) -> None:
        if name in ("write", "pwrite"):
            stat = path.stat()
            self._synced[stat.st_ino] = min(stat.st_size, self._synced.get(stat.st_ino, 0))
        elif name == "fsync":
            self._synced[path.stat().st_ino] = path.stat().st_size
            self._renamed = [each for each in self._renamed if each[1].parent != path]
        elif name in ("rename", "replace"):
            target = Path(second)
            self._renamed.append((path, target, target.read_bytes() if target.is_file() else None))


class Full:
    """A disk that is full from operation number `first` on, for a number of operations."""

    def __init__(self, patch: pytest.MonkeyPatch, watched: Path, first: int, n: int) -> None:
        self.first, self.n, self.watched = first, n, watched
        self.n_operations = self.n_refused = 0
        hook(patch, self._before)

    def _before(self, name: str, path: Path, _: Any) -> None:
        if name in ("unlink", "rmdir", "ftruncate", "open") or not path.is_relative_to(self.watched):
            return  # these need no room
        self.n_operations += 1
        if self.first <= self.n_operations < self.first + self.n:
            self.n_refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
