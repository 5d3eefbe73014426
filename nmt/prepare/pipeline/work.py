"""The folder in which a preparation is under way: its stages, and the files that they exchange."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.console import Progress
from nmt.files.write import replace_file, staged, work_directory, writing
from nmt.layout import DataDir
from nmt.process import return_freed_memory
from nmt.tasks.perform import Done, Engine, Json, Task, run_all

SIDES: tuple[Literal[0], Literal[1]] = (0, 1)
"""The sides of a pair, in the alphabetical order of their languages."""

Rows: TypeAlias = npt.NDArray[np.int64]


def write_side(folder: Path, side: int, lines: Sequence[str]) -> None:
    """Write one side of the pairs of a part."""
    with (folder / f"text.{side}").open("wb") as file:
        if lines:
            file.write("\n".join(lines).encode())
            file.write(b"\n")


def read_side(folder: Path, side: int) -> list[str]:
    """Read one side of the pairs of a part."""
    return (folder / f"text.{side}").read_bytes().decode().split("\n")[:-1]


def part_folder(work: str | Path, stage: str, number: int) -> Path:
    """Return the folder of a task of a stage."""
    return Path(work) / stage / f"{number:05}"


class Drops(BaseModel):
    """The files in which earlier stages have recorded the dropped rows."""

    work: str
    groups: list[tuple[str, str, int]] = []
    """Reason, stage and number of tasks; each task names rows of all parts."""
    is_judged: bool = False
    """Whether the stage `judge` has found misaligned rows; it has a task for each part that was judged."""

    def by_reason(self, part: int) -> dict[str, Rows]:
        """Return the rows of a part by reason, in the order in which they were dropped; each row once."""
        found = {}
        for reason, stage, n_tasks in self.groups:
            folders = [part_folder(self.work, stage, number) for number in range(n_tasks)]
            found[reason] = np.sort(np.concatenate([_rows_of(folder / "drops.npy", part) for folder in folders]))
        if self.is_judged and (path := part_folder(self.work, "judge", part) / "misaligned.npy").exists():
            found["misaligned"] = np.load(path)
        return found

    def rows(self) -> dict[int, Rows]:
        """Return the rows that groups have dropped, by part; parts without are left out."""
        folders = [part_folder(self.work, stage, number) for _, stage, n in self.groups for number in range(n)]
        table = np.concatenate([np.zeros((0, 2), np.uint32), *(np.load(folder / "drops.npy") for folder in folders)])
        table = table[np.argsort(table[:, 0], kind="stable")]
        parts, starts = np.unique(table[:, 0], return_index=True)
        rows = np.split(table[:, 1].astype(np.int64), starts[1:])
        return dict(zip(parts.tolist(), rows, strict=False))  # an empty table is split into one empty part

    def left(self, part: int, n_rows: int) -> Rows:
        """Return the remaining rows of a part of `n_rows`."""
        is_left = np.ones(n_rows, np.bool_)
        for rows in self.by_reason(part).values():
            is_left[rows] = False
        return np.flatnonzero(is_left)


def write_drops(path: Path, drops: Mapping[int, Rows]) -> None:
    """Write which rows of which parts are dropped."""
    table = np.empty((sum(map(len, drops.values())), 2), np.uint32)
    table[:, 0] = np.repeat(sorted(drops), [len(drops[part]) for part in sorted(drops)])
    table[:, 1] = np.concatenate([np.zeros(0, np.int64), *(drops[part] for part in sorted(drops))])
    np.save(path, table)


def _rows_of(path: Path, part: int) -> Rows:
    table = _table(path, path.stat().st_mtime_ns)
    start, end = np.searchsorted(table[:, 0], [part, part + 1])
    rows: Rows = table[start:end, 1].astype(np.int64)
    return rows


@lru_cache(maxsize=256)
def _table(path: Path, modified: int) -> npt.NDArray[np.uint32]:
    """Map a file of drops; `modified` is when that was."""
    del modified
    table: npt.NDArray[np.uint32] = np.load(path, mmap_mode="r")
    return table


def pick(lines: Sequence[str], rows: Iterable[int]) -> list[str]:
    """Return these lines."""
    return [lines[row] for row in rows]


_MEMO = ".done.json"


@dataclass(frozen=True)
class Sizes:
    """How the work is divided. None of it changes what is written, but for the size of a shard."""

    part_pairs: int = 1 << 16
    """Pairs of a part."""
    bucket_pairs: int = 1 << 22
    """Pairs whose hashes are compared at a time."""
    shard_pairs: int = 1 << 20
    """Pairs of a shard, about; a training text of at most so many pairs is one file."""


SIZES = Sizes()
"""The usual division."""


@dataclass
class Work:
    """The folder in which a preparation is under way. Stages that are complete are not done again."""

    folder: Path
    engine: Engine
    sizes: Sizes
    versions: dict[str, str] = field(default_factory=dict)
    """What identifies the outcome of each stage so far."""
    lacks_files: bool = False
    """Whether a stage was found complete whose files had been removed."""

    def stage(
        self, name: str, title: str, tasks: Sequence[Task], pairs: Callable[[Done], int], total: int | None = None
    ) -> list[Done]:
        """Do the tasks of a stage, all of whose names begin with its name; return them in order.

        title: for the progress bar. pairs: returns how many pairs a task has done, for that bar; of `total`, if known.
        """
        self.versions[name] = _digest([task.key for task in tasks])
        memo = self._memo(name)
        if memo is not None and memo["version"] == self.versions[name]:
            self.lacks_files = True
            summaries = cast(list[Json], memo["summaries"])
            return [Done(self.folder / task.name, summary) for task, summary in zip(tasks, summaries, strict=True)]
        return_freed_memory()  # that of planning, and of a large task in this process: workers need memory now
        with Progress(title, total, "pairs") as progress:
            return run_all(self.engine, self.folder, tasks, lambda done: progress.add(pairs(done)))

    def remove(self, name: str, tasks: Sequence[Done]) -> None:
        """Remove the files of a stage, which are large and no longer needed, and keep its summaries."""
        memo: Json = {"version": self.versions[name], "summaries": [done.summary for done in tasks]}
        replace_file(self.folder / f"{name}{_MEMO}", json.dumps(memo))
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def do_again(self) -> bool:
        """Forget that stages were complete whose files were removed, so that they are done again.

        A later stage may need their files after all, if its own are damaged. Returns False if there are none.
        """
        lacked, self.lacks_files = self.lacks_files, False
        for memo in self.folder.glob(f"*{_MEMO}"):
            memo.unlink()
        return lacked

    def _memo(self, name: str) -> Json | None:
        try:
            return cast(Json, json.loads((self.folder / f"{name}{_MEMO}").read_bytes()))
        except (OSError, ValueError):
            return None

    def version(self, *stages: str) -> str:
        """Return what identifies the outcome of stages, for tasks that read their files."""
        return _digest([self.versions[name] for name in stages])


@contextmanager
def building(data_dir: Path) -> Iterator[tuple[Path, DataDir]]:
    """Yield a folder for the work on a data directory, and the directory that replaces it if the block succeeds.

    Both are beside it, hidden. Raises DataError if they cannot be written, LockedError if another process prepares it.
    """
    final = data_dir.resolve()
    work, part = (final.with_name(f".{final.name}.{suffix}") for suffix in ("work", "partial"))
    with writing(data_dir), work_directory(work, "prepares") as folder, staged(final, part, is_directory=True):
        yield folder, DataDir(part)


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
