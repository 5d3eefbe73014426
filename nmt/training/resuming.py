"""Resuming: the newest intact checkpoint of a run is loaded into the sessions of all ranks."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from nmt.console import say
from nmt.errors import CheckpointError
from nmt.runs.checkpoint import (
    Tensors,
    assign,
    check_fit,
    check_optimizer,
    load_ema,
    load_optimizer,
    load_weights,
    restore_optimizer,
)
from nmt.runs.state import TrainState, load_state, saved_steps
from nmt.training.limits import LIMITS
from nmt.training.parallel import shard_like
from nmt.training.session import Session, position_of

Shape = tuple[str, torch.Size, torch.dtype]


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
    session.state = state
    session.saver.saved_step = state.step


def _newest(session: Session) -> tuple[TrainState, Tensors, Tensors, Tensors] | None:
    """Read the newest checkpoint that is intact and fits the session. Raises CheckpointError if there is none."""
    run = session.run
    steps = saved_steps(run)
    if not run.checkpoints.is_dir():  # it was created before run.json
        raise CheckpointError(f"{run.checkpoints}: no such directory; restore it, or start another run")
    for step in reversed(steps):
        saved = run.step(step)
        where = str(saved.path)
        try:
            state = load_state(saved)
            if not session.windows.mix.has(position_of(state)):
                raise CheckpointError(f"{saved.state}: damaged: its position is outside the training text")
            weights = load_weights(saved)
            moments = load_optimizer(saved)
            ema = {}
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
    limits = [getattr(session.settings, name) for name in LIMITS]
    if state.cooldown is not None and state.cooldown_limits != limits:
        state.cooldown_start = state.cooldown_end = state.cooldown_by = None
        say("the limits of the run have changed, so its cool-down starts over and the learning rate jumps up")


def _broadcast(session: Session, tensors: Tensors, shapes: list[Shape]) -> Iterable[tuple[str, Tensor]]:
    """Broadcast the tensors of rank 0, and yield this rank's part of each, sharded like the parameters."""
    parameters = dict(session.model.named_parameters())
    for name, shape, dtype in shapes:
        tensor = tensors.pop(name) if session.world.is_rank0 else torch.empty(shape, dtype=dtype)
        session.world.broadcast(tensor)
        parameter = parameters.get(name)  # moments have the name of their parameter before a slash
        yield name, shard_like(tensor, parameters[name.rpartition("/")[0]] if parameter is None else parameter)
