"""What the training of a run took, by what it recorded."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.checkpoint import saved_steps
from nmt.runs.log import last_record, number
from nmt.runs.state import load_state


@dataclass(frozen=True)
class TrainingCost:
    """What a training took up to a step."""

    updates: int
    """Those that were skipped included."""
    skipped: int | None
    hours: float
    """Summed over resumes; with validations and checkpoints, without the starts."""
    target_tokens: int | None


def training_cost(run: RunDir) -> TrainingCost | None:
    """Return what a run took up to its last checkpoint; if that does not tell, by the last record of the log.

    None if that does not tell either.
    """
    try:
        state = load_state(run.step(saved_steps(run)[-1]))
    except (CheckpointError, LookupError):  # of an earlier version
        state = None
    if state is not None and state.step:
        return TrainingCost(state.step, state.n_skipped, state.seconds / 3600, state.n_tokens)
    record = last_record(run.log)
    step, minutes = number(record, "step"), number(record, "minutes")
    if not step or minutes is None:
        return None
    return TrainingCost(int(step), None, minutes / 60, None)
