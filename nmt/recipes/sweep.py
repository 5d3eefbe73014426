"""`nmt sweep`: train one run for each combination of a grid of settings, and compare the runs."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.console import aligned, printable, say, show
from nmt.data.corpus import Corpora, read_manifest, read_pairs_manifest
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError, StoppedError, error_text
from nmt.evaluate.significance import CONFIDENCE, MIN_RUNS, error_and_freedom, quantile
from nmt.files.write import Lock, open_own, refuse_links, replace_file
from nmt.layout import DataDir, RunDir
from nmt.prepare.recipe import recipe, unlike
from nmt.process import Stop, stopping
from nmt.recipes.directory import changed_settings
from nmt.runs.info import Selected, read_info, read_selected
from nmt.runs.listing import is_run, summarise
from nmt.runs.log import Metric, metric_of, rank

LONGEST_VALUE, LONGEST_NAME = 40, 160  # characters; file systems allow names of 255 bytes
SEED = "training.seed"
SAME_TEXT = ("data.dir", "data.direction", "data.directions", "data.direction_temperature")
"""Settings of data that, by themselves, do not change the text."""

# --- the grid -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """A setting and its values as given on the command line."""

    key: str
    values: tuple[str, ...]
    label: str
    """The last part of the key, or the whole key if another axis has the same last part."""


def parse_grid(options: Sequence[str]) -> list[Axis]:
    """Parse the `--grid` options. Raises ConfigError with all problems."""
    problems: list[str] = []
    values_of: dict[str, tuple[str, ...]] = {}
    for option in options:
        key, equals, text = option.partition("=")
        try:
            values = tuple(split_values(text))
        except yaml.YAMLError as error:
            problems.append(f"--grid {option}: not values separated by commas: {error_text(error)}")
            continue
        if not equals or not all(key.split(".")) or "." not in key:
            problems.append(f"--grid {option}: write it as section.key=A,B")
        elif key == "training.run_dir":
            problems.append(f"--grid {key}: every run has its own directory within --dir; leave it out")
        elif key in values_of:
            problems.append(f"--grid {key} is given twice; write all its values in one")
        elif not values:
            problems.append(f"--grid {option}: has no value; write null where none is meant")
        elif len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            problems.append(f"--grid {option}: {twice} is given twice")
        else:
            values_of[key] = values
    if problems:
        raise ConfigError(problems)
    ends = [key.rpartition(".")[2] for key in values_of]
    labels = [key if ends.count(end) > 1 else end for key, end in zip(values_of, ends, strict=True)]
    return [Axis(key, values, label) for (key, values), label in zip(values_of.items(), labels, strict=True)]


def split_values(text: str) -> list[str]:
    """Split `text` at the commas of a YAML list, but not at commas within quotes, brackets and braces.

    Raises yaml.YAMLError if it is not a list.
    """
    node = yaml.compose(f"[{text}]", yaml.SafeLoader)
    assert node is not None, "a list"
    return [text[value.start_mark.index - 1 : value.end_mark.index - 1].strip() for value in node.value]


def name_of(labels: Sequence[str], values: Sequence[str]) -> str:
    """Return the name of a combination, safe on any file system: `dropout=0.1,seed=2`.

    Other characters are replaced by _, with a short checksum to keep different values apart.
    """
    pairs = zip(labels, values, strict=True)
    name = ",".join(f"{_safe(label)}={_safe(value)}" for label, value in pairs)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{_checksum(name)}"


def _safe(text: str) -> str:
    safe = re.sub("[^A-Za-z0-9_.+-]+", "_", text)
    if safe == text and len(text) <= LONGEST_VALUE:
        return text
    return f"{safe.strip('_')[:LONGEST_VALUE]}-{_checksum(text)}"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6]


# --- the plan -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """The options of `nmt sweep`."""

    config: str
    grid: Sequence[str]
    overrides: Sequence[str] = ()
    """Overrides for all runs."""
    data: Path | None = None
    directory: Path | None = None
    jobs: int = 1
    """Number of runs at a time; has no effect with `devices`."""
    devices: Sequence[str] = ()
    """Values of CUDA_VISIBLE_DEVICES; each device trains one run at a time."""

    @property
    def folder(self) -> Path:
        """The directory of the sweep; docs/files.md lists its contents."""
        return self.directory or Path("runs") / f"sweep-{Path(self.config).stem}"


@dataclass(frozen=True)
class GridRun:
    """The run of one combination of the grid."""

    values: tuple[str, ...]
    """The value of each axis."""
    config: Config
    run: RunDir
    data: Path

    @property
    def name(self) -> str:
        return self.run.path.name

    @property
    def is_finished(self) -> bool:
        return self.run.info.exists() and summarise(self.run).state == "finished"


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep in the order of the grid."""

    folder: Path
    axes: Sequence[Axis]
    runs: Sequence[GridRun]

    @property
    def metric(self) -> Metric:
        """The score on the development set by which the runs are ranked; all runs have the same objective."""
        return metric_of(self.runs[0].config.training.objective)

    def has_own_data(self, run: GridRun) -> bool:
        """Return whether the data directory of `run` is inside the directory of the sweep."""
        return run.data.parent == self.folder / "data"

    def config_of(self, run: GridRun) -> Path:
        """Return the path of the initial configuration of `run`."""
        return self.folder / "configs" / f"{run.name}.yaml"


def make_plan(request: Request) -> Plan:
    """Load the configuration of every combination and choose its directories. Raises ConfigError with all problems."""
    axes = parse_grid(request.grid)
    set_keys = [override.partition("=")[0] for override in request.overrides]
    problems = [f"--grid {axis.key}: also changed by --set; leave out one" for axis in axes if axis.key in set_keys]
    if "training.run_dir" in set_keys:
        problems.append("--set training.run_dir: every run has its own directory within --dir; leave it out")
    if problems:
        raise ConfigError(problems)
    labels = [axis.label for axis in axes]
    configs = _load_all(request, axes)
    data = _data_directories(request, axes, configs)
    runs = [
        GridRun(values, config, RunDir(request.folder / name_of(labels, values)), data[values])
        for values, config in configs.items()
    ]
    return Plan(request.folder, axes, runs)


def _load_all(request: Request, axes: Sequence[Axis]) -> dict[tuple[str, ...], Config]:
    """Load the configuration of every combination. Raises ConfigError, which reports a common problem once."""
    configs: dict[tuple[str, ...], Config] = {}
    problems: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    combinations = list(itertools.product(*(axis.values for axis in axes)))
    for values in combinations:
        name = name_of([axis.label for axis in axes], values)
        given = [f"{axis.key}={value}" for axis, value in zip(axes, values, strict=True)]
        try:
            configs[values] = load_config(request.config, [*request.overrides, *given])
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(_as_grid_problem(problem, axes), []).append(name)
            continue
        other = names.setdefault(configs[values].model_dump_json(), name)
        if other != name:
            problems[f"--grid: {other} and {name} are the same settings"] = []
    objectives = {config.training.objective for config in configs.values()}
    if len(objectives) > 1:
        found = " and ".join(sorted(objectives))
        problems[f"--grid training.objective: runs of {found} have no common score; sweep each by itself"] = []
    if problems:
        raise ConfigError([_message(problem, names, len(combinations)) for problem, names in problems.items()])
    return configs


def _as_grid_problem(problem: str, axes: Sequence[Axis]) -> str:
    """Return `problem` with --grid instead of --set if it concerns a value of the grid."""
    is_of_grid = any(problem.startswith(tuple(f"--set {axis.key}{end}" for end in ":.=")) for axis in axes)
    return problem.replace("--set", "--grid", 1) if is_of_grid else problem


def _message(problem: str, names: Sequence[str], n: int) -> str:
    """Return `problem` preceded by the combinations with this problem, unless all `n` have it."""
    if len(names) in (0, n):
        return problem
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {problem}"


def _data_directories(
    request: Request, axes: Sequence[Axis], configs: dict[tuple[str, ...], Config]
) -> dict[tuple[str, ...], Path]:
    """Return the data directory of every combination.

    Combinations with another text or tokenizer have their own, inside the directory of the sweep. Otherwise the data
    directory is --data or the config's.
    """
    texts = {values: json.dumps([recipe(config), str(config.data.root)]) for values, config in configs.items()}
    indices = [i for i, axis in enumerate(axes) if axis.key.startswith(("data.", "tokenizer."))]
    # a grid with a single value must not use data prepared with another value
    if len(set(texts.values())) == 1 and all(axes[i].key in SAME_TEXT for i in indices):
        if request.data is not None and any(axis.key == "data.dir" for axis in axes):
            raise ConfigError(["--data and data.dir in the grid cannot be combined"])
        if request.data is not None and not DataDir(request.data).is_prepared:
            raise ConfigError([f"--data {request.data}: no data directory; create it with nmt prepare"])
        return {values: request.data or config.data.directory for values, config in configs.items()}
    if request.data is not None:
        raise ConfigError(["--data: the grid changes the text or its tokenizer, which needs several data directories"])
    own: dict[str, Path] = {}
    for values, text in texts.items():
        name = name_of([axes[i].label for i in indices], [values[i] for i in indices])
        own.setdefault(text, request.folder / "data" / name)
    return {values: own[text] for values, text in texts.items()}


def check_places(plan: Plan) -> None:
    """Raise CheckpointError with all problems if the directory contains anything but runs of this sweep."""
    if plan.folder.exists() and not plan.folder.is_dir():
        raise CheckpointError(f"{plan.folder}: not a directory; choose another directory with --dir")
    if is_run(plan.folder):
        raise CheckpointError(f"{plan.folder}: a run directory; choose a directory for the sweep with --dir")
    problems = [f"{one.run.path}: {problem}" for one in plan.runs for problem in _problems(one)]
    if problems:
        raise CheckpointError(*problems)


def _problems(one: GridRun) -> Iterator[str]:
    run = one.run
    if not run.info.exists():
        # a run that was killed while starting leaves its lock, and may start again
        if run.path.exists() and not run.lock.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
            yield "exists already, but is not a run directory; choose another directory with --dir"
        return
    summary = summarise(run)
    if summary.state == "running":
        holder = summary.holder or {}
        yield (
            f"process {holder.get('pid', '?')} on {holder.get('host', '?')} is training it; wait for it to end or stop "
            "it"
        )
    elif summary.state == "broken":
        yield f"{summary.problem}; repair it, or remove it to train it again"
    else:
        for key, old, new in changed_settings(run, one.config):
            change = f"trained with {key} {old or 'not set'}, this sweep has {new or 'not set'}"
            yield f"{change}; choose another directory with --dir"


def check_texts(plan: Plan) -> None:
    """Raise NmtError with all problems if a finished run was not trained on the text that this sweep uses."""
    problems = []
    for one in plan.runs:
        data = DataDir(one.data)
        if not data.is_prepared or not one.is_finished:
            continue
        if read_info(one.run).corpus != Corpora.open(data, one.config.data).fingerprint:
            change = f"trained on text different from that of {data.path}"
            problems.append(f"{one.run.path}: {change}; choose another directory with --dir")
    if problems:
        raise NmtError(*problems)


# --- the table ----------------------------------------------------------------------------------

DIFFERENCE = "to the first"
DIFFERENCE_NOTE = (
    f"{DIFFERENCE}: difference to the first row, the best, with its 95 % interval over seeds, on the development set, "
    "on which checkpoints were selected"
)
OF_A_TEST_SET = "; nmt compare --group tests over seeds and the lines of a test set"
LABELS: dict[Metric, str] = {"bleu": "BLEU", "perplexity": "perplexity", "accuracy": "accuracy"}
PREDICTED = ("training.denoising.", "training.masked.", "training.causal.")
"""Sections whose settings decide which pieces are predicted, and from what."""


@dataclass(frozen=True)
class Row:
    """The result of one run, with None for unknown values."""

    planned: GridRun
    state: Literal["finished", "failed", "stopped", "not started"]
    score: float | None = None
    """The best score on the development set, by `Plan.metric`."""
    weights: str | None = None
    """The weights that `nmt translate` uses by default."""
    step: int | None = None
    minutes: float | None = None
    ended_by: str | None = None
    """The setting of `training` whose limit ended it, such as max_minutes."""
    note: str = ""
    """The error, if it failed."""


def rows_of(plan: Plan, errors: Mapping[str, str]) -> list[Row]:
    """Return the rows, best first; `errors` contains the messages of failed runs by name."""
    rows = [_row(one, errors.get(one.name, "")) for one in plan.runs]
    return sorted(rows, key=lambda row: math.inf if row.score is None else rank(plan.metric, row.score))


def _row(one: GridRun, error: str) -> Row:
    if not one.run.info.exists():
        return Row(one, "failed" if error else "not started", note=error)
    summary, selected = summarise(one.run), Selected()
    with suppress(CheckpointError):
        selected = read_selected(one.run)
    is_finished = summary.state == "finished"
    return Row(
        one,
        "finished" if is_finished else "failed" if error else "stopped",
        summary.best_score,
        selected.weights if selected.model_fields_set else None,
        summary.step,
        summary.minutes,
        selected.finished_by if is_finished else None,
        error,
    )


def render(plan: Plan, rows: Sequence[Row]) -> str:
    """Format the table as text and, if the grid has seeds, the means over the finished runs of each combination."""
    n = len(plan.axes)
    header = [*(printable(axis.label) for axis in plan.axes), f"dev {LABELS[plan.metric]}"]
    lines = [[*header, "weights", "step", "min", "state", ""]]
    for row in rows:
        lines.append([
            *map(printable, row.planned.values),
            score(row.score, plan.metric),
            row.weights or "-",
            "-" if row.step is None else f"{row.step:,}",
            "-" if row.minutes is None else f"{row.minutes:.1f}",
            row.state,
            printable(row.note),
        ])  # fmt: skip
    table = "\n".join(aligned(lines, right=(n, n + 2, n + 3)))
    return table + _lengths(rows) + _development_sets(plan, rows) + _means(plan, rows)


def score(value: float | None, metric: Metric = "bleu") -> str:
    """Format a score with two decimals, accuracy with four."""
    return "-" if value is None else f"{value:.{_decimals(metric)}f}"


def _decimals(metric: Metric) -> int:
    return 4 if metric == "accuracy" else 2


def _lengths(rows: Sequence[Row]) -> str:
    """Return a note if the time limit ended runs after different numbers of steps."""
    finished = [row for row in rows if row.state == "finished"]
    n_timed = sum(row.ended_by == "max_minutes" for row in finished)
    steps = sorted({row.step or 0 for row in finished})
    if not n_timed or len(steps) < 2:
        return ""
    return (
        f"\n\ntraining.max_minutes ended {n_timed} of {len(finished)} finished runs: they have different lengths, "
        f"{steps[0]:,} to {steps[-1]:,} steps"
    )


def _development_sets(plan: Plan, rows: Sequence[Row]) -> str:
    """Return a warning if the scores of the runs are not comparable, because their development sets differ."""
    directories = [DataDir(path) for path in {row.planned.data for row in rows if row.score is not None}]
    texts = {sums for data in directories if (sums := _checksums(data, DataDir.text))}
    if len(texts) > 1:
        return (
            f"\n\nwarning: the runs have {len(texts)} different development sets, whose {LABELS[plan.metric]} "
            "cannot be compared; name the same files in data.valid for all"
        )
    if plan.metric != "perplexity":
        return ""
    reasons = [axis.key for axis in plan.axes if axis.key.startswith(PREDICTED) and len(axis.values) > 1]
    if len({sums for data in directories if (sums := _checksums(data, DataDir.ids))}) > 1:
        reasons.insert(0, "the vocabulary")
    if not reasons:
        return ""
    return f"\n\nwarning: perplexities of different pieces cannot be compared: {' and '.join(reasons)} differ"


def _checksums(data: DataDir, file_of: Callable[[DataDir, str, str], Path]) -> tuple[str, ...]:
    """Return the checksums of the development set for each language; empty if the manifest lacks them."""
    with suppress(DataError, KeyError):
        if data.pairs.is_file():
            pairs = read_pairs_manifest(data).pairs
            return tuple(each for pair in pairs for each in _checksums(DataDir(data.path / pair), file_of))
        manifest = read_manifest(data)
        return tuple(manifest.files[file_of(data, "valid", language).name].sha256 for language in manifest.languages)
    return ()


def _means(plan: Plan, rows: Sequence[Row]) -> str:
    """Format the means over seeds as a table; empty if the grid has no seeds."""
    metric, indices = plan.metric, [i for i, axis in enumerate(plan.axes) if axis.key != SEED]
    if len(indices) == len(plan.axes):
        return ""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        scores = groups.setdefault(tuple(row.planned.values[i] for i in indices), [])
        if row.state == "finished" and row.score is not None:
            scores.append(row.score)
    means = {
        values: rank(metric, statistics.fmean(scores)) if scores else math.inf for values, scores in groups.items()
    }
    best, *others = sorted(groups, key=lambda values: means[values])
    differences = ["", *(difference(groups[best], groups[values], metric) for values in others)]
    lines = [[*(printable(plan.axes[i].label) for i in indices), f"dev {LABELS[metric]}", "seeds", DIFFERENCE]]
    for values, shown in zip((best, *others), differences, strict=True):
        scores = groups[values]
        lines.append([*map(printable, values), mean(scores, metric), str(len(scores)), shown])
    n, note = len(indices), ""
    if any(differences):
        note = f"\n{DIFFERENCE_NOTE}{OF_A_TEST_SET if metric == 'bleu' else ''}"
    else:
        lines = [line[:-1] for line in lines]
    table = "\n".join(aligned(lines, right=(n, n + 1, n + 2)))
    return f"\n\nmean over finished seeds ± standard deviation ({SEED})\n{table}{note}"


def mean(scores: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the mean of scores, with the standard deviation if there are several."""
    if len(scores) < 2:
        return score(scores[0] if scores else None, metric)
    return f"{score(statistics.fmean(scores), metric)} ± {score(statistics.stdev(scores), metric)}"


def difference(first: Sequence[float], other: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the difference of means with its 95 % interval over seeds (Welch); empty if there are too few scores."""
    if min(len(first), len(other)) < MIN_RUNS:
        return ""
    variances = [statistics.variance(scores) / len(scores) for scores in (first, other)]
    error, freedom = error_and_freedom(variances, (len(first), len(other)))
    value, half = statistics.fmean(other) - statistics.fmean(first), error * quantile(CONFIDENCE, freedom)
    shown, low, high = (f"{x:+.{_decimals(metric)}f}" for x in (value, value - half, value + half))
    return f"{shown} [{low}, {high}]"


def as_tsv(plan: Plan, rows: Sequence[Row]) -> str:
    """Format the table as TSV: full keys, no rounding; unknown values are empty."""
    facts = (f"dev_{plan.metric}", "weights", "step", "minutes", "ended_by", "state", "run", "note")
    lines = [[*(axis.key for axis in plan.axes), *facts]]
    for row in rows:
        values = (
            row.score, row.weights, row.step, row.minutes, row.ended_by, row.state, row.planned.run.path, row.note,
        )  # fmt: skip
        lines.append([*row.planned.values, *("" if value is None else str(value) for value in values)])
    return "".join("\t".join(map(printable, line)) + "\n" for line in lines)


# --- the processes ------------------------------------------------------------------------------

POLL = 0.1  # seconds
STOPPED = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 129, 130, 143, StoppedError.exit_status}
"""Exit statuses of a command that was stopped by a signal."""


@dataclass(frozen=True)
class Job:
    """A command of `nmt`."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    """The file to which the output is appended."""


@dataclass(frozen=True)
class Ended:
    """The outcome of a command."""

    is_stopped: bool
    error: str
    """The last line of the output; empty unless the command failed."""


def run_jobs(
    jobs: Sequence[Job], slots: Sequence[Mapping[str, str]], stop: Stop, report: Callable[[Job, Ended], None]
) -> dict[str, str]:
    """Run commands, one at a time in each slot, and return the errors of failed commands by name.

    slots: the environment variables of each slot. report: called when a command has ended. On a request to stop,
    running commands are sent SIGTERM and no more are started.
    """
    waiting, free, is_stopping = list(reversed(jobs)), list(reversed(slots)), False
    running: dict[subprocess.Popen[bytes], tuple[Job, Mapping[str, str]]] = {}
    errors: dict[str, str] = {}
    try:
        while running or (waiting and stop.reason is None):
            while waiting and free and stop.reason is None:
                job, slot = waiting.pop(), free.pop()
                running[_start(job, slot)] = job, slot
                say(f"[{len(jobs) - len(waiting)}/{len(jobs)}] {job.name}: started")
            if stop.reason is not None and not is_stopping:
                is_stopping = True
                for process in running:
                    process.terminate()
            time.sleep(POLL)
            for process in [process for process in running if process.poll() is not None]:
                job, slot = running.pop(process)
                free.append(slot)
                ended = _end_of(job, process.returncode)
                if ended.error:
                    errors[job.name] = ended.error
                report(job, ended)
    finally:
        for process in running:  # left only after an error or a second Ctrl-C
            process.kill()
    return errors


def _start(job: Job, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_own(job.log, os.O_APPEND), "ab") as log:
        log.write(f"$ nmt {shlex.join(job.arguments)}\n".encode())
        log.flush()
        return subprocess.Popen(
            [sys.executable, "-m", "nmt", *job.arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment},
        )  # fmt: skip


def _end_of(job: Job, status: int) -> Ended:
    if status == 0 or status in STOPPED:
        return Ended(status != 0, "")
    if status < 0:
        return Ended(False, f"killed by signal {-status}, {signal.strsignal(-status)}")
    lines = [line.strip() for line in job.log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return Ended(False, lines[-1].removeprefix("nmt: "))


def sweep(request: Request) -> list[Row]:
    """Train the unfinished runs of a grid, print a table of all runs, and return its rows.

    Raises ConfigError or CheckpointError before anything is written, ConfigError, DataError or CheckpointError before
    anything is trained, StoppedError if stopped by a signal.
    """
    plan = make_plan(request)
    check_places(plan)
    refuse_links(plan.folder / name for name in ("lock", "configs", "logs", "data"))
    plan.folder.mkdir(parents=True, exist_ok=True)
    with Lock(plan.folder / "lock", "sweeps"), stopping() as stop:
        rows = _train(request, plan, stop)
    show(*render(plan, rows).split("\n"))
    show(f"{_table(plan)}: written")
    n_left = sum(row.state != "finished" for row in rows)
    if n_left and (stop.signal is not None or not any(row.state == "failed" for row in rows)):
        reason = f"stopped by {stop.signal}" if stop.signal else f"{n_left} of {len(rows)} runs are not finished"
        raise StoppedError(f"{reason}; run the same command again to continue")
    return rows


def _table(plan: Plan) -> Path:
    return plan.folder / "sweep.tsv"


def _write_table(plan: Plan, errors: Mapping[str, str]) -> list[Row]:
    rows = rows_of(plan, errors)
    replace_file(_table(plan), as_tsv(plan, rows))
    return rows


def _train(request: Request, plan: Plan, stop: Stop) -> list[Row]:
    """Prepare missing data directories, then train the unfinished runs, and return the rows of the table."""
    to_do = [one for one in plan.runs if not one.is_finished]
    for one in to_do:
        path = plan.config_of(one)
        path.parent.mkdir(parents=True, exist_ok=True)
        # the configuration that was checked, even if its file changes meanwhile
        replace_file(path, dump_config(one.config), may_follow=False)
    n = len(plan.runs)
    finished = f", {n - len(to_do)} of them already finished" if len(to_do) < n else ""
    say(f"{n} run{'s' * (n > 1)} in {plan.folder}{finished}")
    failed = _prepare(plan, to_do, stop)
    if failed and all(one.data in failed for one in plan.runs):
        raise ConfigError([f"cannot train: {error}" for error in failed.values()])
    errors = {one.name: failed[one.data] for one in to_do if one.data in failed}
    _write_table(plan, errors)
    check_texts(plan)

    def report(job: Job, ended: Ended) -> None:
        if ended.error:
            errors[job.name] = ended.error
            say(f"{job.name}: failed: {ended.error} (full output: {job.log})")
        row = next(row for row in rows_of(plan, errors) if row.planned.name == job.name)
        if not ended.error:
            found = "" if row.score is None else f", dev {LABELS[plan.metric]} {score(row.score, plan.metric)}"
            say(f"{job.name}: {row.state} at step {row.step or 0:,}{found}")
        with suppress(OSError):  # a full disk must not end a run
            _write_table(plan, errors)

    jobs = [_training(plan, one) for one in to_do if one.data not in failed]
    run_jobs(jobs, _slots(request), stop, report)
    return _write_table(plan, errors)


def _prepare(plan: Plan, to_do: Sequence[GridRun], stop: Stop) -> dict[Path, str]:
    """Prepare data directories that are missing or inside the sweep's, and return error messages by path.

    An existing data directory is used as it is, like by `nmt train`; differences from the configuration are printed.
    """
    jobs: dict[Path, Job] = {}
    differing = set[str]()
    for one in to_do:
        data = DataDir(one.data)
        if data.is_prepared and not plan.has_own_data(one):
            with suppress(DataError):  # damage fails the runs that need it
                differing |= {line for line in (unlike(data, one.config),) if line is not None}
        elif one.data not in jobs:
            arguments = ("prepare", "--config", str(plan.config_of(one)), "--data", str(one.data))
            jobs[one.data] = Job(
                f"prepare {one.data}", arguments, plan.folder / "logs" / f"prepare-{one.data.name}.log"
            )
    for line in sorted(differing):
        say(line)

    def report(job: Job, ended: Ended) -> None:
        outcome = f"failed: {ended.error} (full output: {job.log})" if ended.error else "done"
        say(f"{job.name}: {'stopped' if ended.is_stopped else outcome}")

    errors = run_jobs([*jobs.values()], [{}], stop, report)
    return {
        path: f"{path} could not be prepared: {errors[job.name]}" for path, job in jobs.items() if job.name in errors
    }


def _training(plan: Plan, one: GridRun) -> Job:
    start = ("--resume",) if one.run.info.exists() else ("--config", str(plan.config_of(one)))
    where = ("--run", str(one.run.path), "--data", str(one.data))
    return Job(one.name, ("train", *start, *where), plan.folder / "logs" / f"{one.name}.log")


def _slots(request: Request) -> list[dict[str, str]]:
    """Return the environment variables of concurrent runs, which set a GPU and a share of the CPU cores."""
    slots = [{"CUDA_VISIBLE_DEVICES": device} for device in request.devices] or [{} for _ in range(request.jobs)]
    if len(slots) > 1 and "OMP_NUM_THREADS" not in os.environ:
        share = {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // len(slots)))}
        slots = [slot | share for slot in slots]
    return slots
