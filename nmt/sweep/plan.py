"""What a sweep trains, where and on what; all of it checked before anything starts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.corpus import read_manifest
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info
from nmt.runs.listing import is_run, summarise
from nmt.sweep.grid import Axis, name_of, parse_grid

# of a configuration, what may be other in a run that is there: places, which may have moved
PLACES = {("data", "dir"), ("data", "root"), ("training", "run_dir")}


@dataclass(frozen=True)
class Request:
    """What `nmt sweep` is asked for."""

    config: str
    grid: Sequence[str]
    overrides: Sequence[str] = ()
    """What all trainings have in common."""
    data: Path | None = None
    directory: Path | None = None
    jobs: int = 1
    """Trainings at a time, if `devices` does not say."""
    devices: Sequence[str] = ()
    """For CUDA_VISIBLE_DEVICES: one training at a time on each."""
    include_shorter: bool = False
    """Have trainings in the means that time has ended before others of the same settings."""

    @property
    def folder(self) -> SweepDir:
        """Where everything goes."""
        return SweepDir(self.directory or Path("runs") / f"sweep-{Path(self.config).stem}")


@dataclass(frozen=True)
class SweepDir:
    """The directory of a sweep.

    NAME/                    a run directory, named after its combination: dropout=0.1,seed=2
    configs/NAME.yaml        the configuration that it starts with
    logs/NAME.log            what `nmt train` (or `nmt prepare`, for data) has said
    data/NAME/               a data directory, where the grid has settings of the text
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
        """What must be no link."""
        return [self.lock, self.config("").parent, self.log("").parent, self.data("").parent]


@dataclass(frozen=True)
class Training:
    """One combination."""

    name: str
    values: tuple[str, ...]
    """One of each axis."""
    config: Config
    run: RunDir
    data: Path

    @property
    def is_finished(self) -> bool:
        """Whether it has come to its end."""
        return self.run.info.exists() and summarise(self.run).state == "finished"


@dataclass(frozen=True)
class Plan:
    """The trainings of a sweep in the order of the grid."""

    axes: Sequence[Axis]
    trainings: Sequence[Training]
    data_names: dict[Path, str] = field(default_factory=dict)
    """The data directories of the sweep's own, and what they are called."""


def make_plan(request: Request) -> Plan:
    """Every combination with its configuration and its places. Raises ConfigError with all problems."""
    axes = parse_grid(request.grid)
    set_keys = [override.partition("=")[0] for override in request.overrides]
    both = [axis.key for axis in axes if axis.key in set_keys]
    problems = [f"--grid {key}: --set gives it, too; leave one out" for key in both]
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
    """The configuration of every combination. Raises ConfigError; what several have in common is said once."""
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
                problems.setdefault(_of_the_grid(problem, axes), []).append(name)
            continue
        other = same.setdefault(configs[values].model_dump_json(), name)
        if other != name:
            problems[f"--grid: {other} and {name} are the same training"] = []
    for axis in axes:
        if configs and all(axis.key == f"training.{config.training.idle_rate}" for config in configs.values()):
            problems[f"--grid {axis.key}: counts for nothing with training.schedule as it is"] = []
    if problems:
        raise ConfigError([_told(problem, names, len(combinations)) for problem, names in problems.items()])
    return configs


def _of_the_grid(problem: str, axes: Sequence[Axis]) -> str:
    """`problem` of an override with the name of the option that it came from."""
    is_of_grid = any(problem.startswith(tuple(f"--set {axis.key}{end}" for end in ":.=")) for axis in axes)
    return problem.replace("--set", "--grid", 1) if is_of_grid else problem


def _told(problem: str, names: Sequence[str], n: int) -> str:
    if len(names) in (0, n):
        return problem
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: {problem}"


def _data_directories(
    request: Request, axes: Sequence[Axis], configs: dict[tuple[str, ...], Config]
) -> tuple[dict[tuple[str, ...], Path], dict[Path, str]]:
    """The data directory of every combination, and the names of those that are the sweep's own.

    Where the text or its tokenizer differ, they are the sweep's own; else --data, or what the config names.
    """
    recipes = {values: _recipe(config) for values, config in configs.items()}
    places = [i for i, axis in enumerate(axes) if axis.key.startswith(("data.", "tokenizer."))]
    # a grid with one value of such a setting may not take what another value was prepared with
    if len(set(recipes.values())) == 1 and all(axes[i].key in ("data.dir", "data.direction") for i in places):
        if request.data is not None and any(axis.key == "data.dir" for axis in axes):
            raise ConfigError(["--data: the grid has data.dir; leave one out"])
        if request.data is not None and not DataDir(request.data).manifest.is_file():
            raise ConfigError([f"--data {request.data}: no data directory; nmt prepare makes one"])
        return {values: request.data or config.data.directory for values, config in configs.items()}, {}
    if request.data is not None:
        raise ConfigError(["--data: the grid changes the text or its tokenizer, which needs several data directories"])
    own: dict[str, Path] = {}
    names: dict[Path, str] = {}
    for values, recipe in recipes.items():
        name = name_of([axes[i].label for i in places], [values[i] for i in places])
        if recipe not in own:
            own[recipe] = request.folder.data(name)
            names[own[recipe]] = name
    return {values: own[recipe] for values, recipe in recipes.items()}, names


def _recipe(config: Config) -> str:
    """What a data directory is made from; it serves both directions."""
    data: dict[str, Any] = config.data.model_dump(mode="json", exclude={"direction", "dir"})
    return json.dumps([config.data.languages, data, config.tokenizer.model_dump(mode="json")])


# --- what is there already ----------------------------------------------------------------------


def check_places(plan: Plan, folder: SweepDir) -> None:
    """See that what stands in the sweep's directory is of this sweep. Raises CheckpointError with all problems."""
    if folder.path.exists() and not folder.path.is_dir():
        raise CheckpointError(f"{folder.path}: not a directory; --dir DIR takes another place")
    if is_run(folder.path):
        raise CheckpointError(f"{folder.path}: a run directory; give the sweep one of its own with --dir DIR")
    problems = [problem for training in plan.trainings for problem in _problems(training)]
    if problems:
        raise CheckpointError(*problems)


def _problems(training: Training) -> Iterator[str]:
    run = training.run
    if not run.info.exists():
        # a training that died as it began has left its lock, and the next may begin there
        if run.path.exists() and not run.lock.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
            yield f"{run.path}: exists already, and is no run; --dir DIR takes another place"
        return
    found = summarise(run)
    if found.state == "running":
        holder = found.holder or {}
        yield (
            f"{run.path}: process {holder.get('pid', '?')} on {holder.get('host', '?')} trains here; "
            "wait for it to end or stop it"
        )
    elif found.state == "broken":
        yield f"{run.path}: {found.problem}; repair it, or remove it to train it again"
    else:
        before = load_config(run.config)
        for key, was, wanted in _differences(before, training.config):
            yield f"{run.path}: trained with {key} {was}, wanted is {wanted}; --dir DIR takes another place"


def _differences(before: Config, wanted: Config) -> Iterator[tuple[str, str, str]]:
    """Key and both values of every setting that differs."""
    old, new = before.model_dump(mode="json"), wanted.model_dump(mode="json")
    for section, values in new.items():
        for key, value in values.items():
            if old[section][key] != value and (section, key) not in PLACES:
                yield f"{section}.{key}", _shown(old[section][key]), _shown(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_texts(plan: Plan) -> None:
    """See that finished trainings have learned from the text of this sweep. Raises NmtError with all problems."""
    problems = []
    for training in plan.trainings:
        data = DataDir(training.data)
        if not data.manifest.is_file() or not training.is_finished:
            continue
        if read_info(training.run).corpus != read_manifest(data)["fingerprint"]:
            problems.append(
                f"{training.run.path}: trained on another text than {data.path} has now; --dir DIR takes another place"
            )
    if problems:
        raise NmtError(*problems)
