"""`nmt sweep`: train every combination of a grid of settings, and compare them in a table."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmt.config.load import dump_config
from nmt.console import printable, say, show
from nmt.data.corpus import read_manifest
from nmt.errors import ConfigError, DataError, StoppedError
from nmt.files.read import refuse_links
from nmt.files.write import Lock, replace_file
from nmt.layout import DataDir
from nmt.prepare.recipe import unlike
from nmt.process import Stop, stopping
from nmt.runs.listing import is_run, summarise
from nmt.sweep.jobs import Ended, Job, Jobs
from nmt.sweep.plan import Plan, Request, SweepDir, Training, check_places, check_texts, make_plan
from nmt.sweep.table import LABELS, Row, as_tsv, render, rows_of, score

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


def sweep(request: Request) -> list[Row]:
    """Train every combination of the grid that is not finished yet, print the table, and return its rows.

    Raises ConfigError or CheckpointError before anything is written, ConfigError, DataError or CheckpointError before
    anything is trained, StoppedError if stopped by a signal.
    """
    plan = make_plan(request)
    folder = request.folder
    check_places(plan, folder)
    refuse_links(folder.written_in_place)
    folder.path.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder.lock, "sweeps")
    try:
        with stopping() as stop, closing(Screen(plan, folder)) as screen:
            _Sweep(request, plan, folder, stop, screen).run()
    finally:
        lock.release()
    rows = screen.rows
    show(*render(plan, rows, request.include_shorter).split("\n"))
    show(f"{folder.table}: written")
    n_left = sum(row.state != "finished" for row in rows)
    if n_left and stop.signal is not None:
        raise StoppedError(f"stopped by {stop.signal}; run the same command again to continue")
    if n_left and not any(row.state == "failed" for row in rows):  # some trainings were stopped individually
        raise StoppedError(
            f"{n_left} of {len(rows)} trainings are not finished; run the same command again to continue"
        )
    return rows


@dataclass
class _Sweep:
    """One call of `sweep`."""

    request: Request
    plan: Plan
    folder: SweepDir
    stop: Stop
    screen: Screen

    def run(self) -> None:
        """Prepare missing data directories, then train what is not finished."""
        to_do = [training for training in self.plan.trainings if not training.is_finished]
        for training in to_do:
            path = self.folder.config(training.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            # the configuration that was checked, even if its file changes meanwhile
            replace_file(path, dump_config(training.config), may_follow=False)
        n, n_to_do = len(self.plan.trainings), len(to_do)
        done = f", {n - n_to_do} of them finished already" if n_to_do < n else ""
        self.screen.say(f"{n} training{'s' * (n > 1)} in {self.folder.path}{done}")
        others = {path.name for path in self.folder.path.iterdir() if is_run(path)} - {
            training.name for training in self.plan.trainings
        }
        if others:
            self.screen.say(
                f"the table leaves out {len(others)} run{'s' * (len(others) > 1)} of another grid; "
                f"nmt runs {self.folder.path} lists all"
            )
        failed = self._prepare(to_do)
        if failed and n_to_do == n and all(training.data in failed for training in to_do):
            raise ConfigError([f"nothing is trained: {end.message}" for _, end in failed.values()])
        self.screen.write()
        check_texts(self.plan)
        slots = self._slots()
        jobs = Jobs(slots, self._environment(len(slots)), self.stop, self.screen.report, self.screen.watch)
        self.screen.begin(len(to_do), {training.name for training in self.plan.trainings})
        for training in to_do:
            if training.data in failed:
                job, ended = failed[training.data]
                self.screen.report(replace(job, name=training.name), ended)
        jobs.run([self._training(training) for training in to_do if training.data not in failed])
        self.screen.write()

    def _prepare(self, to_do: Sequence[Training]) -> dict[Path, tuple[Job, Ended]]:
        """Prepare the data directories; returns those that failed."""
        jobs: dict[Path, Job] = {}
        reported = set()
        for training in to_do:
            own, data = self.plan.data_names.get(training.data), DataDir(training.data)
            if own is None and data.manifest.is_file():  # used as it is, as in nmt train
                with suppress(DataError):  # damage fails the trainings that need it
                    line = unlike(data, read_manifest(data), training.config)
                    if line is not None and line not in reported:
                        reported.add(line)
                        self.screen.say(line)
            elif training.data not in jobs:
                name = f"prepare {own or training.data}"
                config = str(self.folder.config(training.name))
                arguments = ("prepare", "--config", config, "--data", str(training.data))
                jobs[training.data] = Job(name, arguments, self.folder.log(f"prepare-{own or training.data.name}"))
        self.screen.begin(len(jobs), set())
        ended = Jobs([{}], os.environ, self.stop, self.screen.report, self.screen.watch).run(list(jobs.values()))
        return {
            path: (job, Ended(end.status, f"{path} could not be prepared: {end.message}"))
            for path, job in jobs.items()
            if (end := ended.get(job.name)) is not None and end.has_failed
        }

    def _training(self, training: Training) -> Job:
        resumed = ("--resume",) if training.run.info.exists() else ("--config", str(self.folder.config(training.name)))
        where = ("--run", str(training.run.path), "--data", str(training.data))
        return Job(training.name, ("train", *resumed, *where), self.folder.log(training.name))

    def _slots(self) -> list[dict[str, str]]:
        devices = self.request.devices
        return [{"CUDA_VISIBLE_DEVICES": device} for device in devices] or [{} for _ in range(self.request.jobs)]

    def _environment(self, n: int) -> dict[str, str]:
        """Return the environment of the jobs: of `n` at a time, each uses its share of the CPU cores."""
        if n == 1:
            return dict(os.environ)
        return {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // n)), **os.environ}
