"""The folder in which a preparation is under way, and its stages."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.console import Progress
from nmt.files.write import replace_file
from nmt.tasks.task import Done, Engine, Json, Task, run_all


@dataclass(frozen=True)
class Sizes:
    """How the work is divided. None of it changes what is written, but for the size of a shard."""

    part_pairs: int = 1 << 17
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

    def stage(self, name: str, title: str, tasks: Sequence[Task], pairs: Callable[[Done], int]) -> list[Done]:
        """Do the tasks of a stage, all of whose names begin with its name; return them in order.

        title: for the progress bar. pairs: returns how many pairs a task has done, for that bar.
        """
        self.versions[name] = _digest([task.key for task in tasks])
        memo = self.folder / f"{name}.json"
        if memo.is_file():  # its files may have been removed
            document = json.loads(memo.read_bytes())
            if document["version"] == self.versions[name]:
                done = zip(tasks, document["summaries"], strict=True)
                return [Done(self.folder / task.name, summary) for task, summary in done]
        with Progress(title, None, "pairs") as progress:
            return run_all(self.engine, self.folder, tasks, lambda done: progress.add(pairs(done)))

    def remove(self, name: str, tasks: Sequence[Done]) -> None:
        """Remove the files of a stage that are needed no more, but for what tells that it is complete."""
        memo: Json = {"version": self.versions[name], "summaries": [done.summary for done in tasks]}
        replace_file(self.folder / f"{name}.json", json.dumps(memo))
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def version(self, *stages: str) -> str:
        """Return what identifies the outcome of stages, for tasks that read their files."""
        return _digest([self.versions[name] for name in stages])


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
