"""Warnings during training: a rising loss, translations that are all degenerate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from nmt.runs.state import TrainState

MEMORY_STEPS = 50  # time constant of the moving average of the loss, in updates
CLIMB = 1.0  # nats per token
SHARE = 0.5  # of the translations
ADVICE = "start another run with a lower training.peak_lr or training.factor, or more training.warmup_steps"


def loss_alarm(state: TrainState, loss: float, n_updates: int) -> str | None:
    """Update the recent loss with the mean `loss` of the last `n_updates`.

    Returns a warning once it is far above its minimum, one for each rise.
    """
    weight = 1.0 - math.exp(-n_updates / MEMORY_STEPS)
    recent = loss if state.recent_loss is None else state.recent_loss + weight * (loss - state.recent_loss)
    state.recent_loss = recent
    state.lowest_loss = recent if state.lowest_loss is None else min(recent, state.lowest_loss)
    was_high, state.loss_is_high = state.loss_is_high, recent > state.lowest_loss + CLIMB
    if not state.loss_is_high or was_high:
        return None
    return f"the loss has climbed from {state.lowest_loss:.2f} to {recent:.2f}: training may have diverged; {ADVICE}"


def collapse_alarm(sources: Sequence[str], translations: Sequence[str]) -> str | None:
    """Return a warning if most translations of the development set are empty, the same, or repeat a word."""
    n = len(translations)
    common, n_common = Counter(translations).most_common(1)[0]
    n_repeated = sum(_repeats(line) for line in translations)
    n_empty = sum(not line.strip() for line in translations)
    if n_empty > SHARE * n:
        problem = f"{n_empty} of {n} translations of the development set are empty"
    elif n_common > SHARE * n and sources.count(sources[translations.index(common)]) <= SHARE * n:
        problem = f"{n_common} of {n} translations of the development set are the same: {common[:60]!r}"
    elif n_repeated > SHARE * n:
        problem = f"{n_repeated} of {n} translations of the development set repeat a word or two over and over"
    else:
        return None
    return f"{problem}; early in a run that is usual, later it is not: look at the learning rate and at the text"


def _repeats(line: str) -> bool:
    """Whether one or two words make up most of a line."""
    words = line.split()
    if len(words) < 8:
        return False
    return sum(n for _, n in Counter(words).most_common(2)) > 0.75 * len(words)
