"""What the updates since the last record add up to, and the time they took."""

from __future__ import annotations

import math
import time
from typing import Any

from nmt.data.batching import Update
from nmt.training.log import TrainingLog
from nmt.training.loss import LossSums
from nmt.training.optim import learning_rate
from nmt.training.start import Session

SECONDS_BETWEEN_LOOKS = 0.5


class Meter:
    """Adds up updates between two records; pauses while something else than training goes on."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sums: LossSums | None = None
        self._norms = 0.0
        self._n_updates = self._n_slots = self._n_real = 0
        self._seconds = 0.0
        self._clock = self._shown = time.monotonic()

    def add(self, update: Update, sums: LossSums, norm: float) -> None:
        """Count an update; of one that was skipped only the time, since its sums may not be finite either."""
        self._tick(training=True)
        if not math.isfinite(norm):
            return
        lengths = self._session.pairs.lengths
        self._sums = sums if self._sums is None else self._sums + sums
        self._norms += norm
        self._n_updates += 1
        for rows in update.micro_batches:
            src, tgt = lengths.src[rows], lengths.tgt[rows]
            self._n_slots += len(rows) * int(src.max() + tgt.max())
            self._n_real += int(src.sum() + tgt.sum())

    def pause(self) -> None:
        """Training stops for a while."""
        self._tick(training=True)

    def go(self) -> None:
        """Training goes on: what passed since `pause` counts for the run's budget but not for its speed."""
        self._tick(training=False)

    def record(self) -> dict[str, Any]:
        """The record of the updates since the last one, and begin anew."""
        assert self._sums is not None, "there was an update"
        state, config = self._session.state, self._session.config
        record = {
            "kind": "train",
            "step": state.step,
            "epoch": state.epoch,
            "minutes": state.seconds / 60,
            "loss": self._sums.loss_per_token,
            "perplexity": self._sums.perplexity,
            "accuracy": self._sums.accuracy,
            "lr": learning_rate(state.step, config.training, config.model.d_model),
            "gradient_norm": self._norms / self._n_updates,
            "tokens_per_second": self._sums.n_tokens / max(self._seconds, 1e-9),
            "padding_share": 1.0 - self._n_real / self._n_slots,
            "n_skipped": state.n_skipped,
        }
        self._sums, self._norms, self._seconds = None, 0.0, 0.0
        self._n_updates = self._n_slots = self._n_real = 0
        return record

    def show(self, log: TrainingLog, at_once: bool = False) -> None:
        """Bring the progress bar up to date; if not at once, a few times a second (it reads numbers off the device)."""
        now = time.monotonic()
        if self._sums is None or (now - self._shown < SECONDS_BETWEEN_LOOKS and not at_once):
            return
        self._shown = now
        state, config = self._session.state, self._session.config
        lr = learning_rate(state.step, config.training, config.model.d_model)
        speed = self._sums.n_tokens / max(self._seconds, 1e-9)
        log.progress(state.step, self._sums.loss_per_token, self._sums.perplexity, lr, speed, self._seconds_left())

    def _seconds_left(self) -> float:
        """Until the first limit is reached, at the run's pace so far."""
        state, settings = self._session.state, self._session.config.training
        pace = state.seconds / max(state.step, 1)
        left = [pace * (settings.max_steps - state.step)]
        if settings.max_minutes is not None:
            left.append(60 * settings.max_minutes - state.seconds)
        if settings.max_epochs is not None:
            n_pairs_tokens = int(self._session.pairs.lengths.tgt.sum())
            left.append(state.seconds * (settings.max_epochs * n_pairs_tokens / max(state.n_tokens, 1) - 1))
        return max(0.0, min(left))

    def _tick(self, training: bool) -> None:
        now = time.monotonic()
        self._session.state.seconds += now - self._clock
        if training:
            self._seconds += now - self._clock
        self._clock = now
