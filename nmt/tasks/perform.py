"""Tasks, which are pure functions that write files into a folder of their own.

The folder gets its final name when the task is done. A task with a valid record is not repeated, even after the process
that started it was stopped. A task that is lost with its worker is retried.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel

from nmt.console import say
from nmt.errors import DataError, NmtError
from nmt.files.document import Sealed, read_document, sealed_text
from nmt.files.read import checksum, checksums_in
from nmt.files.write import open_output, staged, write_file, write_problem

Json: TypeAlias = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True)
class Task:
    """A call of a function whose only effect is the files that it writes."""

    name: str
    """Where the files go, relative to the work folder: `clean/00003`."""
    function: Callable[[Path, Any], Json]
    """A function of a module, called with an empty folder for its files and with the arguments. It returns a summary.
    Its files and its summary must be the same in every call."""
    arguments: BaseModel | Mapping[str, Any]
    """A model, or plain values that JSON can hold. The function must not change it."""
    version: str = ""
    """Identifies everything else that determines the result, such as the content of input files."""

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that change with the function, its arguments or the version."""
        function = f"{self.function.__module__}.{self.function.__qualname__}"
        plain = self.arguments.model_dump(mode="json") if isinstance(self.arguments, BaseModel) else self.arguments
        text = json.dumps([function, plain, self.version], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Done:
    """The result of a finished task."""

    folder: Path
    """The folder with its files."""
    summary: Json


class TaskRunner(Protocol):
    """The interface of what runs tasks: this process, several processes, or a Ray cluster."""

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """Run the tasks that are not done yet, and yield the index and result of every task, in any order.

        An exception of a task is raised here, and no further task is started.
        """


def run_all(
    runner: TaskRunner, work: Path, tasks: Sequence[Task], on_done: Callable[[Done], None] | None = None
) -> list[Done]:
    """Run tasks and return their results in order. `on_done` is called with each result, in any order."""
    results = {}
    for index, done in runner.run(work, tasks):
        results[index] = done
        if on_done is not None:
            on_done(done)
    return [results[index] for index in range(len(tasks))]


TEXT = "text"
"""The name of the file that a translating task writes."""


def join(done: Iterable[Done], target: Path) -> None:
    """Concatenate the text files of tasks, in order.

    Raises DataError if a file does not have as many lines as `rows` in the summary of its task.
    """
    with open_output(target) as out:
        for part in done:
            text = (part.folder / TEXT).read_bytes()
            if text.count(b"\n") != part.summary["rows"]:
                raise DataError(f"{part.folder}: damaged while in use; run the command again to redo this part")
            out.write(text)


RECORD = "record.json"
_FORMAT = 2


class _Record(Sealed):
    """The record of the files that a task has written."""

    key: str
    summary: dict[str, object]
    checksums: dict[str, str]
    """SHA-256 of its files, by name."""


def perform(work: Path, task: Task) -> tuple[Done, str | None]:
    """Run a task unless it is done. Return its result, and the problem with its earlier files, if any.

    Two processes may do the same task at once: the second one keeps the files of the first. Raises DataError if a file
    cannot be read or written, and every exception of the task.
    """
    final = work / task.name
    key = task.key
    done, problem = _finished(final, key)
    if done is not None:
        return done, None
    part = final.with_name(f"{final.name}.part-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with staged(final, part, True, lambda: _finished(final, key)[0] is not None):
            summary: Json = json.loads(json.dumps(task.function(part, task.arguments)))
            content = {"format": _FORMAT, "key": key, "summary": summary, "checksums": checksums_in(part)}
            write_file(part / RECORD, sealed_text(content).encode())
    except OSError as error:
        raise DataError(f"{error.filename or final}: {write_problem(error)}") from error
    return Done(final, summary), problem


def remove_remains(work: Path, tasks: Iterable[Task]) -> None:
    """Remove the partial folders that dead workers left beside the folders of these tasks."""
    for folder in {(work / task.name).parent for task in tasks}:
        for path in folder.glob("*.part-*"):
            shutil.rmtree(path, ignore_errors=True)


def _finished(folder: Path, key: str) -> tuple[Done | None, str | None]:
    """Return the result of a task if all its files exist and are undamaged, or else the problem."""
    try:
        record = read_document(folder / RECORD, _Record, DataError, formats=(_FORMAT,))
    except FileNotFoundError:
        return None, f"{folder}: has no {RECORD}" if folder.exists() else None
    except DataError as error:
        return None, str(error)
    if record.key != key:  # made with other settings or from other files
        return None, None
    for name, expected in record.checksums.items():
        try:
            is_whole = checksum(folder / name) == expected
        except DataError:
            is_whole = False
        if not is_whole:
            return None, f"{folder / name}: missing, or not what was written"
    return Done(folder, record.summary), None


# --- on workers --------------------------------------------------------------------------------------

MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Attempt:
    """The outcome of a task in a worker: its result, its error, or the reason why it was lost."""

    done: Done | None = None
    problem: str | None = None
    """The problem with the earlier files of the task, if there was one."""
    error: NmtError | str | None = None
    """An error for the user, or the traceback of any other exception."""
    lost: str | None = None
    """Why the worker has died, such as `its process was killed`."""


class Workers(Protocol):
    """The interface of a group of worker processes, each of which runs one task at a time."""

    @property
    def is_free(self) -> bool:
        """Whether a worker is free."""

    def start(self, index: int, work: Path, task: Task) -> None:
        """Start a task on a free worker."""

    def wait(self) -> list[tuple[int, Attempt]]:
        """Wait until a task has ended or been lost, or a worker has started; return the attempts by index of the
        task."""

    def end_busy(self) -> None:
        """End the workers that are running a task."""


def attempt(work: Path, task: Task) -> Attempt:
    """Run a task in a worker, and return its result or error."""
    try:
        done, problem = perform(work, task)
    except NmtError as error:
        return Attempt(error=error)
    except Exception:
        return Attempt(error=traceback.format_exc())
    return Attempt(done, problem)


def run_on(workers: Workers, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
    """Run tasks on workers; see `TaskRunner.run`.

    Raises DataError for a task whose worker has died `MAX_ATTEMPTS` times, and the error of a task, which is not
    retried. Both end all busy workers.
    """
    remove_remains(work, tasks)
    waiting = deque(range(len(tasks)))
    n_lost = Counter[int]()
    n_running = 0
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
                if outcome.lost is None:
                    complete.append((index, _done(outcome, tasks[index])))
                    continue
                n_lost[index] += 1
                reason = f"{work / tasks[index].name}: {outcome.lost}"
                if n_lost[index] == MAX_ATTEMPTS:
                    raise DataError(f"{reason}, {MAX_ATTEMPTS} times; if memory is low, use fewer --workers")
                say(f"{reason}; retrying")
                waiting.appendleft(index)
    finally:
        if n_running:
            workers.end_busy()
        if n_running or n_lost:
            remove_remains(work, tasks)


def _done(outcome: Attempt, task: Task) -> Done:
    """Return the result of a task. Raises its error."""
    if isinstance(outcome.error, NmtError):
        raise outcome.error
    if outcome.error is not None:
        last = outcome.error.rstrip().rpartition("\n")[2]
        raise RuntimeError(f"task {task.name}: {last}") from RuntimeError(f"in a worker:\n{outcome.error}")
    if outcome.problem is not None:
        say(f"{outcome.problem}; retrying")
    assert outcome.done is not None
    return outcome.done
