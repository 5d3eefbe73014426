"""Progress messages of a sweep."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from nmt.console import printable, say
from nmt.files.write import replace_file
from nmt.runs.listing import summarise
from nmt.sweep.jobs import Ended, Job
from nmt.sweep.plan import Plan, SweepDir
from nmt.sweep.table import LABELS, Row, as_tsv, rows_of, score

SECONDS = 5.0  # between updates of the status line, as reading the logs takes time from the trainings


@dataclass
class Screen:
    """Prints a line when a job starts or ends, keeps the table up to date and, on a terminal, a status line."""

    plan: Plan
    folder: SweepDir
    ended: dict[str, Ended] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _total: int = 0
    _n_begun: int = 0
    _status: str = ""
    _next_look: float = 0.0

    def begin(self, total: int, trainings: set[str]) -> None:
        """Announce `total` jobs, of which those named `trainings` are in the table."""
        self._total, self._n_begun, self._names = total, 0, trainings

    def report(self, job: Job, ended: Ended | None) -> None:
        """Print that a job has started (None) or ended."""
        if ended is None:
            self._n_begun += 1
            self.say(f"[{self._n_begun}/{self._total}] {job.name}: started")
            return
        if job.name in self._names:
            self.ended[job.name] = ended
            with suppress(OSError):  # a full disk must not end a training
                self.write()
        self.say(f"{job.name}: {self._outcome(job, ended)}")

    def _outcome(self, job: Job, ended: Ended) -> str:
        if ended.has_failed:
            return f"failed: {ended.message} (full output: {job.log})"
        if job.name not in self._names:
            return "done" if ended.status == 0 else "stopped"
        row = next(row for row in self.rows if row.training.name == job.name)
        return f"{row.state} at step {row.step or 0:,}{self._score(row.score, 'dev ')}"

    def _score(self, value: float | None, of: str = "") -> str:
        metric = self.plan.metric
        return "" if value is None else f", {of}{LABELS[metric]} {score(value, metric)}"

    def watch(self, jobs: Sequence[Job]) -> None:
        """Update the status line from time to time, on a terminal."""
        if not sys.stderr.isatty() or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + SECONDS
        status = printable("; ".join(self._progress(job) for job in jobs))
        if status != self._status:
            self._show(status)

    def _progress(self, job: Job) -> str:
        if job.name not in self._names or not self.folder.run(job.name).log.exists():
            return job.name
        run = summarise(self.folder.run(job.name))
        if not run.max_steps:
            return job.name
        return f"{job.name}: {run.step:,} of {run.max_steps:,}{self._score(run.best_score)}"

    def _show(self, status: str) -> None:
        self._status = status
        with suppress(OSError):
            sys.stderr.write(f"\r\x1b[K{status[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def say(self, line: str) -> None:
        """Print a permanent line."""
        self.close()
        say(line)

    def write(self) -> None:
        """Write the current table to sweep.tsv."""
        self.rows = rows_of(self.plan, self.ended)  # first: it needs no disk space
        replace_file(self.folder.table, as_tsv(self.plan, self.rows))

    def close(self) -> None:
        """Clear the status line."""
        if self._status:
            self._show("")
