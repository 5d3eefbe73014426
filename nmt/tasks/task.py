"""Tasks: pure functions that write files into a folder of their own, which gets its name when they are complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

Json: TypeAlias = dict[str, object]
"""What `json.dumps` takes and `json.loads` gives."""


@dataclass(frozen=True)
class Task:
    """A call of a function that has no effect but the files that it writes."""

    name: str
    """Where the files go, relative to the folder of work: `clean/00003`."""
    function: Callable[[Path, Json], Json]
    """A function of a module, called with an empty folder for its files and the arguments. Returns a summary. Its files
    and its summary are the same whenever, wherever and however often it is called."""
    arguments: Mapping[str, object]
    """Plain values, such as those of JSON."""
    version: str = ""
    """Identifies what else determines the outcome, such as the content of the files that are read."""

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that change if the task would write something else."""
        function = f"{self.function.__module__}.{self.function.__qualname__}"
        text = json.dumps([function, self.arguments, self.version], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Done:
    """A task that is complete."""

    folder: Path
    """The folder with its files."""
    summary: Json


class Engine(Protocol):
    """Runs tasks."""

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """Do the tasks that are not done yet; yield each with its index, in any order, as it becomes complete.

        An exception of a task is raised here, and no further task is started.
        """


def run_all(
    engine: Engine, work: Path, tasks: Sequence[Task], on_done: Callable[[Done], None] | None = None
) -> list[Done]:
    """Run tasks; return them in order. `on_done` is called as each becomes complete, in any order."""
    results: dict[int, Done] = {}
    for index, done in engine.run(work, tasks):
        results[index] = done
        if on_done is not None:
            on_done(done)
    return [results[index] for index in range(len(tasks))]
