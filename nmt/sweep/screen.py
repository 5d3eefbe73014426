"""What a sweep says while it goes on."""

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
from nmt.sweep.table import Row, as_tsv, rows_of

SECONDS = 5.0  # between two looks at the logs of the trainings, whose time that is


@dataclass
class Screen:
    """A line for each beginning and end, and on a terminal one of where it stands."""

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
        """So many jobs are to come; of which `trainings` are in the table."""
        self._total, self._n_begun, self._names = total, 0, trainings

    def tell(self, job: Job, ended: Ended | None) -> None:
        """A job has started, or ended."""
        if ended is None:
            self._n_begun += 1
            self.say(f"[{self._n_begun}/{self._total}] {job.name}: started")
            return
        if job.name in self._names:
            self.ended[job.name] = ended
            with suppress(OSError):  # a full disk ends no training
                self.write()
        self.say(f"{job.name}: {self._outcome(job, ended)}")

    def _outcome(self, job: Job, ended: Ended) -> str:
        if ended.has_failed:
            return f"failed: {ended.message} (all it said is in {job.log})"
        if job.name not in self._names:
            return "done" if ended.status == 0 else "stopped"
        row = next(row for row in self.rows if row.training.name == job.name)
        bleu = "" if row.bleu is None else f", dev BLEU {row.bleu:.2f}"
        return f"{row.state} at step {row.step or 0:,}{bleu}"

    def watch(self, jobs: Sequence[Job]) -> None:
        """Show where the trainings stand now and then, if this is a terminal."""
        if not sys.stderr.isatty() or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + SECONDS
        status = printable("; ".join(self._where(job) for job in jobs))
        if status != self._status:
            self._show(status)

    def _where(self, job: Job) -> str:
        if job.name not in self._names or not self.folder.run(job.name).log.exists():
            return job.name
        found = summarise(self.folder.run(job.name))
        bleu = "" if found.best_bleu is None else f", BLEU {found.best_bleu:.2f}"
        return f"{job.name}: {found.step:,} of {found.max_steps:,}{bleu}" if found.max_steps else job.name

    def _show(self, status: str) -> None:
        self._status = status
        with suppress(OSError):
            sys.stderr.write(f"\r\x1b[K{status[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def say(self, line: str) -> None:
        """A line that stays."""
        self.close()
        say(line)

    def write(self) -> None:
        """Keep the table as it is now."""
        self.rows = rows_of(self.plan, self.ended)  # first: it needs no room
        replace_file(self.folder.table, as_tsv(self.plan, self.rows))

    def close(self) -> None:
        """Leave the terminal clean."""
        if self._status:
            self._show("")
