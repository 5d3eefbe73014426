"""Bidirectional pre-training (Bi-SimCut; Gao et al., 2022): train a model in both directions, then in one.

The model reads the target language as a tag before the source, which it keeps in the second run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Config
from nmt.config.load import load_config, load_saved_config
from nmt.console import say
from nmt.errors import ConfigError
from nmt.layout import RunDir
from nmt.recipes.directory import changed_settings, resume_option, run_shown
from nmt.runs.listing import summarise


@dataclass(frozen=True)
class Bidirectional:
    """The options of `nmt bidirectional`."""

    config: str
    first_length: str
    """Length of the run in both directions, in steps (`6000`) or minutes (`30m`)."""
    second_length: str
    """Length of the run in one direction."""
    overrides: Sequence[str] = ()
    """Changes to the config of both runs, `section.key=value`."""
    name: str | None = None
    """NAME in the run directories runs/NAME-both and runs/NAME-both-DIRECTION; by default the config's name."""


@dataclass(frozen=True)
class PlannedRun:
    """One of the two runs, with its configuration."""

    run: RunDir
    config: str
    overrides: Sequence[str]
    init_from: Path | None = None

    def settings(self) -> Config:
        """Return the configuration of the run. Raises ConfigError."""
        overrides = [*self.overrides]
        if self.init_from is not None:
            overrides.append(f"training.init_from={json.dumps(str(self.init_from))}")
        return load_config(self.config, overrides)

    def command(self) -> list[str]:
        """Return the arguments of `nmt` that start or resume the run."""
        command = ["train", *resume_option(self.run), "--config", self.config, "--run", str(self.run.path)]
        for override in self.overrides:
            command += ["--set", override]
        if self.init_from is not None:
            command += ["--init-from", str(self.init_from)]
        return command

    def is_finished(self) -> bool:
        """Return whether the run has finished with these settings."""
        if not self.run.info.is_file() or summarise(self.run).state != "finished":
            return False
        return not changed_settings(self.run, self.settings())


def bidirectional(request: Bidirectional) -> int:
    """Train in both directions, then in the config's direction, each by `nmt train` in its own process.

    A finished run is skipped, and a stopped one is resumed. Return the exit status of the first run that fails or is
    stopped, else 0. Raises ConfigError before anything is trained.
    """
    runs = plan(request)
    for planned in runs:
        planned.settings()
    for planned in runs:
        if planned.is_finished():
            say(f"{planned.run.path}: already finished")
            continue
        if status := run_shown([planned.command()]):
            return status
    return 0


def plan(request: Bidirectional) -> tuple[PlannedRun, PlannedRun]:
    """Return the run in both directions and the run in one direction.

    Raises ConfigError, also if the user sets what the recipe does.
    """
    direction = load_config(request.config, request.overrides).data.direction
    name = request.name or Path(request.config).stem
    first = RunDir(Path("runs", f"{name}-both"))
    second = RunDir(Path("runs", f"{name}-both-{direction}"))
    # an existing run keeps the direction that it was started with, since it has learned both
    first_direction = load_saved_config(first.config).data.direction if first.info.is_file() else direction
    src, tgt = direction.split("-")
    directions = sorted([direction, f"{tgt}-{src}"])
    first_limits = limit("--both", request.first_length)
    second_limits = limit("--one", request.second_length)
    chosen = {setting.partition("=")[0] for setting in ("data.directions", *first_limits, *second_limits)}
    for override in request.overrides:
        if (key := override.partition("=")[0]) in chosen:
            raise ConfigError(f"--set {override}: nmt bidirectional sets {key}, limits by --both and --one; omit it")
    settings = [f"data.directions=[{', '.join(directions)}]", f"data.direction={first_direction}"]
    first_overrides = [*request.overrides, *first_limits, *settings]
    # the user's initial weights are for the first run
    overrides = [override for override in request.overrides if not override.startswith("training.init_from=")]
    overrides += [*second_limits, f"data.directions=[{direction}]"]
    return (
        PlannedRun(first, request.config, first_overrides),
        PlannedRun(second, request.config, overrides, init_from=first.path),
    )


def limit(option: str, length: str) -> list[str]:
    """Return the overrides that limit a run to a number of steps (`6000`) or minutes (`30m`). Raises ConfigError."""
    match = re.fullmatch("([0-9]+)(m?)", length)
    if match is None:
        raise ConfigError(f"{option} {length}: must be a number of steps such as 6000, or of minutes such as 30m")
    if match[2]:
        return [f"training.max_minutes={match[1]}"]
    return [f"training.max_steps={match[1]}", "training.max_minutes=null"]
