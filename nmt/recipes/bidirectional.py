"""Bidirectional pre-training (Bi-SimCut, Gao et al., 2022): a model learns both directions, then only one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Config
from nmt.config.load import load_config, load_saved_config
from nmt.console import say, show
from nmt.errors import ConfigError
from nmt.layout import RunDir
from nmt.recipes.directory import changed_settings, resume_option, run_nmt
from nmt.runs.listing import summarise


@dataclass(frozen=True)
class Bidirectional:
    """The options of `nmt bidirectional`."""

    config: str
    both: str
    """Length of the training in both directions: steps, `6000`, or minutes, `30m`."""
    one: str
    """Length of the training in one direction."""
    overrides: Sequence[str] = ()
    """Changes to the config of both trainings, `section.key=value`."""
    name: str | None = None
    """The runs are runs/NAME-both and runs/NAME-both-DIRECTION; by default the config's name."""


@dataclass(frozen=True)
class Training:
    """One of the two trainings."""

    run: RunDir
    config: str
    overrides: Sequence[str]
    init_from: Path | None = None

    def settings(self) -> Config:
        """Load the configuration. Raises ConfigError."""
        init_from = [] if self.init_from is None else [f"training.init_from={json.dumps(str(self.init_from))}"]
        return load_config(self.config, [*self.overrides, *init_from])

    def command(self) -> list[str]:
        """Return the arguments of `nmt` that start or resume it."""
        where = ["--config", self.config, "--run", str(self.run.path)]
        changes = [word for override in self.overrides for word in ("--set", override)]
        init_from = [] if self.init_from is None else ["--init-from", str(self.init_from)]
        return ["train", *resume_option(self.run), *where, *changes, *init_from]

    def is_finished(self) -> bool:
        """Whether the run has finished with these settings."""
        if not self.run.info.is_file() or summarise(self.run).state != "finished":
            return False
        return not changed_settings(self.run, self.settings())


def bidirectional(request: Bidirectional) -> int:
    """Train in both directions, then in the config's only, each by `nmt train` in its own process.

    A training that has finished is skipped, one that was stopped is resumed. Return the exit status of the first that
    fails or is stopped, else 0. Raises ConfigError before anything is trained.
    """
    trainings = plan(request)
    for training in trainings:
        training.settings()
    for training in trainings:
        if training.is_finished():
            say(f"{training.run.path}: finished already")
            continue
        show(shlex.join(["nmt", *training.command()]))
        if status := run_nmt(training.command()):
            return status
    return 0


def plan(request: Bidirectional) -> tuple[Training, Training]:
    """Plan the trainings in both directions and in one. Raises ConfigError."""
    direction = load_config(request.config, request.overrides).data.direction
    name = request.name or Path(request.config).stem
    both, one = RunDir(Path("runs", f"{name}-both")), RunDir(Path("runs", f"{name}-both-{direction}"))
    # an existing run keeps the direction that it was started with: it has learned both
    first_direction = load_saved_config(both.config).data.direction if both.info.is_file() else direction
    settings = ["training.both_directions=true", f"data.direction={first_direction}"]
    first = Training(both, request.config, [*request.overrides, *limit("--both", request.both), *settings])
    # initial weights of the user are for the first training
    overrides = [override for override in request.overrides if not override.startswith("training.init_from=")]
    settings = [*limit("--one", request.one), "training.both_directions=false"]
    return first, Training(one, request.config, [*overrides, *settings], init_from=both.path)


def limit(option: str, length: str) -> list[str]:
    """Return the overrides that limit a training to steps, `6000`, or minutes, `30m`. Raises ConfigError."""
    match = re.fullmatch("([0-9]+)(m?)", length)
    if match is None:
        raise ConfigError([f"{option} {length}: write it as 6000 for steps or 30m for minutes"])
    if match[2]:
        return [f"training.max_minutes={match[1]}"]
    return [f"training.max_steps={match[1]}", "training.max_minutes=null"]
