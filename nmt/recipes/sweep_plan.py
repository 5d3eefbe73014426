"""The plan of a sweep: its grid, its trainings and their directories, checked before anything starts."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from nmt.config import Config
from nmt.config.load import load_config, load_saved_config
from nmt.config.messages import differences
from nmt.data.corpus import read_manifest
from nmt.errors import CheckpointError, ConfigError, NmtError, error_text
from nmt.layout import DataDir, RunDir
from nmt.prepare.recipe import recipe
from nmt.runs.info import read_info
from nmt.runs.listing import is_run, summarise
from nmt.runs.log import Metric, metric_of

LONGEST_VALUE, LONGEST_NAME = 40, 160  # characters; file systems take names of 255 bytes


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
            problems.append(f"--grid {key}: every training has a run directory of its own anyway; --dir says where")
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
    ends = [_end(key) for key in values_of]
    return [Axis(key, values, key if ends.count(_end(key)) > 1 else _end(key)) for key, values in values_of.items()]


def _end(key: str) -> str:
    return key.rpartition(".")[2]


def split_values(text: str) -> list[str]:
    """Split `text` at the commas of a YAML list, not those within quotes, brackets and braces.

    Raises yaml.YAMLError if it is no list.
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


LOCATIONS = {"data.dir", "data.root", "training.run_dir"}
"""Settings that may differ from those of an existing run, whose directories may have moved."""


@dataclass(frozen=True)
class Request:
    """The options of `nmt sweep`."""

    config: str
    grid: Sequence[str]
    overrides: Sequence[str] = ()
    """Overrides for all trainings."""
    data: Path | None = None
    directory: Path | None = None
    jobs: int = 1
    """Number of trainings at a time; has no effect with `devices`."""
    devices: Sequence[str] = ()
    """Values of CUDA_VISIBLE_DEVICES; each device runs one training at a time."""
    include_shorter: bool = False
    """Include in the means trainings that the time limit ended before others with the same settings."""

    @property
    def folder(self) -> SweepDir:
        """The directory of the sweep."""
        return SweepDir(self.directory or Path("runs") / f"sweep-{Path(self.config).stem}")


@dataclass(frozen=True)
class SweepDir:
    """The directory of a sweep.

    NAME/                    a run directory, named after its combination: dropout=0.1,seed=2
    configs/NAME.yaml        its initial configuration
    logs/NAME.log            output of `nmt train`, or of `nmt prepare` for data
    data/NAME/               a data directory, if the grid has settings of the text
    sweep.tsv                the table
    lock                     held while a process sweeps here
    """

    path: Path

    def run(self, name: str) -> RunDir:
        return RunDir(self.path / name)

    def config(self, name: str) -> Path:
        return self.path / "configs" / f"{name}.yaml"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def data(self, name: str) -> Path:
        return self.path / "data" / name

    @property
    def table(self) -> Path:
        return self.path / "sweep.tsv"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def written_in_place(self) -> list[Path]:
        """Paths that must not be symbolic links."""
        return [self.lock, self.config("").parent, self.log("").parent, self.data("").parent]


@dataclass(frozen=True)
class Training:
    """One combination of the grid."""

    name: str
    values: tuple[str, ...]
    """One value per axis."""
    config: Config
    run: RunDir
    data: Path

    @property
    def is_finished(self) -> bool:
        """Whether the training is complete."""
        return self.run.info.exists() and summarise(self.run).state == "finished"


@dataclass(frozen=True)
class Plan:
    """The trainings of a sweep in the order of the grid."""

    axes: Sequence[Axis]
    trainings: Sequence[Training]
    data_names: dict[Path, str] = field(default_factory=dict)
    """The data directories inside the sweep's directory, with their names."""

    @property
    def metric(self) -> Metric:
        """The score on the development set by which the runs are ranked; they share one objective."""
        return metric_of(self.trainings[0].config.training.objective)


def make_plan(request: Request) -> Plan:
    """Load the configuration of every combination and choose its directories. Raises ConfigError with all problems."""
    axes = parse_grid(request.grid)
    set_keys = [override.partition("=")[0] for override in request.overrides]
    given_twice = [axis.key for axis in axes if axis.key in set_keys]
    problems = [f"--grid {key}: --set changes it, too; leave one out" for key in given_twice]
    if "training.run_dir" in set_keys:
        problems.append("--set training.run_dir: every training has its own within --dir; leave it out")
    if problems:
        raise ConfigError(problems)
    configs = _load_all(request, axes)
    data, data_names = _data_directories(request, axes, configs)
    labels = [axis.label for axis in axes]
    trainings = []
    for values, config in configs.items():
        name = name_of(labels, values)
        trainings.append(Training(name, values, config, request.folder.run(name), data[values]))
    return Plan(axes, trainings, data_names)


def _load_all(request: Request, axes: Sequence[Axis]) -> dict[tuple[str, ...], Config]:
    """Load the configuration of every combination. Raises ConfigError, with problems of several reported once."""
    configs: dict[tuple[str, ...], Config] = {}
    problems: dict[str, list[str]] = {}
    combinations = list(itertools.product(*(axis.values for axis in axes)))
    same: dict[str, str] = {}
    for values in combinations:
        name = name_of([axis.label for axis in axes], values)
        given = [f"{axis.key}={value}" for axis, value in zip(axes, values, strict=True)]
        try:
            configs[values] = load_config(request.config, [*request.overrides, *given])
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(_as_grid_problem(problem, axes), []).append(name)
            continue
        other = same.setdefault(configs[values].model_dump_json(), name)
        if other != name:
            problems[f"--grid: {other} and {name} are the same training"] = []
    for axis in axes:
        if configs and all(axis.key == f"training.{config.training.idle_rate}" for config in configs.values()):
            problems[f"--grid {axis.key}: has no effect with this training.schedule"] = []
    objectives = {config.training.objective for config in configs.values()}
    if len(objectives) > 1:
        names = " and ".join(sorted(objectives))
        problems[f"--grid training.objective: no score ranks runs of {names}; sweep each by itself"] = []
    if problems:
        raise ConfigError([_message(problem, names, len(combinations)) for problem, names in problems.items()])
    return configs


def _as_grid_problem(problem: str, axes: Sequence[Axis]) -> str:
    """Return `problem` with --grid in place of --set if it is about a value of the grid."""
    is_of_grid = any(problem.startswith(tuple(f"--set {axis.key}{end}" for end in ":.=")) for axis in axes)
    return problem.replace("--set", "--grid", 1) if is_of_grid else problem


def _message(problem: str, names: Sequence[str], n: int) -> str:
    """Return `problem` preceded by the combinations that have it, unless all `n` do."""
    if len(names) in (0, n):
        return problem
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {problem}"


def _data_directories(
    request: Request, axes: Sequence[Axis], configs: dict[tuple[str, ...], Config]
) -> tuple[dict[tuple[str, ...], Path], dict[Path, str]]:
    """Return the data directory of every combination, and the names of those inside the sweep's directory.

    These are used where the text or its tokenizer differ; otherwise it is --data, or what the config names.
    """
    texts = {values: _text_key(config) for values, config in configs.items()}
    indices = [i for i, axis in enumerate(axes) if axis.key.startswith(("data.", "tokenizer."))]
    # a grid with a single value must not use data that was prepared with another value
    if len(set(texts.values())) == 1 and all(axes[i].key in ("data.dir", "data.direction") for i in indices):
        if request.data is not None and any(axis.key == "data.dir" for axis in axes):
            raise ConfigError(["--data: the grid has data.dir; leave one out"])
        if request.data is not None and not DataDir(request.data).manifest.is_file():
            raise ConfigError([f"--data {request.data}: no data directory; nmt prepare makes one"])
        return {values: request.data or config.data.directory for values, config in configs.items()}, {}
    if request.data is not None:
        raise ConfigError(["--data: the grid changes the text or its tokenizer, which needs several data directories"])
    own: dict[str, Path] = {}
    names: dict[Path, str] = {}
    for values, text in texts.items():
        name = name_of([axes[i].label for i in indices], [values[i] for i in indices])
        if text not in own:
            own[text] = request.folder.data(name)
            names[own[text]] = name
    return {values: own[text] for values, text in texts.items()}, names


def _text_key(config: Config) -> str:
    """Return a key that configurations have in common if they can share a data directory, in either direction."""
    return json.dumps([recipe(config), str(config.data.root)])


# --- existing runs ------------------------------------------------------------------------------


def check_places(plan: Plan, folder: SweepDir) -> None:
    """Raise CheckpointError with all problems if the directory holds anything but trainings of this sweep."""
    if folder.path.exists() and not folder.path.is_dir():
        raise CheckpointError(f"{folder.path}: not a directory; name another directory with --dir")
    if is_run(folder.path):
        raise CheckpointError(f"{folder.path}: a run directory; name a directory for the sweep with --dir")
    problems = [problem for training in plan.trainings for problem in _problems(training)]
    if problems:
        raise CheckpointError(*problems)


def _problems(training: Training) -> Iterator[str]:
    run = training.run
    if not run.info.exists():
        # a training that died while starting leaves its lock, and may start again
        if run.path.exists() and not run.lock.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
            yield f"{run.path}: exists already, but is not a run directory; name another directory with --dir"
        return
    summary = summarise(run)
    if summary.state == "running":
        holder = summary.holder or {}
        yield (
            f"{run.path}: process {holder.get('pid', '?')} on {holder.get('host', '?')} trains here; "
            "wait for it to end or stop it"
        )
    elif summary.state == "broken":
        yield f"{run.path}: {summary.problem}; repair it, or remove it to train it again"
    else:
        before, wanted = (
            config.without_licenses().model_dump(mode="json")
            for config in (load_saved_config(run.config), training.config)
        )
        for key, old, new in differences(before, wanted):
            if key not in LOCATIONS:
                change = f"trained with {key} {old or 'not set'}, this sweep has {new or 'not set'}"
                yield f"{run.path}: {change}; name another directory with --dir"


def check_texts(plan: Plan) -> None:
    """Raise NmtError with all problems if a finished training used another text than this sweep."""
    problems = []
    for training in plan.trainings:
        data = DataDir(training.data)
        if not data.manifest.is_file() or not training.is_finished:
            continue
        if read_info(training.run).corpus != read_manifest(data).fingerprint:
            change = f"trained on another text than that of {data.path}"
            problems.append(f"{training.run.path}: {change}; name another directory with --dir")
    if problems:
        raise NmtError(*problems)
