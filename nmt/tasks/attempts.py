"""Tasks handed out to workers, which may die: a task that is lost with its worker is tried again."""

from __future__ import annotations

import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nmt.console import say
from nmt.errors import DataError, NmtError
from nmt.tasks.perform import perform, remove_remains
from nmt.tasks.task import Done, Task

MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Outcome:
    """What a worker reports of a task: it is done, or there was an error."""

    done: Done | None = None
    problem: str | None = None
    """What was wrong with the files that the task had before."""
    error: NmtError | str | None = None
    """An error for the user, or the traceback of any other."""


@dataclass(frozen=True)
class Lost:
    """A task whose worker has died."""

    reason: str
    """`its process was killed`, for messages."""


class Workers(Protocol):
    """Processes that do one task at a time each, here or on other machines."""

    @property
    def is_free(self) -> bool:
        """Whether a task can be started."""

    def start(self, index: int, work: Path, task: Task) -> None:
        """Start a task on a free worker."""

    def wait(self) -> list[tuple[int, Outcome | Lost]]:
        """Wait until a task has ended or was lost, or a worker is free; return the indices of those tasks."""

    def end_busy(self) -> None:
        """End the workers that do a task."""


def attempt(work: Path, task: Task) -> Outcome:
    """Do a task in a worker."""
    try:
        done, problem = perform(work, task)
    except NmtError as error:
        return Outcome(error=error)
    except Exception:
        return Outcome(error=traceback.format_exc())
    return Outcome(done, problem)


def run_on(workers: Workers, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
    """Do tasks on workers, as `Engine.run` does.

    Raises DataError for a task whose worker has died `MAX_ATTEMPTS` times, and the error of a task, which is not tried
    again; the workers that do others are ended.
    """
    remove_remains(work, tasks)
    waiting, attempts, n_running = deque(range(len(tasks))), Counter[int](), 0
    complete: list[tuple[int, Done]] = []
    try:
        while waiting or n_running or complete:
            while waiting and workers.is_free:
                index = waiting.popleft()
                workers.start(index, work, tasks[index])
                n_running += 1
            yield from complete  # while the workers go on
            complete = []
            ended = workers.wait() if n_running or waiting else []
            n_running -= len(ended)
            for index, outcome in ended:
                if isinstance(outcome, Lost):
                    attempts[index] += 1
                    _tell_lost(work / tasks[index].name, outcome, attempts[index])
                    waiting.appendleft(index)
                else:
                    complete.append((index, _done(outcome, tasks[index])))
    finally:
        if n_running:
            workers.end_busy()
        if n_running or attempts:
            remove_remains(work, tasks)


def _tell_lost(folder: Path, lost: Lost, n_attempts: int) -> None:
    if n_attempts == MAX_ATTEMPTS:
        raise DataError(
            f"{folder}: {lost.reason}, {MAX_ATTEMPTS} times; if the memory is too small, take fewer --workers"
        )
    say(f"{folder}: {lost.reason}; it is done again")


def _done(outcome: Outcome, task: Task) -> Done:
    """Return a task that is complete. Raises its error."""
    if isinstance(outcome.error, NmtError):
        raise outcome.error
    if outcome.error is not None:
        last = outcome.error.rstrip().rpartition("\n")[2]
        raise RuntimeError(f"task {task.name}: {last}") from RuntimeError(f"in a worker:\n{outcome.error}")
    if outcome.problem is not None:
        say(f"{outcome.problem}; it is done again")
    assert outcome.done is not None
    return outcome.done
