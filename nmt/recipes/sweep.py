"""`nmt sweep`: train one run for each combination of a grid of settings, and compare the runs.

The runs that differ only in their seed are an *arm*. With successive halving (Jamieson and Talwalkar, 2016), arms with
low scores on the development set are eliminated after a few updates. Which ones are is a function of the logs of the
runs, so that a sweep that was killed continues with the same arms.
"""

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError

from nmt.config import Config
from nmt.config.load import dump_config, load_config, read_tree
from nmt.config.messages import problems_in
from nmt.config.objectives import Metric
from nmt.config.section import Section
from nmt.config.yaml12 import parse_yaml
from nmt.console import say
from nmt.data.corpus import Corpora, read_manifest, read_pairs_manifest
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError, StoppedError, error_text
from nmt.evaluate.compare import screen
from nmt.evaluate.compare.compare import Comparison, compare
from nmt.evaluate.compare.systems import Translating, for_directions, translate_runs
from nmt.evaluate.metrics import metric_name
from nmt.evaluate.significance import CONFIDENCE, MIN_RUNS, error_and_freedom, quantile
from nmt.files.write import Lock, open_own, refuse_links, replace_file
from nmt.layout import DataDir, RunDir
from nmt.prepare.recipe import recipe, unlike
from nmt.process import Stop, stopping
from nmt.recipes.directory import changed_settings
from nmt.runs.info import Selected, read_info, read_selected
from nmt.runs.listing import is_run, summarise
from nmt.runs.log import best_scores, rank
from nmt.tables import Cell, Format, Table, as_csv, render

LONGEST_VALUE, LONGEST_NAME = 40, 160  # characters; file systems allow names of 255 bytes
SEED = "training.seed"
SAME_TEXT = re.compile(r"data\.(dir|direction|directions|direction_temperature|temperature|train\.\d+\.(weight|to))")
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
        raise ConfigError(*problems)
    ends = [key.rpartition(".")[2] for key in values_of]
    axes = []
    for (key, values), end in zip(values_of.items(), ends, strict=True):
        axes.append(Axis(key, values, key if ends.count(end) > 1 else end))
    return axes


def split_values(text: str) -> list[str]:
    """Split `text` at the commas of a YAML list, but not at commas within quotes, brackets and braces.

    Raises yaml.YAMLError if it is not a list.
    """
    node = yaml.compose(f"[{text}]", yaml.SafeLoader)
    assert node is not None, "a list"
    return [text[value.start_mark.index - 1 : value.end_mark.index - 1].strip() for value in node.value]


def name_of(axes: Sequence[Axis], values: Sequence[str]) -> str:
    """Return the name of a combination, safe on any file system: `dropout=0.1,seed=2`.

    Other characters are replaced by _, with a short checksum to keep different values apart.
    """
    pairs = zip(axes, values, strict=True)
    name = ",".join(f"{_safe(axis.label)}={_safe(value)}" for axis, value in pairs)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{_checksum(name)}"


def _safe(text: str) -> str:
    safe = re.sub("[^A-Za-z0-9_.+-]+", "_", text.removesuffix(".part"))  # no run, see `is_run`
    if safe == text and len(text) <= LONGEST_VALUE:
        return text
    return f"{safe.strip('_')[:LONGEST_VALUE]}-{_checksum(text)}"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6]


# --- the plan -----------------------------------------------------------------------------------


class Halving(Section):
    """Successive halving: the best 1/factor of the arms are kept, and trained for factor times as many updates."""

    updates: int = Field(ge=1)  # after which arms are eliminated for the first time
    factor: int = Field(2, ge=2)
    keep: int = Field(2, ge=1)  # number of arms that are trained to the end


class Study(Section):
    """A sweep in a file; settings have dotted keys."""

    config: str  # a path or a name, as for --config
    set: dict[str, object] = Field({})
    grid: dict[str, list[object]] = Field(min_length=1)
    halving: Halving | None = None
    compare: str | None = None  # the split on which the arms are compared at the end


def _as_text(value: object) -> str:
    """Return a value of the file as on the command line: plain if possible, else as JSON, which is YAML."""
    is_plain = isinstance(value, str) and re.fullmatch(r"[\w./+-]+", value) and parse_yaml(value, value) == value
    return str(value) if is_plain else json.dumps(value, ensure_ascii=False)


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
    study: Study | None = None

    @classmethod
    def of_study(cls, path: str) -> Request:
        """Read the file of a study. Raises ConfigError."""
        where, tree = read_tree(path)
        if "grid" not in tree:
            raise ConfigError(f"{where}: has no grid: write a study, or give --grid KEY=A,B; see nmt sweep --help")
        try:
            study = Study.model_validate(tree)
        except ValidationError as error:
            raise ConfigError(*[f"{where}: {problem}" for problem in problems_in(error, Study)]) from error
        grid = [f"{key}={','.join(map(_as_text, values))}" for key, values in study.grid.items()]
        overrides = [f"{key}={_as_text(value)}" for key, value in study.set.items()]
        return cls(study.config, grid, overrides, directory=Path("runs") / f"sweep-{Path(path).stem}", study=study)

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
    rungs: Sequence[tuple[int, int]] = ()  # numbers of updates, and how many arms are trained further after them

    def arms(self) -> dict[str, list[GridRun]]:
        """Return the runs of each arm by its name, which is empty if only the seed varies."""
        indices, arms = self.arm_axes(), dict[str, list[GridRun]]()
        axes = [self.axes[i] for i in indices]
        for run in self.runs:
            arms.setdefault(name_of(axes, [run.values[i] for i in indices]), []).append(run)
        return arms

    def arm_axes(self) -> list[int]:
        """Return the indices of the axes other than the seed."""
        return [i for i, axis in enumerate(self.axes) if axis.key != SEED]

    @property
    def metric(self) -> Metric:
        """The score on the development set by which the runs are ranked; all runs have the same objective."""
        return self.runs[0].config.training.facts.metric

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
        raise ConfigError(*problems)
    configs = _load_all(request, axes)
    data = _data_directories(request, axes, configs)
    runs = [
        GridRun(values, config, RunDir(request.folder / name_of(axes, values)), data[values])
        for values, config in configs.items()
    ]
    plan = Plan(request.folder, axes, runs)
    return plan if request.study is None else replace(plan, rungs=_rungs(request.study, plan))


def _rungs(study: Study, plan: Plan) -> list[tuple[int, int]]:
    """Return the rungs of successive halving. Raises ConfigError with all problems of the study."""
    configs, n, rungs = [one.config for one in plan.runs], len(plan.arms()), list[tuple[int, int]]()
    problems, halving = list[str](), study.halving
    if study.compare is not None:
        splits = {"valid": None, **configs[0].data.test, **configs[0].data.drawn}
        if study.compare not in splits or plan.metric != "bleu":
            problems.append(f"compare: must be a split that the runs translate, one of {', '.join(splits)}")
        if n < 2 or (halving is not None and halving.keep < 2):
            problems.append(
                "compare: needs two arms: several values of a setting besides training.seed, and halving.keep > 1"
            )
    if halving is not None:
        updates, last = halving.updates, min(each.training.max_steps for each in configs)
        if updates >= last or any(updates % each.training.validate_every_steps for each in configs):
            limits = f"below training.max_steps = {last} and a multiple of training.validate_every_steps"
            problems.append(f"halving.updates: must be {limits}, found {updates}")
        if n <= halving.keep:
            problems.append(f"halving.keep: must be below the number of arms, {n}, found {halving.keep}")
        while n > halving.keep and updates < last:
            rung, updates = updates, updates * halving.factor
            n = max(halving.keep, math.ceil(n / halving.factor)) if updates < last else halving.keep
            rungs.append((rung, n))
    if problems:
        raise ConfigError(*problems)
    return rungs


def _load_all(request: Request, axes: Sequence[Axis]) -> dict[tuple[str, ...], Config]:
    """Load the configuration of every combination. Raises ConfigError, which reports a common problem once."""
    configs: dict[tuple[str, ...], Config] = {}
    problems: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    combinations = list(itertools.product(*(axis.values for axis in axes)))
    for values in combinations:
        name = name_of(axes, values)
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
    objectives = {config.training.facts.name for config in configs.values()}
    if len(objectives) > 1:
        found = " and ".join(sorted(objectives))
        problems[f"--grid: runs of the objectives {found} have no common score; sweep each by itself"] = []
    if problems:
        raise ConfigError(*[_message(problem, names, len(combinations)) for problem, names in problems.items()])
    return configs


def _as_grid_problem(problem: str, axes: Sequence[Axis]) -> str:
    """Return `problem` with --grid instead of --set if it concerns a value of the grid."""
    keys = "|".join(re.escape(axis.key) for axis in axes)
    return re.sub(rf"^--set (?=(?:{keys})[:.=])", "--grid ", problem)


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
    if len(set(texts.values())) == 1 and all(SAME_TEXT.fullmatch(axes[i].key) for i in indices):
        if request.data is not None and any(axis.key == "data.dir" for axis in axes):
            raise ConfigError("--data and data.dir in the grid cannot be combined")
        if request.data is not None and not DataDir(request.data).is_prepared:
            raise ConfigError(f"--data {request.data}: no data directory; create it with nmt prepare")
        return {values: request.data or config.data.directory for values, config in configs.items()}
    if request.data is not None:
        raise ConfigError("--data: the grid changes the text or its tokenizer, which needs several data directories")
    by_text: dict[str, Path] = {}
    directories: dict[tuple[str, ...], Path] = {}
    for values, text in texts.items():
        name = name_of([axes[i] for i in indices], [values[i] for i in indices])
        directories[values] = by_text.setdefault(text, request.folder / "data" / name)
    return directories


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
        found, _, _ = str(summary.problem).partition("; ")  # what follows is advice for other commands
        yield f"{found}; repair the run, or remove it to train it again"
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


# --- successive halving -----------------------------------------------------------------------------


def stage_of(plan: Plan, errors: Mapping[str, str]) -> tuple[list[str], int | None, dict[str, str]]:
    """Return which arms are trained further, after how many updates they are compared, and why others are eliminated.

    The number of updates is None if the arms are trained to the end. All is computed from the logs of the runs. An arm
    with a run in `errors` is not trained further.
    """
    runs_of, eliminated = plan.arms(), dict[str, str]()
    arms = list(runs_of)
    for updates, n_kept in plan.rungs:
        means: dict[str, float] = {}
        for arm in arms:
            scores = [_score_at(one, updates, plan.metric) for one in runs_of[arm]]
            known = [value for value in scores if value is not None]
            if len(known) == len(scores):
                means[arm] = statistics.fmean(known)
            elif not any(one.name in errors for one in runs_of[arm]):
                return arms, updates, eliminated
        arms = sorted(means, key=lambda arm: rank(plan.metric, means[arm]))
        best = [means[arm] for arm in arms[:n_kept]]
        kept = [arm for arm in arms if means[arm] in best]  # with arms that are as good as the last one
        for place, arm in enumerate(arms[len(kept) :], start=len(kept) + 1):
            value = f"mean dev {metric_name(plan.metric)} {score(means[arm], plan.metric)}"
            eliminated[arm] = f"at {updates:,} updates: {value}, rank {place} of {len(arms)}, {len(kept)} kept"
        arms = kept
    return arms, None, eliminated


def _score_at(one: GridRun, updates: int, metric: Metric) -> float | None:
    """Return the best score after a number of updates, or the best score of a run that has finished before."""
    found = best_scores(one.run, metric, updates) or (best_scores(one.run, metric) if one.is_finished else {})
    return min(found.values(), key=partial(rank, metric), default=None)


# --- the table ----------------------------------------------------------------------------------

DIFFERENCE = "to the first"
DIFFERENCE_NOTE = (
    f"{DIFFERENCE}: difference to the first row, the best, with its 95 % interval over seeds, on the development set, "
    "on which checkpoints were selected"
)
OF_A_TEST_SET = "; nmt compare --group tests over seeds and the lines of a test set"
PREDICTED = ("training.denoising.", "training.masked.", "training.causal.")
"""Sections whose settings decide which pieces are predicted, and from what."""


State = Literal["finished", "eliminated", "failed", "stopped", "not started"]


@dataclass(frozen=True)
class Row:
    """The result of one run, with None for unknown values."""

    planned: GridRun
    state: State
    score: float | None = None
    """The best score on the development set, by `Plan.metric`."""
    weights: str | None = None
    """The weights that `nmt translate` uses by default."""
    step: int | None = None
    minutes: float | None = None
    ended_by: str | None = None
    """The setting of `training` whose limit ended it, such as max_minutes."""
    note: str = ""
    """The error if it failed, or why its arm was eliminated, even if it had finished before."""


def rows_of(plan: Plan, errors: Mapping[str, str]) -> list[Row]:
    """Return the rows, best first; `errors` contains the messages of failed runs by name."""
    eliminated = stage_of(plan, errors)[2]
    rows = [
        _row(one, errors.get(one.name, ""), eliminated.get(arm, ""))
        for arm, runs in plan.arms().items()
        for one in runs
    ]
    return sorted(rows, key=lambda row: math.inf if row.score is None else rank(plan.metric, row.score))


def _row(one: GridRun, error: str, eliminated: str) -> Row:
    is_started, note = one.run.info.exists(), error or eliminated
    state: State = "stopped" if is_started else "not started"
    if note:
        state = "failed" if error else "eliminated"
    if not is_started:
        return Row(one, state, note=note)
    summary, selected = summarise(one.run), Selected()
    with suppress(CheckpointError):
        selected = read_selected(one.run)
    weights = selected.weights if selected.model_fields_set else None
    row = Row(one, state, summary.best_score, weights, summary.step, summary.minutes, note=note)
    if summary.state == "finished":
        return replace(row, state="finished", ended_by=selected.finished_by)
    return row


def tables_of(plan: Plan, rows: Sequence[Row]) -> list[Table]:
    """Return the table of the runs and, if the grid has seeds, of the means over the finished runs of each arm."""
    n, dev = len(plan.axes), f"dev {metric_name(plan.metric)}"
    header = [*(axis.label for axis in plan.axes), dev, "weights", "step", "min", "state", ""]
    lines: list[list[str | Cell]] = [
        [
            *row.planned.values,
            score(row.score, plan.metric),
            row.weights or "-",
            "-" if row.step is None else f"{row.step:,}",
            "-" if row.minutes is None else f"{row.minutes:.1f}",
            row.state,
            row.note,
        ]
        for row in rows
    ]
    notes = [*_lengths(rows), *_development_sets(plan, rows)]
    table = Table(header, lines, (n, n + 2, n + 3), notes=notes, records=records_of(plan, rows))
    return [table, *_means(plan, rows)]


def score(value: float | None, metric: Metric = "bleu") -> str:
    """Format a score with two decimals, accuracy with four."""
    return "-" if value is None else f"{value:.{_decimals(metric)}f}"


def _decimals(metric: Metric) -> int:
    return 4 if metric == "accuracy" else 2


def _lengths(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a note if the time limit ended runs after different numbers of steps."""
    finished = [row for row in rows if row.state == "finished"]
    n_timed = sum(row.ended_by == "max_minutes" for row in finished)
    steps = sorted({row.step or 0 for row in finished})
    if n_timed and len(steps) > 1:
        yield (
            f"training.max_minutes ended {n_timed} of {len(finished)} finished runs: they have different lengths, "
            f"{steps[0]:,} to {steps[-1]:,} steps"
        )


def _development_sets(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a warning if the scores of the runs are not comparable, because their development sets differ."""
    directories = {row.planned.data for row in rows if row.score is not None}
    n_texts = _n_different(directories, DataDir.text)
    if n_texts > 1:
        yield (
            f"warning: the runs have {n_texts} different development sets, whose {metric_name(plan.metric)} "
            "cannot be compared; name the same files in data.valid for all"
        )
    if n_texts > 1 or plan.metric != "perplexity":
        return
    reasons = [axis.key for axis in plan.axes if axis.key.startswith(PREDICTED) and len(axis.values) > 1]
    if _n_different(directories, DataDir.ids) > 1:
        reasons.insert(0, "the vocabulary")
    if reasons:
        yield f"warning: perplexities of different pieces cannot be compared: {' and '.join(reasons)} differ"


def _n_different(directories: Iterable[Path], file_of: Callable[[DataDir, str, str], Path]) -> int:
    """Count the different development sets, apart from those without checksums."""
    return len({_checksums(DataDir(path), file_of) for path in directories} - {()})


def _checksums(data: DataDir, file_of: Callable[[DataDir, str, str], Path]) -> tuple[str, ...]:
    """Return the checksums of the development set for each language; empty if the manifest lacks them."""
    with suppress(DataError, KeyError):
        if data.pairs.is_file():
            pairs = read_pairs_manifest(data).pairs
            return tuple(each for pair in pairs for each in _checksums(DataDir(data.path / pair), file_of))
        manifest = read_manifest(data)
        return tuple(manifest.files[file_of(data, "valid", language).name].sha256 for language in manifest.languages)
    return ()


def _means(plan: Plan, rows: Sequence[Row]) -> Iterator[Table]:
    """Yield a table of the means over seeds, the best first; none if the grid has no seeds."""
    metric, indices = plan.metric, plan.arm_axes()
    if len(indices) == len(plan.axes):
        return
    scores: dict[tuple[str, ...], list[float]] = {}
    notes: dict[tuple[str, ...], str] = {}
    for row in rows:
        values = tuple(row.planned.values[i] for i in indices)
        of_arm = scores.setdefault(values, [])
        if row.state == "finished" and row.score is not None:
            of_arm.append(row.score)
        notes.setdefault(values, row.note if row.state in ("eliminated", "finished") else "")
    means = {values: rank(metric, statistics.fmean(of_arm)) for values, of_arm in scores.items() if of_arm}
    best, *others = sorted(scores, key=lambda values: means.get(values, math.inf))
    differences = {values: difference(scores[best], scores[values], metric) for values in others}
    lines: list[list[str | Cell]] = [
        [*values, Cell(mean(scores[values], metric), values == best), str(len(scores[values])),
         differences.get(values, ""), notes[values]]
        for values in (best, *others)
    ]  # fmt: skip
    n, to_first = len(indices), DIFFERENCE if any(differences.values()) else ""
    header = [*(plan.axes[i].label for i in indices), f"dev {metric_name(metric)}", "seeds", to_first, ""]
    title = f"mean over finished seeds ± standard deviation ({SEED})"
    note = f"{DIFFERENCE_NOTE}{OF_A_TEST_SET if metric == 'bleu' else ''}"
    yield Table(header, lines, range(n, n + 3), title, [note] if to_first else [])


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


def records_of(plan: Plan, rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return the results of each run by name: full keys, no rounding, None for unknown values."""
    return [
        {
            **{axis.key: value for axis, value in zip(plan.axes, row.planned.values, strict=True)},
            f"dev_{plan.metric}": row.score,
            **{name: getattr(row, name) for name in ("weights", "step", "minutes", "ended_by", "state")},
            "run": str(row.planned.run.path),
            "note": row.note,
        }
        for row in rows
    ]


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
                    say(f"{job.name}: failed: {ended.error} (full output: {job.log})")
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


def sweep(request: Request, how: Format = "text") -> list[Row]:
    """Train the unfinished runs of a grid, compare the arms of a study, print tables, and return the rows of all runs.

    Raises ConfigError or CheckpointError before anything is written, ConfigError, DataError or CheckpointError before
    anything is trained, StoppedError if stopped by a signal.
    """
    plan = make_plan(request)
    check_places(plan)
    refuse_links(plan.folder / name for name in ("lock", "configs", "logs", "data"))
    plan.folder.mkdir(parents=True, exist_ok=True)
    with Lock(plan.folder / "lock", "sweeps"), stopping(Stop()) as stop:
        rows = _train(request, plan, stop)
    n_left = sum(row.state not in ("finished", "eliminated") for row in rows)
    split = request.study.compare if request.study is not None and not n_left else None
    comparisons = [] if split is None else list(_compared(split, plan))
    document = {"runs": records_of(plan, rows), "comparisons": [*map(screen.as_json, comparisons)]}
    compared = [replace(screen.as_table(each), records=()) for each in comparisons]  # the CSV is about runs
    print(render(how, [*tables_of(plan, rows), *compared], document))
    say(f"{_table(plan)}: written")
    if n_left and (stop.signal is not None or not any(row.state == "failed" for row in rows)):
        reason = f"stopped by {stop.signal}" if stop.signal else f"{n_left} of {len(rows)} runs are not finished"
        raise StoppedError(f"{reason}; run the same command again to continue")
    return rows


def _compared(split: str, plan: Plan) -> Iterator[Comparison]:
    """Compare the arms that were not eliminated on a split, in each direction; all their runs have finished."""
    left = stage_of(plan, {})[0]
    members = {arm: [one.run.path for one in runs] for arm, runs in plan.arms().items() if arm in left}
    how = Translating(lambda config: config.search, split)
    for direction in for_directions(members, how):
        yield compare(*translate_runs(members, direction))


def _table(plan: Plan) -> Path:
    return plan.folder / "sweep.tsv"


def _write_table(plan: Plan, errors: Mapping[str, str]) -> list[Row]:
    rows = rows_of(plan, errors)
    replace_file(_table(plan), as_csv(records_of(plan, rows), "\t") + "\n")
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
        raise ConfigError(*[f"cannot train: {error}" for error in failed.values()])
    errors = {one.name: failed[one.data] for one in to_do if one.data in failed}
    _write_table(plan, errors)
    check_texts(plan)

    def report(job: Job, ended: Ended) -> None:
        if ended.error:
            errors[job.name] = ended.error
        row = next(row for row in rows_of(plan, errors) if row.planned.name == job.name)
        if not ended.error:
            found = "" if row.score is None else f", dev {metric_name(plan.metric)} {score(row.score, plan.metric)}"
            say(f"{job.name}: {row.state} at step {row.step or 0:,}{found}")
        with suppress(OSError):  # a full disk must not end a run
            _write_table(plan, errors)

    before: int | None = -1
    while stop.reason is None:
        arms, updates, _ = stage_of(plan, errors)
        if updates == before:  # the runs have ended, or were stopped from outside
            break
        jobs = [
            _training(plan, one, updates)
            for arm in arms
            for one in plan.arms()[arm]
            if one.name not in errors and (_score_at(one, updates, plan.metric) is None if updates else one in to_do)
        ]
        run_jobs(jobs, _slots(request), stop, report)
        before = updates
    return _write_table(plan, errors)


def _prepare(plan: Plan, to_do: Sequence[GridRun], stop: Stop) -> dict[Path, str]:
    """Prepare data directories that are missing or inside the sweep's, and return error messages by path.

    An existing data directory is used as it is, like by `nmt train`; differences from the configuration are printed.
    """
    jobs: dict[Path, Job] = {}
    differing = set[str]()
    for one in to_do:
        data = DataDir(one.data)
        if data.is_prepared and one.data.parent != plan.folder / "data":
            with suppress(DataError):  # damage fails the runs that need it
                differing.add(unlike(data, one.config) or "")
        elif one.data not in jobs:
            arguments = ("prepare", "--config", str(plan.config_of(one)), "--data", str(one.data))
            jobs[one.data] = Job(
                f"prepare {one.data}", arguments, plan.folder / "logs" / f"prepare-{one.data.name}.log"
            )
    for line in sorted(differing - {""}):
        say(line)

    def report(job: Job, ended: Ended) -> None:
        if not ended.error:
            say(f"{job.name}: {'stopped' if ended.is_stopped else 'done'}")

    errors = run_jobs([*jobs.values()], [{}], stop, report)
    return {
        path: f"{path} could not be prepared: {errors[job.name]}" for path, job in jobs.items() if job.name in errors
    }


def _training(plan: Plan, one: GridRun, updates: int | None) -> Job:
    end = () if updates is None else ("--stop-at", str(updates))
    start = ("--resume",) if one.run.info.exists() else ("--config", str(plan.config_of(one)))
    where = ("--run", str(one.run.path), "--data", str(one.data))
    return Job(one.name, ("train", *start, *where, *end), plan.folder / "logs" / f"{one.name}.log")


def _slots(request: Request) -> list[dict[str, str]]:
    """Return the environment variables of concurrent runs, which set a GPU and a share of the CPU cores."""
    slots = [{"CUDA_VISIBLE_DEVICES": device} for device in request.devices] or [{} for _ in range(request.jobs)]
    if len(slots) > 1 and "OMP_NUM_THREADS" not in os.environ:
        share = {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // len(slots)))}
        slots = [slot | share for slot in slots]
    return slots
