"""Whether a run ends before what its settings count in steps: the warm-up, the schedule, consistency training.

That is so at its end, and can be told after the first updates, whose pace says how many the time allows.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from nmt.config import TrainingConfig
from nmt.runs.state import TrainState

FIRST_UPDATES = 50  # of a process, by which its pace is told
SLOW_UPDATES = 10  # of them: the first ones ask for memory, or have the model compiled
FEW_UPDATES, TIME_SHARE = 5, 0.25  # where so much of max_minutes is used before, so many tell it
LONG_BEFORE = 0.9  # of a schedule's steps: with fewer it has not done what it is for
FEW = 0.5  # of max_steps, where the schedule does not end there: worth a word, not a warning


def cut_short(settings: TrainingConfig, last: int, cooldown_start: int | None = None) -> list[str]:
    """What a run whose last step is `last` has not come to, its cool-down, if any, beginning after `cooldown_start`."""
    found = []
    if min(last, last if cooldown_start is None else cooldown_start) < settings.warmup_steps:
        found.append(f"the end of the warm-up (training.warmup_steps = {settings.warmup_steps})")
    has_consistency = settings.consistency != "none" and settings.consistency_weight > 0
    if has_consistency and last <= settings.consistency_start:
        found.append(f"the start of {settings.consistency} (training.consistency_start = {settings.consistency_start})")
    if settings.schedule in ("linear", "cosine") and last < LONG_BEFORE * settings.max_steps:
        found.append(f"the end of the {settings.schedule} schedule (training.max_steps = {settings.max_steps})")
    return found


def forecast(
    settings: TrainingConfig, state: TrainState, n_epoch_tokens: int, update_seconds: Sequence[float]
) -> str | None:
    """What to say of a run that will end too early, or long before max_steps, at the pace of its first updates.

    `update_seconds` are the times that they took. Validations take time too, so the run comes to fewer steps, not more.
    """
    n_slow = min(SLOW_UPDATES, len(update_seconds) // 2)
    limit, last = _expected_end(settings, state, n_epoch_tokens, statistics.median(update_seconds[n_slow:]))
    if last <= state.step:
        return None
    cooldown_start = state.cooldown_start
    if settings.cooldown and cooldown_start is None:
        cooldown_start = int((1 - settings.cooldown) * last)
    value = getattr(settings, limit)
    told = f"{value:g}" if isinstance(value, float) else value
    ends = f"training.{limit} = {told} ends training after about {last} steps at most"
    if found := cut_short(settings, last, cooldown_start):
        return f"warning: {ends}, before {' and '.join(found)}; raise the limit or lower what it comes before"
    if limit == "max_minutes" and last < FEW * settings.max_steps:
        return f"{ends}, long before training.max_steps = {settings.max_steps}"
    return None


def pace_is_known(settings: TrainingConfig, state: TrainState, n_updates: int) -> bool:
    """Whether the first `n_updates` of a process tell its pace; on a slow machine fewer have to do."""
    is_slow = settings.max_minutes is not None and state.seconds >= TIME_SHARE * 60 * settings.max_minutes
    return n_updates >= FIRST_UPDATES or (is_slow and n_updates >= FEW_UPDATES)


def _expected_end(
    settings: TrainingConfig, state: TrainState, n_epoch_tokens: int, seconds_per_update: float
) -> tuple[str, int]:
    """The limit that ends the run, and the last step."""
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
