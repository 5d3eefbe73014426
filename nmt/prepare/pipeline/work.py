"""The work folder of a preparation: its stages, and the records of the rows that they drop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.console import Progress
from nmt.data.random_numbers import Hashes
from nmt.files.read import fingerprint_of
from nmt.files.write import staged, work_directory, writing
from nmt.layout import DataDir
from nmt.process import return_freed_memory
from nmt.tasks.perform import Done, Json, Task, TaskRunner, run_all
from nmt.text.profiles import Letters

SIDES: tuple[Literal[0], Literal[1]] = (0, 1)
"""The sides of a pair, in the alphabetical order of their languages."""

Rows: TypeAlias = npt.NDArray[np.int64]
Follows: TypeAlias = npt.NDArray[np.bool_]
"""Whether each pair of a corpus follows the one before it in its document; see `data.documents`."""


def part_folder(work: Path, stage: str, number: int) -> Path:
    """Return the folder for the files of a task, given its stage and number."""
    return work / stage / f"{number:05}"


class Drops(BaseModel):
    """The rows that earlier stages have dropped, given by the files that record them."""

    work: Path
    groups: list[tuple[str, str, int]] = []
    """Reason, stage and number of tasks; each task names rows of all parts."""
    is_judged: bool = False
    """Whether the stage `judge` has run, which has a task for each part."""

    def by_reason(self, part: int) -> dict[str, Rows]:
        """Return the dropped rows of a part by reason, in the order of the stages; each row occurs once."""
        by_reason = {}
        for reason, stage, n_tasks in self.groups:
            paths = [part_folder(self.work, stage, number) / "drops.npy" for number in range(n_tasks)]
            by_reason[reason] = np.sort(np.concatenate([_rows_of(path, part) for path in paths]))
        if self.is_judged:
            by_reason["misaligned"] = np.load(part_folder(self.work, "judge", part) / "misaligned.npy")
        return by_reason

    def rows(self) -> dict[int, Rows]:
        """Return the rows of duplicates by part, omitting parts without duplicates."""
        tables = [np.zeros((0, 2), np.uint32)]
        for _, stage, n_tasks in self.groups:
            tables += [np.load(part_folder(self.work, stage, number) / "drops.npy") for number in range(n_tasks)]
        table = np.concatenate(tables)
        table = table[np.argsort(table[:, 0], kind="stable")]
        parts, starts = np.unique(table[:, 0], return_index=True)
        rows = np.split(table[:, 1].astype(np.int64), starts[1:])
        return dict(zip(parts.tolist(), rows, strict=False))  # an empty table is split into one empty part

    def left(self, part: int, n_rows: int) -> Rows:
        """Return the remaining rows of a part with `n_rows` rows."""
        is_left = np.ones(n_rows, np.bool_)
        for rows in self.by_reason(part).values():
            is_left[rows] = False
        return np.flatnonzero(is_left)


def rows_in_range(keys: Hashes, number: int, n_ranges: int) -> slice:
    """Return the rows of sorted keys (N,) in one of the equal ranges into which all 64-bit numbers are divided."""
    start = (number << 64) // n_ranges
    stop = ((number + 1) << 64) // n_ranges
    end = np.searchsorted(keys, np.uint64(stop - 1), side="right")
    return slice(int(np.searchsorted(keys, np.uint64(start))), int(end))


def write_drops(path: Path, drops: Mapping[int, Rows]) -> None:
    """Write the dropped rows of each part."""
    tables = [np.zeros((0, 2), np.uint32)]
    for part, rows in sorted(drops.items()):
        tables.append(np.stack([np.full(len(rows), part), rows], axis=1).astype(np.uint32))
    np.save(path, np.concatenate(tables))


def _rows_of(path: Path, part: int) -> Rows:
    table = _table(path, path.stat().st_mtime_ns)
    start, end = np.searchsorted(table[:, 0], [part, part + 1])
    return table[start:end, 1].astype(np.int64)


@lru_cache(maxsize=256)
def _table(path: Path, modified: int) -> npt.NDArray[np.uint32]:
    """Map a file of drops into memory; `modified` is the time of its last change."""
    del modified
    table: npt.NDArray[np.uint32] = np.load(path, mmap_mode="r")
    return table


@dataclass(frozen=True)
class Sizes:
    """The sizes of the units into which the work is divided. Only the size of a shard has an effect on the data
    directory, and with `data.documents` also the size of a part.
    """

    part_pairs: int = 1 << 16
    """Pairs per part, at the end of which a document ends."""
    bucket_pairs: int = 1 << 22
    """Pairs whose hashes are compared at a time."""
    shard_pairs: int = 1 << 20
    """Approximate number of pairs per shard; a training text of at most this size is a single file."""


SIZES = Sizes()
"""The default division."""


@dataclass
class Work:
    """The work folder of a preparation, and the engine that runs its tasks. Finished tasks are not repeated."""

    folder: Path
    engine: TaskRunner
    sizes: Sizes
    versions: dict[str, str] = field(default_factory=dict)
    """By stage so far, a digest of everything that determines its result."""
    letters: Letters = field(default_factory=dict)
    """The forms of letters in which the stage `settle` writes the text of pairs, and `mono` the text of a language."""
    _n_tasks: dict[str, int] = field(default_factory=dict)

    def run_stage(
        self,
        name: str,
        title: str,
        function: Callable[[Path, Any], Json],
        arguments: Iterable[BaseModel],
        version: str = "",
        total: int | None = None,
    ) -> list[Done]:
        """Run a stage, which has one task for each of the `arguments`, and return the results in order.

        A stage that has been run before is continued: its new tasks have the next numbers.

        Args:
            title: the label of the progress bar.
            function: writes the result of a task into a folder, and returns its summary, in which `pairs` counts what
                was done.
            version: see `Task.version`.
            total: the number of pairs for the progress bar, if known.
        """
        first = self._n_tasks.get(name, 0)
        numbered = enumerate(arguments, start=first)
        tasks = [Task(f"{name}/{number:05}", function, argument, version) for number, argument in numbered]
        keys = [task.key for task in tasks]
        if first:
            keys.insert(0, self.versions[name])
        self.versions[name], self._n_tasks[name] = _digest(keys), first + len(tasks)
        return_freed_memory()  # of earlier stages in this process: workers need memory now
        with Progress(title, total, "pairs") as progress:
            return run_all(self.engine, self.folder, tasks, lambda done: progress.add(done.summary["pairs"]))

    def version(self, *stages: str) -> str:
        """Return a digest of everything that determines the results of stages, for tasks that read their files."""
        return _digest([self.versions[name] for name in stages])


@contextmanager
def building(data_dir: Path) -> Iterator[tuple[Path, DataDir]]:
    """Yield a work folder for a data directory, and the directory that replaces it if the block succeeds.

    Both are hidden folders beside it. Raises DataError if they cannot be written, LockedError if another process
    prepares the same directory.
    """
    final = data_dir.resolve()
    work, part = (final.with_name(f".{final.name}.{suffix}") for suffix in ("work", "partial"))
    with writing(data_dir), work_directory(work, "prepares") as folder, staged(final, part, is_directory=True):
        yield folder, DataDir(part)


def _digest(parts: Sequence[str]) -> str:
    return fingerprint_of(" ".join(parts).encode())


# --- documents ------------------------------------------------------------------------------------

DOCUMENT_BLOCK = 64
"""Longer documents are divided into blocks of this many pairs, which are held out and shuffled as documents are."""


def follows(lines: Rows, documents: Rows) -> Follows:
    """Return whether each pair (N,) follows the one before it, given line numbers and numbers of documents (N,).

    Pairs follow each other if they have consecutive line numbers in one document: a pair that was dropped between them,
    such as a blank line, separates them.
    """
    return np.append(False, (np.diff(lines) == 1) & (np.diff(documents) == 0))[: len(lines)]


def block_starts(follows: Follows) -> Rows:
    """Return the index of the first pair of the block of each pair (N,)."""
    index = np.arange(len(follows))
    first: Rows = np.maximum.accumulate(np.where(follows, 0, index))
    return first + (index - first) // DOCUMENT_BLOCK * DOCUMENT_BLOCK
