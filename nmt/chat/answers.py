"""The answers of a language model in an SQLite file, each of which is kept as soon as it arrives."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from nmt.errors import DataError

UNPLACED = "unplaced"
"""The end of an answer to several lines that could not be divided: the line is asked again, alone."""
REFUSED = "refused"
"""The end of an answer that is an error of the server."""


class Content(NamedTuple):
    """What a model has written for a line."""

    text: str
    end: str
    """`finish_reason` of the protocol, `UNPLACED` or `REFUSED`."""


class Usage(NamedTuple):
    """The model as the server names it, and the number of tokens that it has read and written."""

    model: str = ""
    read: int = 0
    written: int = 0
    is_estimated: bool = False
    """Whether the server does not count tokens."""


class Totals(NamedTuple):
    """Sums over all requests."""

    models: str
    """The names of the models, separated by commas."""
    dates: str
    """The dates (UTC) of the first and the last request, or the only one."""
    n_requests: int
    read: int
    written: int
    is_estimated: bool


class Answers:
    """A file with the answers to lines, by line and number of the question (from 0)."""

    def __init__(self, path: Path | str) -> None:
        """Open the file, or create it; `:memory:` keeps nothing. Raises DataError if it cannot be written or read."""
        self._path = path
        with self._errors():
            self._file = sqlite3.connect(path)
            # without shared memory, which network file systems lack; the recipe's lock admits one process
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS answers"
                "(line TEXT, number INTEGER, text TEXT, end TEXT, PRIMARY KEY (line, number)) WITHOUT ROWID"
            )
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS requests"
                "(model TEXT, read INTEGER, written INTEGER, is_estimated INTEGER, date TEXT)"
            )

    def keep(self, number: int, contents: dict[str, Content], usage: Usage | None) -> None:
        """Keep the answers to the question of this number about lines, and what they have cost. Raises DataError."""
        with self._errors(), self._file:
            rows = [(line, number, *content) for line, content in contents.items()]
            self._file.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", rows)
            if usage is not None:
                today = datetime.now(UTC).date().isoformat()
                self._file.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (*usage, today))

    def of(self, line: str) -> dict[int, Content]:
        """Return the answers about a line, by number. Raises DataError."""
        with self._errors():
            rows = self._file.execute("SELECT number, text, end FROM answers WHERE line = ? ORDER BY number", (line,))
            return {number: Content(text, end) for number, text, end in rows}

    def totals(self) -> Totals:
        """Return the sums over all requests so far. Raises DataError."""
        with self._errors():
            models = [row[0] for row in self._file.execute("SELECT DISTINCT model FROM requests ORDER BY rowid")]
            first, last, n, read, written, is_estimated = self._file.execute(
                "SELECT MIN(date), MAX(date), COUNT(*), TOTAL(read), TOTAL(written), TOTAL(is_estimated) FROM requests"
            ).fetchone()
        dates = first if first == last else f"{first} to {last}"
        return Totals(", ".join(models), dates or "", n, int(read), int(written), bool(is_estimated))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(f"{self._path}: the answers of the model cannot be kept or read: {error}") from error
