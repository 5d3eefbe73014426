"""`nmt sweep`: train every combination of a grid of settings in processes, and compare them in a table."""

from __future__ import annotations

import math
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from nmt.config.load import dump_config
from nmt.console import aligned, printable, say, show
from nmt.data.corpus import read_manifest
from nmt.errors import CheckpointError, ConfigError, DataError, StoppedError
from nmt.evaluate.significance import CONFIDENCE, MIN_RUNS, error_and_freedom, quantile
from nmt.files.write import Lock, open_own, refuse_links, replace_file
from nmt.layout import DataDir
from nmt.prepare.recipe import unlike
from nmt.process import Stop, stopping
from nmt.recipes.sweep_plan import Plan, Request, SweepDir, Training, check_places, check_texts, make_plan
from nmt.runs.info import Selected, Weights, read_selected
from nmt.runs.listing import is_run, summarise
from nmt.runs.log import Metric, best_scores, rank

SEED = "training.seed"
TIME, TIME_KEY = "max_minutes", "training.max_minutes"
AS_LONG = 0.95
"""Trainings that the time limit ended count as equally long from this share of the steps of the longest on."""
DIFFERENCE = "to the first"
DIFFERENCE_NOTE = (
    f"{DIFFERENCE}: difference to the first row, the best, with its 95 % interval over seeds, on the development set, "
    "on which checkpoints were selected"
)
OF_A_TEST_SET = "; nmt compare --group tests over seeds and the lines of a test set"
LABELS: dict[Metric, str] = {"bleu": "BLEU", "perplexity": "perplexity", "accuracy": "accuracy"}
PREDICTED = ("training.denoising.", "training.masked.", "training.causal.")
"""Sections that decide which pieces are predicted, and from what."""
KINDS: tuple[Weights, ...] = get_args(Weights)


@dataclass(frozen=True)
class Row:
    """The result of one training; None is unknown."""

    training: Training
    state: Literal["finished", "failed", "stopped", "not started"]
    score: float | None
    """The best score of the development set by `Plan.metric`."""
    by_weights: dict[Weights, float]
    """The same of each kind of weights."""
    weights: str | None
    """The weights that `nmt translate` uses by default."""
    step: int | None
    minutes: float | None
    ended_by: str | None
    """The limit of `training` that ended it."""
    note: str
    """The error, if it failed."""


def rows_of(plan: Plan, ended: Mapping[str, Ended]) -> list[Row]:
    """Return the rows, best first, those without a score last; `ended` has the outcomes of this sweep, by name."""
    rows = [_row(training, plan.metric, ended.get(training.name)) for training in plan.trainings]
    return sorted(rows, key=lambda row: math.inf if row.score is None else rank(plan.metric, row.score))


def _row(training: Training, metric: Metric, ended: Ended | None) -> Row:
    run = training.run
    note = ended.message if ended is not None and ended.has_failed else ""
    if not run.info.exists():
        return Row(training, "failed" if note else "not started", None, {}, None, None, None, None, note)
    summary = summarise(run)
    selected, by_weights = Selected(), dict[Weights, float]()
    with suppress(CheckpointError):
        selected = read_selected(run)
    with suppress(OSError):
        by_weights = best_scores(run, metric)
    state: Literal["finished", "failed", "stopped"] = "finished"
    if summary.state != "finished":
        state = "failed" if note else "stopped"
    settings, step, minutes = training.config.training, summary.step, summary.minutes
    limit = selected.finished_by
    weights = selected.weights if selected.model_fields_set else None
    if limit is None and step < settings.max_steps and (minutes or 0.0) >= (settings.max_minutes or math.inf):
        limit = TIME  # earlier versions did not record it
    ended_by = limit if state == "finished" else None
    return Row(training, state, summary.best_score, by_weights, weights, step, minutes, ended_by, note)


def render(plan: Plan, rows: Sequence[Row], include_shorter: bool = False) -> str:
    """Format the table as text and, if the grid has seeds, the means over them.

    The means are over finished trainings; without `include_shorter` those that the time limit ended before `AS_LONG`
    of the longest with the same settings are left out.
    """
    kinds, dev = _kinds(rows), f"dev {LABELS[plan.metric]}"
    header = [*(printable(axis.label) for axis in plan.axes), dev, *kinds, "weights", "step", "min", "state", ""]
    cells = [[*map(printable, row.training.values), *_cells(row, kinds, plan.metric)] for row in rows]
    table = _columns([header, *cells], len(plan.axes)) + _lengths(rows) + _development_sets(plan, rows)
    return table + _means(plan, rows, kinds, include_shorter)


def _kinds(rows: Sequence[Row]) -> list[Weights]:
    """Return the kinds of weights with a column of their own: those with a score, if there are several."""
    kinds = [kind for kind in KINDS if any(kind in row.by_weights for row in rows)]
    return kinds if len(kinds) > 1 else []


def _cells(row: Row, kinds: Sequence[Weights], metric: Metric) -> list[str]:
    return [
        *(score(value, metric) for value in (row.score, *map(row.by_weights.get, kinds))),
        row.weights or "-",
        "-" if row.step is None else f"{row.step:,}",
        "-" if row.minutes is None else f"{row.minutes:.1f}",
        row.state,
        printable(row.note),
    ]


def score(value: float | None, metric: Metric = "bleu") -> str:
    """Format a score with two decimals, accuracy with four."""
    return "-" if value is None else f"{value:.{_decimals(metric)}f}"


def _decimals(metric: Metric) -> int:
    return 4 if metric == "accuracy" else 2


def _lengths(rows: Sequence[Row]) -> str:
    """Return a note if the time limit ended trainings, so that they are not equally long."""
    finished = [row for row in rows if row.state == "finished"]
    timed = [row for row in finished if row.ended_by == TIME]
    steps = sorted({row.step or 0 for row in finished})
    if not timed or len(steps) < 2:
        return ""
    return (
        f"\n\n{TIME_KEY} ended {len(timed)} of {len(finished)} finished trainings: they are not equally long, "
        f"{steps[0]:,} to {steps[-1]:,} steps"
    )


def _development_sets(plan: Plan, rows: Sequence[Row]) -> str:
    """Return a warning if the development sets differ, as when each is split off another text, or what is predicted."""
    directories = dict.fromkeys(row.training.data for row in rows if row.score is not None)
    texts = {sums for path in directories if (sums := _checksums(DataDir(path), DataDir.text))}
    if len(texts) > 1:
        return (
            f"\n\nwarning: the trainings have {len(texts)} different development sets, whose {LABELS[plan.metric]} "
            "cannot be compared; give data.valid files of its own, the same for all"
        )
    if plan.metric != "perplexity":
        return ""
    reasons = [axis.key for axis in plan.axes if axis.key.startswith(PREDICTED) and len(axis.values) > 1]
    if len({sums for path in directories if (sums := _checksums(DataDir(path), DataDir.ids))}) > 1:
        reasons.insert(0, "the vocabulary")
    return (
        f"\n\nwarning: perplexities of different pieces cannot be compared: {' and '.join(reasons)} differ"
        if reasons
        else ""
    )


def _checksums(data: DataDir, file_of: Callable[[DataDir, str, str], Path]) -> tuple[str, ...]:
    """Return the checksums of the development set by language; empty if the manifest does not have them."""
    with suppress(DataError, KeyError):
        manifest = read_manifest(data)
        return tuple(manifest.files[file_of(data, "valid", language).name].sha256 for language in manifest.languages)
    return ()


def _means(plan: Plan, rows: Sequence[Row], kinds: Sequence[Weights], include_shorter: bool) -> str:
    """Format the means over seeds as a table, and name the trainings left out; empty if the grid has no seeds."""
    axes, metric = plan.axes, plan.metric
    indices = [i for i, axis in enumerate(axes) if axis.key != SEED]
    if len(indices) == len(axes):
        return ""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        finished = groups.setdefault(tuple(row.training.values[i] for i in indices), [])
        if row.state == "finished" and row.score is not None:
            finished.append(row)
    lines: list[tuple[list[float], list[str]]] = []
    shorter: list[Row] = []
    for values, group in groups.items():
        if not include_shorter:
            cut = _cut_by_time(group)
            group[:], shorter = [row for row in group if row not in cut], shorter + cut
        columns = [[row.score for row in group], *([row.by_weights.get(kind) for row in group] for kind in kinds)]
        scores = [[score for score in column if score is not None] for column in columns]
        means = [mean(column, metric) for column in scores]
        lines.append((scores[0], [*map(printable, values), *means, str(len(group))]))
    lines.sort(key=lambda line: rank(metric, statistics.fmean(line[0])) if line[0] else math.inf)
    differences = [difference(lines[0][0], scores, metric) for scores, _ in lines]
    differences[0] = ""
    header = [*(printable(axes[i].label) for i in indices), f"dev {LABELS[metric]}", *kinds, "seeds", DIFFERENCE]
    cells = [[*line, shown] for (_, line), shown in zip(lines, differences, strict=True)]
    table = [header, *cells] if any(differences) else [line[:-1] for line in (header, *cells)]
    text = f"\n\nmean over finished seeds ± standard deviation ({SEED})\n{_columns(table, len(indices))}"
    if any(differences):
        text += f"\n{DIFFERENCE_NOTE}{OF_A_TEST_SET if metric == 'bleu' else ''}"
    if not shorter:
        return text
    names = ", ".join(f"{row.training.name} ({row.step or 0:,} steps)" for row in shorter)
    return (
        f"{text}\nnot in the means: {names}, which {TIME_KEY} ended more than {1 - AS_LONG:.0%} before the longest of "
        "the same settings; --include-shorter averages over them, too"
    )


def _cut_by_time(group: Sequence[Row]) -> list[Row]:
    """Return the trainings of a group that the time limit ended clearly before the longest."""
    longest = max((row.step or 0 for row in group), default=0)
    return [row for row in group if row.ended_by == TIME and (row.step or 0) < AS_LONG * longest]


def mean(scores: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the mean, with the standard deviation if there are several scores."""
    if len(scores) < 2:
        return score(scores[0] if scores else None, metric)
    return f"{score(statistics.fmean(scores), metric)} ± {score(statistics.stdev(scores), metric)}"


def difference(first: Sequence[float], other: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the difference of the means with its 95 % interval over seeds (Welch); empty unless there are enough."""
    if min(len(first), len(other)) < MIN_RUNS:
        return ""
    variances = [statistics.variance(scores) / len(scores) for scores in (first, other)]
    error, freedom = error_and_freedom(variances, (len(first), len(other)))
    value, half = statistics.fmean(other) - statistics.fmean(first), error * quantile(CONFIDENCE, freedom)
    shown, low, high = (f"{x:+.{_decimals(metric)}f}" for x in (value, value - half, value + half))
    return f"{shown} [{low}, {high}]"


def _columns(lines: Sequence[Sequence[str]], n_left: int) -> str:
    """Align columns: the first `n_left` to the left, numbers to the right."""
    names = {*(f"dev {label}" for label in LABELS.values()), *KINDS, "step", "min", "seeds", DIFFERENCE}
    return "\n".join(aligned(lines, [i for i, name in enumerate(lines[0]) if i >= n_left and name in names]))


def as_tsv(plan: Plan, rows: Sequence[Row]) -> str:
    """Format the table as TSV: full keys, no rounding; unknown values are empty."""
    dev = f"dev_{plan.metric}"
    scores = [dev, *(f"{dev}_{kind}" for kind in KINDS)]
    facts = ("weights", "step", "minutes", "ended_by", "state", "run", "note")
    lines = [[*(axis.key for axis in plan.axes), *scores, *facts]]
    for row in rows:
        values = (
            *(row.score, *map(row.by_weights.get, KINDS), row.weights, row.step, row.minutes),
            *(row.ended_by, row.state, row.training.run.path, row.note),
        )
        lines.append([*row.training.values, *("" if value is None else str(value) for value in values)])
    return "".join("\t".join(map(printable, line)) + "\n" for line in lines)


POLL = 0.1  # seconds
PATIENCE = 20.0  # seconds from the interrupt to the kill
STOPPED = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 129, 130, 143, StoppedError.exit_status}
"""Exit statuses of a command that was stopped: while starting, in `nmt prepare`, and in `nmt train`."""


@dataclass(frozen=True)
class Job:
    """A command of `nmt`."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    """Its output is appended to this file."""


@dataclass(frozen=True)
class Ended:
    """The outcome of a command."""

    status: int
    """Its exit status; minus the number of the signal that killed it."""
    message: str
    """The last line of its output; empty on success."""

    @property
    def has_failed(self) -> bool:
        """Whether it ended in an error: neither successfully nor because it was stopped."""
        return self.status != 0 and self.status not in STOPPED


@dataclass
class _Running:
    job: Job
    slot: Mapping[str, str]
    process: subprocess.Popen[bytes]
    log_start: int
    """Byte offset of its output in the log."""


@dataclass
class Jobs:
    """A pool that runs jobs in slots: one at a time in each, with the environment variables of the slot."""

    slots: Sequence[Mapping[str, str]]
    environment: Mapping[str, str]
    stop: Stop
    report: Callable[[Job, Ended | None], None]
    """Called when a job starts, with None, and when it has ended."""
    _running: list[_Running] = field(default_factory=list)

    def run(self, jobs: Sequence[Job]) -> dict[str, Ended]:
        """Run the jobs; returns the outcome by name, without jobs that a request to stop left unstarted."""
        waiting, free = list(reversed(jobs)), list(reversed(self.slots))
        ended: dict[str, Ended] = {}
        is_stopping = False
        try:
            while self._running or (waiting and self.stop.reason is None):
                while waiting and free and self.stop.reason is None:
                    self._start(waiting.pop(), free.pop())
                if self.stop.reason is not None and not is_stopping:
                    is_stopping = True
                    self._signal(signal.SIGTERM)
                time.sleep(POLL)
                for running in [running for running in self._running if running.process.poll() is not None]:
                    self._running.remove(running)
                    free.append(running.slot)
                    ended[running.job.name] = _end_of(running)
                    self.report(running.job, ended[running.job.name])
        finally:
            self._end()
        return ended

    def _start(self, job: Job, slot: Mapping[str, str]) -> None:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_own(job.log, os.O_APPEND), "ab") as log:
            log.write(f"$ nmt {shlex.join(job.arguments)}\n".encode())
            log.flush()
            start = log.tell()
            process = subprocess.Popen(
                [sys.executable, "-m", "nmt", *job.arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**self.environment, **slot},
            )  # fmt: skip
        self._running.append(_Running(job, slot, process, start))
        self.report(job, None)

    def _signal(self, number: signal.Signals) -> None:
        for running in self._running:
            with suppress(ProcessLookupError):
                running.process.send_signal(number)

    def _end(self) -> None:
        """End all processes; there are some left only after a second Ctrl-C or an error here."""
        self._signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        for running in self._running:
            try:
                running.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()


def _end_of(running: _Running) -> Ended:
    status = running.process.returncode
    with running.job.log.open("rb") as log:
        log.seek(running.log_start)
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    if status == 0:
        return Ended(status, "")
    if status < 0:
        return Ended(status, f"killed by signal {-status}, {signal.strsignal(-status)}")
    return Ended(status, lines[-1].removeprefix("nmt: ") if lines else f"ended with status {status}")


@dataclass
class Screen:
    """Prints a line when a job starts or ends, and keeps the table up to date."""

    plan: Plan
    folder: SweepDir
    ended: dict[str, Ended] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _total: int = 0
    _n_begun: int = 0

    def begin(self, total: int, trainings: set[str]) -> None:
        """Announce `total` jobs, of which those named `trainings` are in the table."""
        self._total, self._n_begun, self._names = total, 0, trainings

    def report(self, job: Job, ended: Ended | None) -> None:
        """Print that a job has started (None) or ended."""
        if ended is None:
            self._n_begun += 1
            say(f"[{self._n_begun}/{self._total}] {job.name}: started")
            return
        if job.name in self._names:
            self.ended[job.name] = ended
            with suppress(OSError):  # a full disk must not end a training
                self.write()
        say(f"{job.name}: {self._outcome(job, ended)}")

    def _outcome(self, job: Job, ended: Ended) -> str:
        if ended.has_failed:
            return f"failed: {ended.message} (full output: {job.log})"
        if job.name not in self._names:
            return "done" if ended.status == 0 else "stopped"
        row, metric = next(row for row in self.rows if row.training.name == job.name), self.plan.metric
        found = "" if row.score is None else f", dev {LABELS[metric]} {score(row.score, metric)}"
        return f"{row.state} at step {row.step or 0:,}{found}"

    def write(self) -> None:
        """Write the current table to sweep.tsv."""
        self.rows = rows_of(self.plan, self.ended)  # first: it needs no disk space
        replace_file(self.folder.table, as_tsv(self.plan, self.rows))


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
    with Lock(folder.lock, "sweeps"), stopping() as stop:
        screen = Screen(plan, folder)
        _Sweep(request, plan, folder, stop, screen).run()
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
        """Prepare missing data directories, then train the unfinished runs."""
        to_do = [training for training in self.plan.trainings if not training.is_finished]
        for training in to_do:
            path = self.folder.config(training.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            # the configuration that was checked, even if its file changes meanwhile
            replace_file(path, dump_config(training.config), may_follow=False)
        n, n_to_do = len(self.plan.trainings), len(to_do)
        done = f", {n - n_to_do} of them finished already" if n_to_do < n else ""
        say(f"{n} training{'s' * (n > 1)} in {self.folder.path}{done}")
        others = {path.name for path in self.folder.path.iterdir() if is_run(path)} - {
            training.name for training in self.plan.trainings
        }
        if others:
            say(
                f"the table leaves out {len(others)} run{'s' * (len(others) > 1)} of another grid; "
                f"nmt runs {self.folder.path} lists all"
            )
        failed = self._prepare(to_do)
        if failed and n_to_do == n and all(training.data in failed for training in to_do):
            raise ConfigError([f"cannot train: {end.message}" for _, end in failed.values()])
        self.screen.write()
        check_texts(self.plan)
        slots = self._slots()
        jobs = Jobs(slots, self._environment(len(slots)), self.stop, self.screen.report)
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
                        say(line)
            elif training.data not in jobs:
                name = f"prepare {own or training.data}"
                config = str(self.folder.config(training.name))
                arguments = ("prepare", "--config", config, "--data", str(training.data))
                jobs[training.data] = Job(name, arguments, self.folder.log(f"prepare-{own or training.data.name}"))
        self.screen.begin(len(jobs), set())
        ended = Jobs([{}], os.environ, self.stop, self.screen.report).run(list(jobs.values()))
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
