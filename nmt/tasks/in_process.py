"""Run tasks one after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.console import say
from nmt.tasks.perform import perform, remove_remains
from nmt.tasks.task import Done, Task


class InProcess:
    """Runs tasks one after the other in this process."""

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """Do the tasks that are not done yet; yield each with its index."""
        remove_remains(work, tasks)
        for index, task in enumerate(tasks):
            done, problem = perform(work, task)
            if problem is not None:
                say(f"{problem}; it is done again")
            yield index, done
