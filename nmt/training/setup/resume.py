"""Resuming of runs: checks that nothing relevant has changed, and loading of the newest intact checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from nmt.config import Config
from nmt.config.load import load_config
from nmt.console import say
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import RunDir
from nmt.runs.checkpoint import (
    Tensors,
    assign,
    check_fit,
    check_optimizer,
    load_ema,
    load_optimizer,
    load_weights,
    restore_optimizer,
    saved_steps,
)
from nmt.runs.info import RunInfo, check_resumable, read_info
from nmt.runs.state import TrainState, load_state
from nmt.training.limits import LIMITS
from nmt.training.parallel import shard_like
from nmt.training.session import Session, position_of
from nmt.training.setup.inputs import Inputs

Shape = tuple[str, torch.Size, torch.dtype]
# settings for the end of a run, checkpoints, logs and memory may change when it is resumed
MAY_CHANGE = {
    *LIMITS, "patience", "log_every_steps", "validate_every_steps", "save_every_steps", "keep_last", "average_last",
    "max_tokens", "planned_steps", "device", "parallel", "compile", "run_dir", "watch", "report_to",
}  # fmt: skip


def check_resume(config: Config, run: RunDir, inputs: Inputs) -> RunInfo:
    """Check that the model, settings, tokenizer and text are the same as before, and return the content of run.json.

    Raises ConfigError, DataError or CheckpointError.
    """
    info = read_info(run)
    check_resumable(info, run.path)
    if info.nmt is None:  # its updates and gradients were computed in another way
        raise CheckpointError(
            f"{run.path}: was started by an earlier version of nmt and cannot be resumed; start another run with "
            f"--init-from {run.path}"
        )
    before, corpora = load_config(run.config), inputs.corpora
    was, now = (settings.without_licenses().model_dump() for settings in (before, config))
    changed = [
        f"{section}.{field}"
        for section in ("data", "tokenizer", "model", "training", "search")
        for field, value in was[section].items()
        if value != now[section][field]
        and (section, field) not in {("data", "dir"), ("data", "root")}
        and not (section == "training" and field in MAY_CHANGE)
        and (section, field) != ("search", "batch_tokens")
    ]
    if changed:
        raise ConfigError(*[f"{run.config}: {key} cannot change when a run is resumed" for key in changed])
    if before.training.max_steps != config.training.max_steps and config.training.ends_at_max_steps:
        say(
            f"the {config.training.schedule} schedule now falls to 0 at training.max_steps = "
            f"{config.training.max_steps}: the learning rate jumps from the old curve to the new one"
        )
    if info.tokenizer != corpora.tokenizers.fingerprint:
        raise DataError(f"{corpora.directory.path}: its tokenizer is not the one that {run.path} was trained with")
    if info.corpus != corpora.fingerprint:
        raise DataError(f"{corpora.directory.path}: its text is not the one that {run.path} was trained on")
    if inputs.modifiers is not None and info.glossary != inputs.modifiers.glossary:
        raise DataError(f"{config.training.glossary}: the terms have changed since {run.path} was started")
    if info.data_dir != str(corpora.directory.path.resolve()):
        say(f"the data directory was {info.data_dir}; it has moved, but its content is the same")
    return info


def restore(session: Session) -> None:
    """Load the newest intact checkpoint into the sessions of all ranks; without a checkpoint, do nothing."""
    read: list[Tensors] = [{}, {}, {}]  # on rank 0: weights, optimizer state, moving average if there is one

    def newest() -> tuple[TrainState, list[list[Shape]]] | None:
        checkpoint = _newest(session)
        if checkpoint is None:
            return None
        state, *read[:] = checkpoint
        _drop_stale(session, state)
        return state, [[(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()] for tensors in read]

    restored = session.world.on_rank0(newest)
    if restored is None:
        return
    state, shapes = restored
    where = str(session.run.step(state.step).path)
    weights, moments, ema = (
        dict(_broadcast(session, tensors, names)) for tensors, names in zip(read, shapes, strict=True)
    )
    assign(session.model, weights, where)
    restore_optimizer(session.optimizer, session.optimizer_names, moments, where)
    if session.ema is not None:
        session.ema.tensors = {name: ema[name].to(session.device) for name in session.ema.tensors}
    if state.scaler:
        session.scaler.load_state_dict(state.scaler)
    session.state, session.saver.saved_step = state, state.step


def _newest(session: Session) -> tuple[TrainState, Tensors, Tensors, Tensors] | None:
    """Read the newest checkpoint that is intact and fits the session. Raises CheckpointError if there is none."""
    run, steps = session.run, saved_steps(session.run)
    if not run.checkpoints.is_dir():  # it was created before run.json
        raise CheckpointError(f"{run.checkpoints}: no such directory; restore it, or start another run")
    for step in reversed(steps):
        saved = run.step(step)
        where = str(saved.path)
        try:
            state = load_state(saved)
            if not session.windows.mix.has(position_of(state)):
                raise CheckpointError(f"{saved.state}: damaged: its position is outside the training text")
            weights, moments, ema = load_weights(saved), load_optimizer(saved), {}
            check_fit(session.model, weights, where)
            if session.ema is not None:
                check_fit(session.model, ema := load_ema(saved), where)
            check_optimizer(session.optimizer, session.optimizer_names, moments, where)
        except CheckpointError as error:
            say(f"{error}; trying the previous checkpoint")
            continue
        return state, weights, moments, ema
    if steps:
        raise CheckpointError(f"{run.path}: no intact checkpoint of this version; start another run")
    say(f"{run.path}: no checkpoint yet, starting from the first update")
    return None


def _drop_stale(session: Session, state: TrainState) -> None:
    """Remove outdated entries from a state: a best checkpoint that is missing, and a cool-down for previous limits."""
    state.is_extra = False
    if state.best_step is not None and state.best_step not in saved_steps(session.run):
        say(f"the best checkpoint, step {state.best_step}, is missing; the next validated one replaces it")
        state.best_step = state.best_score = None
        state.best_weights = "raw"
    limits = [getattr(session.config.training, name) for name in LIMITS]
    if state.cooldown is not None and state.cooldown_limits != limits:
        state.cooldown_start = state.cooldown_end = state.cooldown_by = None
        say("the limits of the run have changed, so its cool-down starts over and the learning rate jumps up")


def _broadcast(session: Session, tensors: Tensors, shapes: list[Shape]) -> Iterable[tuple[str, Tensor]]:
    """Broadcast the tensors of rank 0, and yield this rank's part of each, sharded like the parameters."""
    parameters = dict(session.model.named_parameters())
    for name, shape, dtype in shapes:
        tensor = tensors.pop(name) if session.world.is_rank0 else torch.empty(shape, dtype=dtype)
        session.world.broadcast(tensor)
        yield name, shard_like(tensor, parameters[name if name in parameters else name.rpartition("/")[0]])
