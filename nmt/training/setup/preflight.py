"""Checks before a run: its longest sentences, free space on the disk, settings without effect."""

from __future__ import annotations

import shutil

from nmt.config import Config, TrainingConfig
from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.errors import CheckpointError, ConfigError
from nmt.layout import RunDir
from nmt.prepare.recipe import unlike
from nmt.runs.checkpoint import most_bytes


def check_sentences(config: Config, max_tokens: int, sets: dict[str, int]) -> None:
    """Raise ConfigError for sentences longer than the settings allow, rather than fail hours later at the first one.

    `sets`: the length of the longest one of each set, end of sentence counted.
    """
    problems = []
    for name, longest in sets.items():
        limits = {"training.max_tokens": max_tokens} if name == "training" else {}
        if config.model.positions == "learned":
            limits["model.max_positions"] = config.model.max_positions
        problems += [
            f"{key}: {limit} is too small for a sentence of {longest} pieces in the {name} set"
            for key, limit in limits.items()
            if longest > limit
        ]
    if problems:
        raise ConfigError(problems)


def check_disk(run: RunDir, n_parameters: int, settings: TrainingConfig, resume: bool) -> str | None:
    """Return a message on the disk space that the checkpoints will take, if there is one to show.

    Raises CheckpointError if a new run needs more than is free.
    """
    most = most_bytes(n_parameters, settings.keep_last, settings.ema > 0)
    here = next(path for path in (run.path, *run.path.absolute().parents) if path.exists())
    free = shutil.disk_usage(here).free
    taken = sum(path.stat().st_size for path in run.checkpoints.rglob("*") if path.is_file())
    text = f"checkpoints take up to {most / 1e6:,.0f} MB (training.keep_last), {free / 1e6:,.0f} MB are free"
    if most <= free + taken:
        return None if resume else text
    if resume:
        return f"{text}: that may not be enough"
    raise CheckpointError(f"{run.path}: {text}: free some space or lower training.keep_last")


def warn_of_unused(config: Config, corpus: Corpus) -> None:
    """Say where the config differs from what the data was prepared with, and which learning rate has no effect."""
    if message := unlike(corpus.directory, corpus.manifest, config):
        say(message)
    settings, unused = config.training, config.training.idle_rate
    if (value := getattr(settings, unused)) != TrainingConfig.model_fields[unused].default:
        used = "factor" if unused == "peak_lr" else "peak_lr"
        say(f"training.{unused} = {value:g} has no effect: the {settings.schedule} schedule uses training.{used}")
