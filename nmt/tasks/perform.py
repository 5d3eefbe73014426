"""Tasks: pure functions that write files into a folder of their own, which gets its name when they are done.

A task that has a valid record is not done again, whoever did it: another worker, or a driver that was stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from nmt.errors import DataError
from nmt.files.document import Sealed, read_document, sealed_text
from nmt.files.read import checksum, checksums_in
from nmt.files.write import open_output, staged, write_file

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


TEXT = "text"
"""The file of a task that translates."""


def join(done: Iterable[Done], target: Path) -> None:
    """Write the texts of tasks into one file, in order; their summaries have the number of `rows`. Raises DataError."""
    with open_output(target) as out:
        for each in done:
            text = (each.folder / TEXT).read_bytes()
            if text.count(b"\n") != each.summary["rows"]:
                raise DataError(f"{each.folder}: damaged while in use; run the command again to redo this part")
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
    """Do a task unless it is done; return it, and what was wrong with the files that it had before, if anything.

    Two processes may do the same task at once: the second finds it done. Raises DataError if something cannot be read
    or written, and what the task raises.
    """
    final = work / task.name
    done, problem = _finished(final, task.key)
    if done is not None:
        return done, None
    part = final.with_name(f"{final.name}.part-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with staged(final, part, True, lambda: _finished(final, task.key)[0] is not None):
            summary: Json = json.loads(json.dumps(task.function(part, dict(task.arguments))))
            content = {"format": _FORMAT, "key": task.key, "summary": summary, "checksums": checksums_in(part)}
            write_file(part / RECORD, sealed_text(content).encode())
    except OSError as error:
        raise DataError(f"{error.filename or final}: {error.strerror or error}") from error
    return Done(final, summary), problem


def remove_remains(work: Path, tasks: Iterable[Task]) -> None:
    """Remove what workers left that died while they did tasks like these."""
    for folder in {(work / task.name).parent for task in tasks}:
        for path in folder.glob("*.part-*"):
            shutil.rmtree(path, ignore_errors=True)


def _finished(folder: Path, key: str) -> tuple[Done | None, str | None]:
    """Return a finished task if all its files are there and undamaged, else what is wrong with them."""
    try:
        record = read_document(folder / RECORD, _Record, DataError, formats=(_FORMAT,))
    except FileNotFoundError:
        return None, f"{folder}: has no {RECORD}" if folder.exists() else None
    except DataError as error:
        return None, str(error)
    if record.key != key:  # of other settings, or of files that have changed
        return None, None
    for name, expected in record.checksums.items():
        try:
            is_whole = checksum(folder / name) == expected
        except DataError:
            is_whole = False
        if not is_whole:
            return None, f"{folder / name}: missing, or not what was written"
    return Done(folder, record.summary), None
