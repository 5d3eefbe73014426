"""Training without a command line: `fit` and `start` of a plan whose configuration has all settings."""

from __future__ import annotations

from pathlib import Path

from nmt.config import Config
from nmt.config.load import changed_config
from nmt.process import Stop
from nmt.training import start as start_module
from nmt.training.parallel import World
from nmt.training.plan import TrainingPlan
from nmt.training.session import Session


def plan(config: Config, data: Path, run: Path, resume: bool = False) -> TrainingPlan:
    """Return a plan that adopts no settings of another run."""
    return TrainingPlan.of(changed_config(config, []), data, run, resume)


def fit(
    config: Config,
    data: Path,
    run: Path,
    resume: bool = False,
    stop: Stop | None = None,
    world: World | None = None,
    profile: bool = False,
) -> None:
    """Train a model, or resume its training."""
    world = world or World()
    start_module.fit(world.on_rank0(lambda: plan(config, data, run, resume)), stop, world, profile)


def start(config: Config, data: Path, run: Path, resume: bool = False, world: World | None = None) -> Session:
    """Start or resume a run, without its lock."""
    world = world or World()
    return start_module.start(world.on_rank0(lambda: plan(config, data, run, resume)), world)
