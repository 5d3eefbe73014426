"""The answers of a language model in an SQLite file, each of which is kept as soon as it arrives."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

UNPLACED = "unplaced"
"""The end of an answer to several lines that could not be divided: each line is asked again, alone."""
REFUSED = "refused"
"""The end of an answer that is an error of the server."""
# the lock is not in shared memory, which network file systems lack; the recipe's lock admits only one process
_SCHEMA = """
PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS answers(line, number, text, end, model, read, written, date);
CREATE INDEX IF NOT EXISTS by_line ON answers(line);
"""


class Answer(NamedTuple):
    """The answer of a model to a question about a line."""

    text: str
    end: str
    """`finish_reason` of the protocol, `UNPLACED` or `REFUSED`."""
    model: str | None = None
    """The model as the server names it; None for all lines but the first of a request."""
    read: int = 0
    """The number of tokens that the model has read for the request."""
    written: int = 0


class Totals(NamedTuple):
    """Sums over all requests."""

    models: str | None
    """The names of the models, separated by commas."""
    first: str | None
    """The date (UTC) of the first request."""
    last: str | None
    read: int
    written: int

    def plus(self, answer: Answer) -> Totals:
        """Return the sums with another answer."""
        return self._replace(read=self.read + answer.read, written=self.written + answer.written)


class Answers:
    """A file with the answers to lines, by line and number of the question (from 0)."""

    def __init__(self, path: Path | str) -> None:
        """Open the file, or create it; `:memory:` keeps nothing. This and all methods raise sqlite3.Error."""
        self._file = sqlite3.connect(path)
        self._file.executescript(_SCHEMA)

    def keep(self, number: int, answers: dict[str, Answer]) -> None:
        """Keep the answers to the question of this number about lines."""
        today = datetime.now(UTC).date().isoformat()
        rows = [(line, number, *answer, today) for line, answer in answers.items()]
        with self._file:
            self._file.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def of(self, line: str) -> dict[int, Answer]:
        """Return the last answer about a line by number."""
        query = "SELECT number, text, end FROM answers WHERE line = ? ORDER BY number, rowid"
        return {number: Answer(text, end) for number, text, end in self._file.execute(query, (line,))}

    def totals(self) -> Totals:
        """Return the sums over all requests so far."""
        sums = "IFNULL(SUM(read), 0), IFNULL(SUM(written), 0)"
        query = f"SELECT GROUP_CONCAT(DISTINCT model), MIN(date), MAX(date), {sums} FROM answers"
        return Totals(*self._file.execute(query).fetchone())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
