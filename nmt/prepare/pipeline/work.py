"""The folder in which a preparation is under way, and its stages."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from nmt.console import Progress
from nmt.files.write import replace_file
from nmt.process import return_freed_memory
from nmt.tasks.task import Done, Engine, Json, Task, run_all

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
        """Remove the files of a stage, which take much space and are needed no more, and keep its summaries."""
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


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
