"""Whether there is room for what a run will need: for its longest sentences, and on the disk."""

from __future__ import annotations

import shutil

from nmt.config import Config, TrainingConfig
from nmt.data.batching import Pairs
from nmt.errors import CheckpointError, ConfigError
from nmt.layout import RunDir
from nmt.runs.checkpoint import most_bytes


def check_sentences(config: Config, max_tokens: int, sets: dict[str, Pairs]) -> None:
    """Refuse sentences that the settings have no room for, rather than fail at the first one hours later."""
    problems = []
    for name, pairs in sets.items():
        longest = int(max(pairs.lengths.src.max(), pairs.lengths.tgt.max()))
        limits = {"training.max_tokens": max_tokens} if name == "training" else {}
        if config.model.positions == "learned":
            limits["model.max_positions"] = config.model.max_positions
        problems += [
            f"{key}: {limit} has no room for a sentence of {longest} pieces in the {name} set"
            for key, limit in limits.items()
            if longest > limit
        ]
    if problems:
        raise ConfigError(problems)


def check_disk(run: RunDir, n_parameters: int, settings: TrainingConfig, resume: bool) -> str | None:
    """What to say of the room that the checkpoints will take. Raises CheckpointError where a run is to begin and that
    is more than is free."""
    n_moments = 3 if settings.optimizer == "schedule_free" else 2
    most = most_bytes(n_parameters, settings.keep_last, settings.ema > 0, n_moments)
    here = next(path for path in (run.path, *run.path.absolute().parents) if path.exists())
    free = shutil.disk_usage(here).free
    taken = sum(path.stat().st_size for path in run.checkpoints.rglob("*") if path.is_file())
    text = f"checkpoints take up to {most / 1e6:,.0f} MB (training.keep_last), {free / 1e6:,.0f} MB are free"
    if most <= free + taken:
        return None if resume else text
    if resume:
        return f"{text}: it may not suffice"
    raise CheckpointError(f"{run.path}: {text}: free some space or lower training.keep_last")
