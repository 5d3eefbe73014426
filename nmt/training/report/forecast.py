"""Warnings of a run that ends before its warm-up, its schedule, or the start of consistency training.

At the end of a run this is known; after its first updates, their pace predicts the last step.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from nmt.config import TrainingConfig
from nmt.runs.state import TrainState

FIRST_UPDATES = 50  # of a process, by which its pace is estimated
SLOW_UPDATES = 10  # left out of these: the first ones allocate memory, or compile the model
FEW_UPDATES, TIME_SHARE = 5, 0.25  # fewer updates do once this share of max_minutes is used
LONG_BEFORE = 0.9  # share of a schedule's steps without which it is cut short
FEW = 0.5  # of max_steps, if the schedule does not end there: a note, not a warning


def cut_short(settings: TrainingConfig, last: int, cooldown_start: int | None = None) -> list[str]:
    """Return what a run with last step `last` does not reach; its cool-down, if any, starts after `cooldown_start`."""
    missed = []
    if min(last, last if cooldown_start is None else cooldown_start) < settings.warmup_steps:
        missed.append(f"the end of the warm-up (training.warmup_steps = {settings.warmup_steps})")
    has_consistency = settings.consistency != "none" and settings.consistency_weight > 0
    if has_consistency and last <= settings.consistency_start:
        start = f"training.consistency_start = {settings.consistency_start}"
        missed.append(f"the start of {settings.consistency} ({start})")
    if settings.ends_at_max_steps and last < LONG_BEFORE * settings.max_steps:
        missed.append(f"the end of the {settings.schedule} schedule (training.max_steps = {settings.max_steps})")
    return missed


def forecast(
    settings: TrainingConfig, state: TrainState, n_epoch_tokens: int, update_seconds: Sequence[float]
) -> str | None:
    """Return a warning if the run will end too early, or long before max_steps, at the pace of its first updates.

    `update_seconds` are their durations. Validations take time too, so the last step is an upper bound.
    """
    n_slow = min(SLOW_UPDATES, len(update_seconds) // 2)
    limit, last = _expected_end(settings, state, n_epoch_tokens, statistics.median(update_seconds[n_slow:]))
    if last <= state.step:
        return None
    cooldown_start = state.cooldown_start
    if settings.cooldown and cooldown_start is None:
        cooldown_start = int((1 - settings.cooldown) * last)
    value = getattr(settings, limit)
    number = f"{value:g}" if isinstance(value, float) else value
    ends = f"training.{limit} = {number} ends training after about {last} steps at most"
    if missed := cut_short(settings, last, cooldown_start):
        return f"warning: {ends}, before {' and '.join(missed)}; raise training.{limit} or lower the other settings"
    if limit == "max_minutes" and last < FEW * settings.max_steps:
        return f"{ends}, long before training.max_steps = {settings.max_steps}"
    return None


def pace_is_known(settings: TrainingConfig, state: TrainState, n_updates: int) -> bool:
    """Whether `n_updates` are enough to estimate the pace of a process; on a slow machine fewer are."""
    is_slow = settings.max_minutes is not None and state.seconds >= TIME_SHARE * 60 * settings.max_minutes
    return n_updates >= FIRST_UPDATES or (is_slow and n_updates >= FEW_UPDATES)


def _expected_end(
    settings: TrainingConfig, state: TrainState, n_epoch_tokens: int, seconds_per_update: float
) -> tuple[str, int]:
    """Return the limit that will end the run, and its last step."""
    if state.cooldown is not None:
        return state.cooldown_by or "cooldown", state.cooldown[1]
    ends = {"max_steps": float(settings.max_steps)}
    if settings.max_epochs is not None:
        ends["max_epochs"] = state.step * settings.max_epochs * n_epoch_tokens / max(state.n_tokens, 1)
    if settings.max_minutes is not None:
        left = 60 * settings.max_minutes - state.seconds
        ends["max_minutes"] = state.step + max(0.0, left) / max(seconds_per_update, 1e-9)
    limit = min(ends, key=lambda name: ends[name])
    return limit, int(ends[limit])
