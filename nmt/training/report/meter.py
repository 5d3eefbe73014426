"""What the updates since the last record add up to, and the time they took."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from nmt.data.batching import Update
from nmt.errors import DivergedError
from nmt.training.optim import learning_rate
from nmt.training.outcome import Outcome
from nmt.training.report.alarms import ADVICE, loss_alarm
from nmt.training.report.forecast import FIRST_UPDATES, forecast, pace_is_known
from nmt.training.report.log import TrainingLog
from nmt.training.report.profile import Profile
from nmt.training.session import Session

SECONDS_BETWEEN_LOOKS = 0.5
MAX_SKIPPED_IN_A_ROW = 50
OVERFLOWS_IN_A_ROW = 10
LAG = {"cpu": 0, "cuda": 8}  # updates after which numbers are read off the device, which then need not be waited for


@dataclass(frozen=True)
class _Pending:
    """An outcome on its way from the device; `step` is the update it speaks of, `n_real` its tokens on both sides."""

    step: int
    epoch: int
    update: Update
    n_real: int
    numbers: torch.Tensor
    arrived: torch.cuda.Event | None


class Meter:
    """Adds up updates between two records; pauses while something else than training goes on.

    The sums are in the state's `tally`, so that a resumed run writes the same record.
    """

    def __init__(self, session: Session, log: TrainingLog, profile: Profile | None = None) -> None:
        self._session, self.log, self._profile = session, log, profile
        self._pending: deque[_Pending] = deque()
        self._clock = self._shown = time.monotonic()
        self._update_seconds: list[float] = []  # of the first updates of this process
        self._is_foreseen = False

    @property
    def _has_divergence(self) -> bool:
        settings = self._session.config.training
        return settings.consistency != "none" and settings.consistency_weight > 0

    @property
    def _tally(self) -> dict[str, float]:
        return self._session.state.tally

    def add(self, outcome: Outcome) -> None:
        """Count an update that was just made. Raises DivergedError if too many in a row changed nothing."""
        self._foresee(self._tick(training=True))
        state, device = self._session.state, self._session.device
        numbers, arrived = outcome.numbers.to("cpu", non_blocking=True), None
        if device.type == "cuda":
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        update = outcome.update
        n_real = int(self._session.pairs.lengths.src[update.rows].sum()) + update.n_tokens
        self._pending.append(_Pending(state.step, state.epoch, update, n_real, numbers, arrived))
        self.settle(LAG[device.type])
        if self._profile is not None:
            self._tick(training=True)
            self._profile.step(outcome)
            self._tick(training=False)

    def _foresee(self, seconds: float) -> None:
        """Once the pace of updates is known, say so if the run will end too early; `seconds` is what this one took."""
        if self._is_foreseen:
            return
        self._update_seconds.append(seconds)
        settings, state = self._session.config.training, self._session.state
        if pace_is_known(settings, state, len(self._update_seconds)):
            line = forecast(settings, state, self._session.n_epoch_tokens, self._update_seconds)
            self._is_foreseen = line is not None or len(self._update_seconds) >= FIRST_UPDATES
            if line is not None:
                self.log.say(line)

    def settle(self, n_left: int = 0) -> None:
        """Read the numbers of all updates but the newest `n_left`."""
        while len(self._pending) > n_left:
            pending = self._pending.popleft()
            if pending.arrived is not None:
                pending.arrived.synchronize()
            loss, nll, n_correct, n_slots, n_out_of_memory, divergence, norm = pending.numbers.tolist()
            self._count_out_of_memory(int(n_out_of_memory))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self._skip(pending)
                continue
            self._session.state.skipped_in_a_row = 0
            sums = {"loss": loss, "nll": nll, "n_correct": n_correct, "n_slots": n_slots, "norm": norm}
            counts = {"n_tokens": pending.update.n_tokens, "n_real": pending.n_real, "n_updates": 1}
            for name, value in (sums | {"divergence": divergence} | counts).items():
                self._tally[name] = self._tally.get(name, 0) + value

    def _skip(self, pending: _Pending) -> None:
        """Count and tell of an update that changed nothing, with the corpus rows of its sentences."""
        state, rows = self._session.state, sorted(pending.update.rows.tolist())
        state.n_skipped += 1
        state.skipped_in_a_row += 1
        where = {"step": pending.step, "epoch": pending.epoch, "minutes": state.seconds / 60}
        self.log.log({"kind": "skipped", **where, "rows": rows})
        # fp16 looks for the largest loss scale that does not overflow: that it does now and then is no news
        is_news = not self._session.scaler.is_enabled() or state.skipped_in_a_row > OVERFLOWS_IN_A_ROW
        if is_news and state.skipped_in_a_row.bit_count() == 1:  # the first, second, fourth … in a row
            self.log.say(
                f"step {pending.step}: loss or gradient is not finite, the update of {len(rows)} pairs changes nothing "
                "(their rows are in log.jsonl)"
            )
        if state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise DivergedError(
                f"{self._session.run.path}: loss or gradient of {MAX_SKIPPED_IN_A_ROW} updates in a row was not finite "
                f"at step {pending.step}; {ADVICE}, or with training.precision float32"
            )

    def _count_out_of_memory(self, n: int) -> None:
        """Tell of it the first time and then ever more rarely: the number is in every record."""
        state = self._session.state
        before, state.n_out_of_memory = state.n_out_of_memory, state.n_out_of_memory + n
        if before.bit_length() != state.n_out_of_memory.bit_length():
            self.log.say(
                f"out of memory ({state.n_out_of_memory} so far): the update was repeated in smaller micro-batches, "
                "which changes nothing that is learned; a lower training.max_tokens saves the time"
            )

    def expect(self, n_updates: int) -> None:
        """Have the progress bar know of an epoch's updates."""
        settings, state = self._session.config.training, self._session.state
        by_epochs = n_updates * (settings.max_epochs or settings.max_steps)
        self.log.total(state.cooldown_end or min(settings.max_steps, by_epochs))

    def pause(self) -> None:
        """Training stops for a while."""
        self._tick(training=True)
        if self._profile is not None:
            self._profile.pause()

    def go(self) -> None:
        """Training goes on: what passed since `pause` counts for the run's budget but not for its speed."""
        self._tick(training=False)

    def record(self) -> None:
        """Log the updates since the last record, if any counted, and begin anew."""
        self.settle()
        tally, state = dict(self._tally), self._session.state
        if "n_updates" not in tally:
            return
        self._tally.clear()
        loss, nll = (tally[name] / tally["n_tokens"] for name in ("loss", "nll"))
        record: dict[str, Any] = {
            "kind": "train",
            "step": state.step,
            "epoch": state.epoch,
            "minutes": state.seconds / 60,
            "loss": loss,
            "nll": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            "accuracy": tally["n_correct"] / tally["n_tokens"],
            **({"divergence": tally.get("divergence", 0.0) / tally["n_tokens"]} if self._has_divergence else {}),
            "lr": self._learning_rate(),
            "gradient_norm": tally["norm"] / tally["n_updates"],
            "tokens_per_second": tally["n_tokens"] / max(tally["seconds"], 1e-9),
            "padding_share": 1.0 - tally["n_real"] / tally["n_slots"],
            "n_skipped": state.n_skipped,
            "n_out_of_memory": state.n_out_of_memory,
        }
        self.log.log(record)
        alarm = loss_alarm(state, nll, int(tally["n_updates"]))  # of one pass: it does not jump where a second begins
        if alarm is not None:
            self.log.warn(state, alarm)

    def show(self, at_once: bool = False) -> None:
        """Bring the progress bar up to date; if not at once, a few times a second."""
        now, tally = time.monotonic(), self._tally
        if "n_updates" not in tally or (now - self._shown < SECONDS_BETWEEN_LOOKS and not at_once):
            return
        self._shown = now
        loss, nll = (tally[name] / tally["n_tokens"] for name in ("loss", "nll"))
        speed = tally["n_tokens"] / max(tally["seconds"], 1e-9)
        self.log.progress(self._session.state.step, loss, nll, self._learning_rate(), speed, self._seconds_left())

    def _learning_rate(self) -> float:
        state, config = self._session.state, self._session.config
        return learning_rate(state.step, config.training, config.model.d_model, state.cooldown)

    def _seconds_left(self) -> float:
        """Until the first limit is reached, at the run's pace so far."""
        state, settings = self._session.state, self._session.config.training
        pace = state.seconds / max(state.step, 1)
        if state.cooldown is not None:
            return max(0.0, pace * (state.cooldown[1] - state.step))
        left = [pace * (settings.max_steps - state.step)]
        if settings.max_minutes is not None:
            left.append(60 * settings.max_minutes - state.seconds)
        if settings.max_epochs is not None:
            left.append(
                state.seconds * (settings.max_epochs * self._session.n_epoch_tokens / max(state.n_tokens, 1) - 1)
            )
        return max(0.0, min(left))

    def _tick(self, training: bool) -> float:
        """Count the seconds since the last call; returns them."""
        now = time.monotonic()
        seconds, self._clock = now - self._clock, now
        self._session.state.seconds += seconds
        if training:
            self._tally["seconds"] = self._tally.get("seconds", 0.0) + seconds
        return seconds
