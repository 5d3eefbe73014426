"""The share of the limits of a run that has been used."""

from __future__ import annotations

import math

from nmt.runs.state import TrainState
from nmt.training.settings import TrainingConfig

PAUSED_SHARE = 0.05
"""The largest share of max_minutes for validations and checkpoints until the last update, and for those after it."""


def seconds_of_updates(max_minutes: float, state: TrainState) -> float:
    """Return the second at which max_minutes ends the updates, so that the run ends in time.

    The last weights, their average and, on all lines, the selected ones are still to be validated and saved.
    """
    return 60 * max_minutes - min(3 * state.last_check_seconds or math.inf, PAUSED_SHARE * 60 * max_minutes)


def used_shares(settings: TrainingConfig, state: TrainState, n_epochs: float) -> dict[str, float]:
    """Return the share of each limit that has been used so far, by its name in `training`."""
    shares = {"max_steps": state.step / settings.max_steps}
    if settings.max_epochs is not None:
        shares["max_epochs"] = n_epochs / settings.max_epochs
    if settings.max_minutes is not None:
        shares["max_minutes"] = state.seconds / seconds_of_updates(settings.max_minutes, state)
    return shares
