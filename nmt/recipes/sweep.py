"""`nmt sweep`: train one run for each combination of a grid of settings, and compare the runs.

The runs that differ only in their seed are an *arm*. With successive halving (Jamieson and Talwalkar, 2016), arms with
low scores on the development set are eliminated after a few updates. Which ones are is a function of the logs of the
runs, so that a sweep that was killed continues with the same arms.
"""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.config.load import dump_config
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError, StoppedError
from nmt.evaluate.compare import Comparison, compare
from nmt.evaluate.compare.screen import ComparisonReport
from nmt.evaluate.compare.systems import Translating, for_directions, translate_runs
from nmt.evaluate.metrics import metric_name
from nmt.files.write import Lock, open_own, refuse_links, replace_file
from nmt.layout import DataDir
from nmt.prepare.recipe import unlike
from nmt.process import Stop, stopping
from nmt.recipes.directory import changed_settings
from nmt.recipes.sweep_plan import GridRun, SweepOptions, SweepPlan, make_plan, shown_score, stage_of
from nmt.recipes.sweep_report import SweepRow, records_of, rows_of, tables_of
from nmt.runs.info import read_info
from nmt.runs.listing import is_run, summarise
from nmt.runs.model import ModelRef
from nmt.tables import Format, as_csv, render


def check_places(plan: SweepPlan) -> None:
    """Raise CheckpointError with all problems if the directory contains anything but runs of this sweep."""
    if plan.folder.exists() and not plan.folder.is_dir():
        raise CheckpointError(f"{plan.folder}: not a directory; choose another directory with --dir")
    if is_run(plan.folder):
        raise CheckpointError(f"{plan.folder}: a run directory; choose a directory for the sweep with --dir")
    problems = []
    for planned in plan.runs:
        problems += [f"{planned.run.path}: {problem}" for problem in _problems(planned)]
    if problems:
        raise CheckpointError(*problems)


def _problems(planned: GridRun) -> Iterator[str]:
    run = planned.run
    if not run.info.exists():
        # a run that was killed while starting leaves its lock, and may start again
        if run.path.exists() and not run.lock.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
            yield "exists already, but is not a run directory; choose another directory with --dir"
        return
    summary = summarise(run)
    if summary.state == "running":
        holder = summary.holder or {}
        process = f"process {holder.get('pid', '?')} on {holder.get('host', '?')}"
        yield f"{process} is training it; wait for it to end or stop it"
    elif summary.state == "broken":
        damage, _, _ = str(summary.problem).partition("; ")  # what follows is advice for other commands
        yield f"{damage}; repair the run, or remove it to train it again"
    else:
        for key, old, new in changed_settings(run, planned.config):
            change = f"trained with {key} {old or 'not set'}, this sweep has {new or 'not set'}"
            yield f"{change}; choose another directory with --dir"


def check_texts(plan: SweepPlan) -> None:
    """Raise NmtError with all problems if a finished run was not trained on the text that this sweep uses."""
    problems = []
    for planned in plan.runs:
        data = DataDir(planned.data)
        if not data.is_prepared or not planned.is_finished:
            continue
        if read_info(planned.run).corpus != Corpora.open(data, planned.config.data).fingerprint:
            change = f"trained on text different from that of {data.path}"
            problems.append(f"{planned.run.path}: {change}; choose another directory with --dir")
    if problems:
        raise NmtError(*problems)


POLL = 0.1  # seconds
STOPPED = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 129, 130, 143, StoppedError.exit_status}
"""Exit statuses of a command that was stopped by a signal."""


@dataclass(frozen=True)
class SweepJob:
    """A command of `nmt`."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    """The file to which the output is appended."""


@dataclass(frozen=True)
class Ended:
    """The outcome of a command."""

    job: SweepJob
    is_stopped: bool
    error: str = ""
    """The last line of the output; empty unless the command failed."""


def run_jobs(jobs: Sequence[SweepJob], slots: Sequence[Mapping[str, str]], stop: Stop) -> Generator[Ended]:
    """Run commands, one at a time in each slot, and yield each when it has ended.

    slots: the environment variables of each slot. On a request to stop, running commands are sent SIGTERM and no more
    are started. Close the iterator after an error, which kills running commands.
    """
    waiting = list(reversed(jobs))
    free = list(reversed(slots))
    is_stopping = False
    running: dict[subprocess.Popen[bytes], tuple[SweepJob, Mapping[str, str]]] = {}
    try:
        while running or (waiting and stop.reason is None):
            while waiting and free and stop.reason is None:
                job = waiting.pop()
                slot = free.pop()
                running[_start(job, slot)] = job, slot
                say(f"[{len(jobs) - len(waiting)}/{len(jobs)}] {job.name}: started")
            if stop.reason is not None and not is_stopping:
                is_stopping = True
                for process in running:
                    process.terminate()
            time.sleep(POLL)
            for process in [*running]:
                if process.poll() is None:
                    continue
                job, slot = running.pop(process)
                free.append(slot)
                ended = _end_of(job, process.returncode)
                if ended.error:
                    say(f"{job.name}: failed: {ended.error} (full output: {job.log})")
                yield ended
    finally:
        for process in running:  # left only after an error or a second Ctrl-C
            process.kill()


def _start(job: SweepJob, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_own(job.log, os.O_APPEND), "ab") as log:
        log.write(f"$ nmt {shlex.join(job.arguments)}\n".encode())
        log.flush()
        return subprocess.Popen(
            [sys.executable, "-m", "nmt", *job.arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment},
        )  # fmt: skip


def _end_of(job: SweepJob, status: int) -> Ended:
    if status == 0 or status in STOPPED:
        return Ended(job, is_stopped=status != 0)
    if status < 0:
        return Ended(job, False, f"killed by signal {-status}, {signal.strsignal(-status)}")
    output = job.log.read_text("utf-8", "replace").rstrip()
    return Ended(job, False, output.splitlines()[-1].strip().removeprefix("nmt: "))


def sweep(options: SweepOptions, format: Format = "text") -> list[SweepRow]:  # noqa: A002
    """Train the unfinished runs of a grid, compare the arms of a study, print tables, and return the rows of all runs.

    Raises ConfigError or CheckpointError before anything is written, ConfigError, DataError or CheckpointError before
    anything is trained, StoppedError if stopped by a signal.
    """
    plan = make_plan(options)
    check_places(plan)
    refuse_links(plan.folder / name for name in ("lock", "configs", "logs", "data"))
    plan.folder.mkdir(parents=True, exist_ok=True)
    with Lock(plan.folder / "lock", "sweeps"), stopping(Stop()) as stop:
        rows = _train(options, plan, stop)
    unfinished = [row for row in rows if row.state not in ("finished", "eliminated")]
    comparisons = []
    if options.compare is not None and not unfinished:
        comparisons = [*map(ComparisonReport, _compared(options.compare, plan))]
    document = {"runs": records_of(plan, rows), "comparisons": [comparison.as_json() for comparison in comparisons]}
    tables = tables_of(plan, rows)
    for comparison in comparisons:
        tables.append(replace(comparison.as_table(), records=()))  # the CSV is about runs
    print(render(format, tables, document))
    say(f"{_table(plan)}: written")
    if unfinished and (stop.signal is not None or not any(row.state == "failed" for row in rows)):
        reason = f"{len(unfinished)} of {len(rows)} runs are not finished"
        if stop.signal:
            reason = f"stopped by {stop.signal}"
        raise StoppedError(f"{reason}; run the same command again to continue")
    return rows


def _compared(split: str, plan: SweepPlan) -> Iterator[Comparison]:
    """Compare the arms that were not eliminated on a split, in each direction; all their runs have finished."""
    kept = stage_of(plan, {})[0]
    members = dict[str, list[Path]]()
    for arm, runs in plan.arms.items():
        if arm in kept:
            members[arm] = [planned.run.path for planned in runs]
    translating = Translating(lambda config: config.search, ModelRef(), split)
    for direction in for_directions(members, translating):
        yield compare(*translate_runs(members, direction))


def _table(plan: SweepPlan) -> Path:
    return plan.folder / "sweep.tsv"


def _write_table(plan: SweepPlan, errors: Mapping[str, str]) -> list[SweepRow]:
    rows = rows_of(plan, errors)
    replace_file(_table(plan), as_csv(records_of(plan, rows), "\t") + "\n")
    return rows


def _train(options: SweepOptions, plan: SweepPlan, stop: Stop) -> list[SweepRow]:
    """Prepare missing data directories, then train the unfinished runs, and return the rows of the table."""
    to_do = [planned for planned in plan.runs if not planned.is_finished]
    for planned in to_do:
        path = plan.config_of(planned)
        path.parent.mkdir(parents=True, exist_ok=True)
        # the configuration that was checked, even if its file changes meanwhile
        replace_file(path, dump_config(planned.config), may_follow=False)
    n = len(plan.runs)
    runs = "1 run" if n == 1 else f"{n} runs"
    finished = f", {n - len(to_do)} of them already finished" if len(to_do) < n else ""
    say(f"{runs} in {plan.folder}{finished}")
    failed = _prepare(plan, to_do, stop)
    if failed and all(planned.data in failed for planned in plan.runs):
        raise ConfigError(*[f"cannot train: {error}" for error in failed.values()])
    errors = {planned.name: failed[planned.data] for planned in to_do if planned.data in failed}
    _write_table(plan, errors)
    check_texts(plan)
    before: int | None = -1
    while stop.reason is None:
        arms, updates, _ = stage_of(plan, errors)
        if updates == before:  # the runs have ended, or were stopped from outside
            break
        before = updates
        jobs = list[SweepJob]()
        for planned in itertools.chain.from_iterable(plan.arms[arm] for arm in arms):
            is_done = planned not in to_do if updates is None else planned.best(plan.metric, updates) is not None
            if planned.name not in errors and not is_done:
                jobs.append(_training(plan, planned, updates))
        with closing(run_jobs(jobs, _slots(options), stop)) as ended_jobs:
            for ended in ended_jobs:
                _report(plan, ended, errors)
    return _write_table(plan, errors)


def _report(plan: SweepPlan, ended: Ended, errors: dict[str, str]) -> None:
    """Print the state of a run whose command has ended, add its error to `errors` if it failed, and write the table."""
    name = ended.job.name
    if ended.error:
        errors[name] = ended.error
    else:
        row = next(row for row in rows_of(plan, errors) if row.planned.name == name)
        score = ""
        if row.score is not None:
            score = f", dev {metric_name(plan.metric)} {shown_score(row.score, plan.metric)}"
        say(f"{name}: {row.state} at step {row.step or 0:,}{score}")
    with suppress(OSError):  # a full disk must not end a run
        _write_table(plan, errors)


def _prepare(plan: SweepPlan, to_do: Sequence[GridRun], stop: Stop) -> dict[Path, str]:
    """Prepare data directories that are missing or inside the sweep's, and return error messages by path.

    An existing data directory is used as it is, like by `nmt train`; differences from the configuration are printed.
    """
    jobs = {}
    paths = {}
    differing = set()
    for planned in to_do:
        data = DataDir(planned.data)
        name = f"prepare {planned.data}"
        if data.is_prepared and data.path.parent != plan.folder / "data":
            with suppress(DataError):  # damage fails the runs that need it
                differing.add(unlike(data, planned.config) or "")
        elif name not in jobs:
            arguments = "prepare", "--config", str(plan.config_of(planned)), "--data", str(data.path)
            jobs[name] = SweepJob(name, arguments, plan.folder / "logs" / f"prepare-{data.path.name}.log")
            paths[name] = data.path
    for line in sorted(differing - {""}):
        say(line)
    errors = {}
    with closing(run_jobs([*jobs.values()], [{}], stop)) as ended_jobs:
        for ended in ended_jobs:
            name = ended.job.name
            if ended.error:
                errors[paths[name]] = f"{paths[name]} could not be prepared: {ended.error}"
            else:
                say(f"{name}: {'stopped' if ended.is_stopped else 'done'}")
    return errors


def _training(plan: SweepPlan, planned: GridRun, updates: int | None) -> SweepJob:
    command = ["train", "--config", str(plan.config_of(planned))]
    if planned.run.info.exists():
        command = ["train", "--resume"]
    command += ["--run", str(planned.run.path), "--data", str(planned.data)]
    if updates is not None:
        command += ["--stop-at", str(updates)]
    return SweepJob(planned.name, tuple(command), plan.folder / "logs" / f"{planned.name}.log")


def _slots(options: SweepOptions) -> list[dict[str, str]]:
    """Return the environment variables of concurrent runs, which set a GPU and a share of the CPU cores."""
    slots = [{"CUDA_VISIBLE_DEVICES": device} for device in options.devices] or [{} for _ in range(options.jobs)]
    if len(slots) > 1 and "OMP_NUM_THREADS" not in os.environ:
        n_threads = max(1, len(os.sched_getaffinity(0)) // len(slots))
        for slot in slots:
            slot["OMP_NUM_THREADS"] = str(n_threads)
    return slots
