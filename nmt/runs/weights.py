"""Choose the weights of a run to translate with: the best, the last, the average, or those of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.config import TrainingConfig
from nmt.errors import CheckpointError
from nmt.layout import CheckpointDir, RunDir
from nmt.runs.checkpoint import Tensors, load_ema, load_weights, recent_steps, saved_steps
from nmt.runs.info import Weights, read_selected


@dataclass(frozen=True)
class ChosenWeights:
    """Weights to translate with, and the reason for the choice."""

    step: int
    kind: Weights
    reason: str
    tensors: Tensors
    averaged: tuple[int, ...] = ()
    """The steps of the checkpoints whose mean they are, if they are one."""


def steps_to_average(run: RunDir, settings: TrainingConfig, last: int) -> list[int]:
    """Return the newest `average_last` checkpoints up to step `last`, without an old best that was kept alone."""
    return recent_steps(run, last)[-settings.average_last :] or [last]


def average(run: RunDir, steps: Sequence[int]) -> Tensors:
    """Average the weights of several checkpoints, accumulated in float64. Raises CheckpointError."""
    total: Tensors = {}
    for step in steps:
        for name, tensor in load_weights(run.step(step)).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(steps)).float() for name, tensor in total.items()}


def choose_weights(
    run: RunDir, settings: TrainingConfig, checkpoint: str = "best", weights: str = "auto"
) -> ChosenWeights:
    """Load the weights to translate with.

    Args:
        checkpoint: best, last, or a step.
        weights: raw (as trained), ema (moving average), average (of the newest `training.average_last` checkpoints up
            to that step), or auto: with checkpoint best the kind that scored best on the development set, else raw.

    Raises CheckpointError.
    """
    steps = saved_steps(run)
    if not steps:
        raise CheckpointError(f"{run.path}: no checkpoint yet; nmt train writes one every training.save_every_steps")
    selected = read_selected(run)
    kind = weights
    if checkpoint == "best":
        # there is no best before the first validation, or if its checkpoint was lost
        step = selected.best_step or steps[-1]
        reason = selected.reason
        kind = selected.weights if weights == "auto" else weights
        if kind != selected.weights:
            reason = f"{kind} weights requested"
        if kind == "average" and selected.average_steps:
            newest = selected.average_steps[-1]
            tensors = _read(run, run.average, steps)
            return ChosenWeights(newest, "average", reason, tensors, tuple(selected.average_steps))
        if kind == "average":
            step = steps[-1]
    elif checkpoint == "last":
        step, reason = steps[-1], "last checkpoint"
    elif checkpoint.isdigit() and int(checkpoint) in steps:
        step, reason = int(checkpoint), "requested"
    else:
        known = ", ".join(str(step) for step in steps)
        raise CheckpointError(f"{run.path}: no checkpoint {checkpoint}; there are {known}, best and last")
    if kind == "average":
        last_steps = steps_to_average(run, settings, step)
        reason = f"average of the checkpoints at steps {', '.join(map(str, last_steps))}"
        return ChosenWeights(step, "average", reason, average(run, last_steps), tuple(last_steps))
    own: Weights = "ema" if kind == "ema" else "raw"
    return ChosenWeights(step, own, reason, _read(run, run.step(step), steps, own))


def _read(run: RunDir, source: CheckpointDir, steps: Sequence[int], kind: Weights = "raw") -> Tensors:
    """Load verified weights; if they are damaged, the message names another checkpoint."""
    try:
        return load_ema(source) if kind == "ema" else load_weights(source)
    except CheckpointError as error:
        others = [step for step in steps if run.step(step) != source]
        advice = f"; --checkpoint {others[-1]} takes those of another step" if others else ""
        raise CheckpointError(f"{error}{advice}") from error
