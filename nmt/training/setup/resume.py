"""Going on: the newest whole checkpoint, read by process 0 and shared with all."""

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
    saved_steps,
)
from nmt.runs.state import TrainState, load_state
from nmt.training.limits import LIMITS
from nmt.training.parallel.shard import shard_like
from nmt.training.session import Session

Shape = tuple[str, torch.Size, torch.dtype]


def restore(session: Session) -> None:
    """Read the newest whole checkpoint into the sessions of all processes; without any they stay as they are."""
    read: list[Tensors] = [{}, {}, {}]  # weights, the optimizer's state, the moving average if there is one

    def newest() -> tuple[TrainState, list[list[Shape]]] | None:
        found = _newest(session)
        if found is None:
            return None
        state, *read[:] = found
        _settle(session, state)
        return state, [[(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()] for tensors in read]

    found = session.world.on_rank0(newest)
    if found is None:
        return
    state, shapes = found
    where = str(session.run.step(state.step).path)
    weights, moments, ema = (
        dict(_shared(session, tensors, names)) for tensors, names in zip(read, shapes, strict=True)
    )
    assign(session.model, weights, where)
    # after the weights: what schedule_free keeps as such is not what it learns with, which is in its own state
    restore_optimizer(session.optimizer, session.optimizer_names, moments, where)
    if session.ema is not None:
        session.ema.tensors = {name: ema[name].to(session.device) for name in session.ema.tensors}
    if state.scaler:
        session.scaler.load_state_dict(state.scaler)
    session.state, session.saved_step = state, state.step


def _newest(session: Session) -> tuple[TrainState, Tensors, Tensors, Tensors] | None:
    """The newest checkpoint that is whole and fits the session."""
    run, steps = session.run, saved_steps(session.run)
    if not run.checkpoints.is_dir():  # it is made before there is a run
        raise CheckpointError(
            f"{run.checkpoints}: no such directory, or it cannot be reached; put it back, or start another run"
        )
    for step in reversed(steps):
        saved = run.step(step)
        where = str(saved.path)
        try:
            state = load_state(saved)
            weights, moments, ema = load_weights(saved), load_optimizer(saved), {}
            check_fit(session.model, weights, where)
            if session.ema is not None:
                check_fit(session.model, ema := load_ema(saved), where)
            check_optimizer(session.optimizer, session.optimizer_names, moments, where)
        except CheckpointError as error:
            say(f"{error}; trying the one before")
            continue
        return state, weights, moments, ema
    if steps:
        raise CheckpointError(f"{run.path}: no checkpoint here is whole and of this version; start another run")
    say(f"{run.path} has no checkpoint yet: it starts from its first update")
    return None


def _settle(session: Session, state: TrainState) -> None:
    """Leave out of a state what no longer holds."""
    state.is_extra = False
    if state.best_step is not None and state.best_step not in saved_steps(session.run):
        say(f"the best checkpoint, step {state.best_step}, is gone: the next validated one is the best")
        state.best_step = state.best_score = None
        state.best_weights = "raw"
    limits = [getattr(session.config.training, name) for name in LIMITS]
    if state.cooldown is not None and state.cooldown_limits != limits:
        state.cooldown_start = state.cooldown_end = state.cooldown_by = None
        say("the run's limits have changed: its cool-down begins anew, and the learning rate jumps up")


def _shared(session: Session, tensors: Tensors, shapes: list[Shape]) -> Iterable[tuple[str, Tensor]]:
    """Each process's part of what process 0 has read: whole, or divided as the parameters are."""
    parameters = dict(session.model.named_parameters())
    for name, shape, dtype in shapes:
        tensor = tensors.pop(name) if session.world.is_rank0 else torch.empty(shape, dtype=dtype)
        session.world.broadcast(tensor)
        yield name, shard_like(tensor, parameters[name if name in parameters else name.rpartition("/")[0]])
