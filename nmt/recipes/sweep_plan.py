"""The runs of a sweep: one for each combination of a grid of settings, and which of them are trained further.

The runs that differ only in their seed are an *arm*. With successive halving (Jamieson and Talwalkar, 2016), arms with
low scores on the development set are eliminated after a few updates. Which ones are is a function of the logs of the
runs, so that a sweep that was killed continues with the same arms.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from nmt.config import Config
from nmt.config.load import load_config, read_tree
from nmt.config.messages import problems_in
from nmt.errors import ConfigError, error_text
from nmt.evaluate.metrics import metric_name
from nmt.files.yaml12 import parse_yaml
from nmt.layout import DataDir, RunDir
from nmt.prepare.recipe import recipe
from nmt.runs.info import text_score
from nmt.runs.listing import summarise
from nmt.runs.log import best_scores, rank
from nmt.section import Section
from nmt.training.facts import Metric

LONGEST_VALUE, LONGEST_NAME = 40, 160  # characters; file systems allow names of 255 bytes
SEED = "training.seed"
SAME_TEXT = re.compile(r"data\.(dir|direction|directions|direction_temperature|temperature|train\.\d+\.(weight|to))")
"""Settings of data that, by themselves, do not change the text."""

Values = Mapping[str, str]
"""The value of each axis as given on the command line, by its key."""


@dataclass(frozen=True)
class Axis:
    """A setting and its values as given on the command line."""

    key: str
    values: tuple[str, ...]
    label: str
    """The last part of the key, or the whole key if another axis has the same last part."""


def parse_grid(options: Sequence[str]) -> list[Axis]:
    """Parse the `--grid` options. Raises ConfigError with all problems."""
    problems = []
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
        label = key if ends.count(end) > 1 else end
        axes.append(Axis(key, values, label))
    return axes


def split_values(text: str) -> list[str]:
    """Split `text` at the commas of a YAML list, but not at commas within quotes, brackets and braces.

    Raises yaml.YAMLError if it is not a list.
    """
    node = yaml.compose(f"[{text}]", yaml.SafeLoader)
    assert node is not None, "a list"
    return [text[value.start_mark.index - 1 : value.end_mark.index - 1].strip() for value in node.value]


def name_of(axes: Sequence[Axis], values: Values) -> str:
    """Return the name of a combination, safe on any file system: `dropout=0.1,seed=2`.

    Other characters are replaced by _, with a short checksum to keep different values apart.
    """
    name = ",".join(f"{_safe(axis.label)}={_safe(values[axis.key])}" for axis in axes)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{_checksum(name)}"


def _safe(text: str) -> str:
    safe = re.sub("[^A-Za-z0-9_.+-]+", "_", text.removesuffix(".part"))  # no run, see `is_run`
    if safe == text and len(text) <= LONGEST_VALUE:
        return text
    return f"{safe.strip('_')[:LONGEST_VALUE]}-{_checksum(text)}"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6]


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
    if isinstance(value, str) and re.fullmatch(r"[\w./+-]+", value) and parse_yaml(value, value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class SweepOptions:
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
    halving: Halving | None = None
    compare: str | None = None
    """See `Study`."""

    @classmethod
    def of_study(cls, path: str) -> SweepOptions:
        """Read the file of a study. Raises ConfigError."""
        where, tree = read_tree(path)
        if "grid" not in tree:
            raise ConfigError(f"{where}: has no grid: write a study, or give --grid KEY=A,B; see nmt sweep --help")
        try:
            study = Study.model_validate(tree)
        except ValidationError as error:
            raise ConfigError(*[f"{where}: {problem}" for problem in problems_in(error, Study)]) from error
        grid = []
        for key, values in study.grid.items():
            listed = ",".join(map(_as_text, values))
            grid.append(f"{key}={listed}")
        return cls(
            study.config,
            grid=grid,
            overrides=[f"{key}={_as_text(value)}" for key, value in study.set.items()],
            directory=Path("runs") / f"sweep-{Path(path).stem}",
            halving=study.halving,
            compare=study.compare,
        )

    @property
    def folder(self) -> Path:
        """The directory of the sweep; docs/files.md lists its contents."""
        return self.directory or Path("runs") / f"sweep-{Path(self.config).stem}"


@dataclass(frozen=True)
class GridRun:
    """The run of one combination of the grid."""

    values: Values
    config: Config
    run: RunDir
    data: Path

    @property
    def name(self) -> str:
        return self.run.path.name

    @property
    def is_finished(self) -> bool:
        return self.run.info.exists() and summarise(self.run).state == "finished"

    def best(self, metric: Metric, updates: int | None = None) -> float | None:
        """Return the best score so far, or that after a number of updates; of a run that has finished before, its best
        one."""
        scores = best_scores(self.run, metric, updates)
        if not scores and self.is_finished:
            scores = best_scores(self.run, metric)
        return min(scores.values(), key=partial(rank, metric), default=None)


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep in the order of the grid."""

    folder: Path
    axes: Sequence[Axis]
    runs: Sequence[GridRun]
    rungs: Sequence[tuple[int, int]] = ()  # numbers of updates, and how many arms are trained further after them

    @property
    def arms(self) -> dict[str, list[GridRun]]:
        """The runs of each arm by its name, which is empty if only the seed varies."""
        arms = dict[str, list[GridRun]]()
        for run in self.runs:
            arms.setdefault(name_of(self.arm_axes, run.values), []).append(run)
        return arms

    @property
    def arm_axes(self) -> list[Axis]:
        """The axes other than the seed."""
        return [axis for axis in self.axes if axis.key != SEED]

    @property
    def metric(self) -> Metric:
        """The score on the development set by which all runs are ranked: chrF if BLEU says little about one run's.

        All have the same objective. Nothing is ranked before all runs that can be have started.
        """
        metric = self.runs[0].config.training.facts.metric
        if metric == "bleu" and any(text_score(planned.run) == "chrf" for planned in self.runs):
            return "chrf"
        return metric

    def config_of(self, run: GridRun) -> Path:
        """Return the path of the initial configuration of `run`."""
        return self.folder / "configs" / f"{run.name}.yaml"


def make_plan(options: SweepOptions) -> SweepPlan:
    """Load the configuration of every combination and choose its directories. Raises ConfigError with all problems."""
    axes = parse_grid(options.grid)
    set_keys = [override.partition("=")[0] for override in options.overrides]
    problems = [f"--grid {axis.key}: also changed by --set; leave out one" for axis in axes if axis.key in set_keys]
    if "training.run_dir" in set_keys:
        problems.append("--set training.run_dir: every run has its own directory within --dir; leave it out")
    if problems:
        raise ConfigError(*problems)
    configs = _load_all(options, axes)
    runs = []
    for (values, config), data in zip(configs, _data_directories(options, axes, configs), strict=True):
        runs.append(GridRun(values, config, RunDir(options.folder / name_of(axes, values)), data))
    plan = SweepPlan(options.folder, axes, runs)
    return replace(plan, rungs=_rungs(options, plan))


def _rungs(options: SweepOptions, plan: SweepPlan) -> list[tuple[int, int]]:
    """Return the rungs of successive halving. Raises ConfigError with all problems of the study."""
    halving = options.halving
    n_arms = len(plan.arms)
    rungs = list[tuple[int, int]]()
    problems = []
    if options.compare is not None:
        data = plan.runs[0].config.data
        splits = dict.fromkeys(["valid", *data.test, *data.drawn])
        if options.compare not in splits or not plan.runs[0].config.training.facts.translates:
            problems.append(f"compare: must be a split that the runs translate, one of {', '.join(splits)}")
        if n_arms < 2 or (halving is not None and halving.keep < 2):
            problems.append(
                "compare: needs two arms: several values of a setting besides training.seed, and halving.keep > 1"
            )
    if halving is not None:
        trainings = [run.config.training for run in plan.runs]
        updates = halving.updates
        last = min(training.max_steps for training in trainings)
        if updates >= last or any(updates % training.validate_every_steps for training in trainings):
            limits = f"below training.max_steps = {last} and a multiple of training.validate_every_steps"
            problems.append(f"halving.updates: must be {limits}, found {updates}")
        if n_arms <= halving.keep:
            problems.append(f"halving.keep: must be below the number of arms, {n_arms}, found {halving.keep}")
        while n_arms > halving.keep and updates < last:
            n_arms = max(halving.keep, math.ceil(n_arms / halving.factor))
            if updates * halving.factor >= last:
                n_arms = halving.keep
            rungs.append((updates, n_arms))
            updates *= halving.factor
    if problems:
        raise ConfigError(*problems)
    return rungs


def _load_all(options: SweepOptions, axes: Sequence[Axis]) -> list[tuple[Values, Config]]:
    """Load the configuration of every combination. Raises ConfigError, which reports a common problem once."""
    loaded: list[tuple[Values, Config]] = []
    problems: dict[str, list[str]] = {}
    first_with: dict[str, str] = {}
    keys = "|".join(re.escape(axis.key) for axis in axes)
    combinations = list(itertools.product(*(axis.values for axis in axes)))
    for combination in combinations:
        values = dict(zip([axis.key for axis in axes], combination, strict=True))
        name = name_of(axes, values)
        try:
            config = load_config(options.config, options.overrides, [*map("=".join, values.items())])
        except ConfigError as error:
            for problem in error.problems:
                problem = re.sub(rf"^--set (?=(?:{keys})[:.=])", "--grid ", problem)
                problems.setdefault(problem, []).append(name)
            continue
        other = first_with.setdefault(config.model_dump_json(), name)
        if other != name:
            problems[f"--grid: {other} and {name} are the same settings"] = []
        loaded.append((values, config))
    objectives = sorted({config.training.facts.name for _, config in loaded})
    if len(objectives) > 1:
        of = " and ".join(objectives)
        problems[f"--grid: runs of the objectives {of} have no common score; sweep each by itself"] = []
    if problems:
        raise ConfigError(*[_message(problem, names, len(combinations)) for problem, names in problems.items()])
    return loaded


def _message(problem: str, names: Sequence[str], n: int) -> str:
    """Return `problem` preceded by the combinations with this problem, unless all `n` have it."""
    if len(names) in (0, n):
        return problem
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {problem}"


def _data_directories(
    options: SweepOptions, axes: Sequence[Axis], configs: Sequence[tuple[Values, Config]]
) -> list[Path]:
    """Return the data directory of every combination.

    Combinations with another text or tokenizer have their own, inside the directory of the sweep. Otherwise the data
    directory is --data or the config's.
    """
    texts = [json.dumps([recipe(config.data, config.tokenizer), str(config.data.root)]) for _, config in configs]
    text_axes = [axis for axis in axes if axis.key.startswith(("data.", "tokenizer."))]
    # a grid with a single value must not use data prepared with another value
    if len(set(texts)) == 1 and all(SAME_TEXT.fullmatch(axis.key) for axis in text_axes):
        if options.data is None:
            return [config.data.directory for _, config in configs]
        if any(axis.key == "data.dir" for axis in axes):
            raise ConfigError("--data and data.dir in the grid cannot be combined")
        if not DataDir(options.data).is_prepared:
            raise ConfigError(f"--data {options.data}: no data directory; create it with nmt prepare")
        return [options.data] * len(configs)
    if options.data is not None:
        raise ConfigError("--data: the grid changes the text or its tokenizer, which needs several data directories")
    name_of_text: dict[str, str] = {}
    for text, (values, _) in zip(texts, configs, strict=True):
        name_of_text.setdefault(text, name_of(text_axes, values))
    return [options.folder / "data" / name_of_text[text] for text in texts]


def stage_of(plan: SweepPlan, errors: Mapping[str, str]) -> tuple[list[str], int | None, dict[str, str]]:
    """Return which arms are trained further, after how many updates they are compared, and why others are eliminated.

    The number of updates is None if the arms are trained to the end. All is computed from the logs of the runs. An arm
    with a run in `errors` is not trained further.
    """
    runs_of = plan.arms
    eliminated = dict[str, str]()
    arms = list(runs_of)
    metric = plan.metric
    for updates, n_kept in plan.rungs:
        means = {}
        for arm in arms:
            scores = []
            for run in runs_of[arm]:
                if (score := run.best(metric, updates)) is not None:
                    scores.append(score)
            if len(scores) == len(runs_of[arm]):
                means[arm] = statistics.fmean(scores)
            elif not any(run.name in errors for run in runs_of[arm]):
                return arms, updates, eliminated
        arms = sorted(means, key=lambda arm: rank(metric, means[arm]))
        best = [means[arm] for arm in arms[:n_kept]]
        kept = [arm for arm in arms if means[arm] in best]  # with arms that are as good as the last one
        for place, arm in enumerate(arms[len(kept) :], start=len(kept) + 1):
            mean = f"mean dev {metric_name(metric)} {shown_score(means[arm], metric)}"
            eliminated[arm] = f"at {updates:,} updates: {mean}, rank {place} of {len(arms)}, {len(kept)} kept"
        arms = kept
    return arms, None, eliminated


def shown_score(score: float | None, metric: Metric = "bleu", sign: str = "") -> str:
    """Format a score with two decimals, accuracy with four. sign: `+` for a difference."""
    if score is None:
        return "-"
    n_decimals = 4 if metric == "accuracy" else 2
    return f"{score:{sign}.{n_decimals}f}"
