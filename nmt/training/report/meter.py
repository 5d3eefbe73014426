"""The meter of a run: the statistics and the time of the updates since the last log record, and their profile."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from nmt.errors import DivergedError, UnsafeFileError
from nmt.evaluate.metrics import metric_name, unspaced_notes
from nmt.files.write import refuse_links
from nmt.layout import RunDir
from nmt.runs.state import TrainState
from nmt.text.words import beginning
from nmt.training.limits import expected_end, forecast
from nmt.training.optim import learning_rate
from nmt.training.report.log import TrainingLog, position
from nmt.training.session import Outcome, Session, UpdateStats

SHOW_SECONDS = 0.5  # between updates of the progress bar
MAX_SKIPPED_IN_A_ROW = 50
OVERFLOWS_IN_A_ROW = 10
LAG = {"cpu": 0, "cuda": 8}  # updates before statistics are read, so that nothing waits for the device


class Meter:
    """A meter that accumulates the statistics and the time of the updates between two records; it can be paused.

    The sums are in the state's `tally`, so that a resumed run writes the same record.
    """

    def __init__(self, session: Session, log: TrainingLog, tracing: profile | None = None) -> None:
        self._session = session
        self.log = log
        self._profiler = tracing
        # outcomes whose statistics are being copied to the CPU until the event has happened
        self._pending: deque[tuple[Outcome, UpdateStats, torch.cuda.Event | None]] = deque()
        self._clock = self._shown = time.monotonic()
        self._cpu_clock = time.process_time()
        session.state.seconds += session.stop.elapsed
        self._n_records = 0  # of this process
        self._stage: int | None = None  # the stage whose mixture was printed last

    @property
    def _tally(self) -> dict[str, float]:
        return self._session.state.tally

    @property
    def _learned_tokens(self) -> float:
        """The number of target tokens in the sums; for a classifier, the number of tokens of the texts."""
        if self._session.settings.facts.classifies:
            return self._tally["n_real"] / 2
        return self._tally["n_tokens"]

    def add(self, outcome: Outcome) -> None:
        """Count an update that was just made. Raises DivergedError if too many updates in a row were skipped."""
        self._tick(training=True)
        device = self._session.device
        stats = outcome.stats.cpu()
        arrived = None
        if device.type == "cuda":
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        self._pending.append((outcome, stats, arrived))
        self.settle(LAG[device.type])
        if self._profiler is not None:
            self._tick(training=True)
            self._profiler.step()
            self._tick(training=False)

    def settle(self, n_left: int = 0) -> None:
        """Read the statistics of all updates except the newest `n_left` ones."""
        while len(self._pending) > n_left:
            outcome, stats, arrived = self._pending.popleft()
            if arrived is not None:
                arrived.synchronize()
            self._count_out_of_memory(int(stats.n_out_of_memory))
            if not (stats.loss.isfinite() and stats.norm.isfinite()):
                self._skip(outcome)
                continue
            self._session.state.skipped_in_a_row = 0
            counts = {
                **stats.by_name(),
                "n_pairs": len(outcome.update.rows),
                "n_tokens": outcome.update.n_tokens,
                "n_real": outcome.n_tokens,
                "n_updates": 1,
            }
            for name, value in counts.items():
                self._tally[name] = self._tally.get(name, 0) + value

    def _skip(self, outcome: Outcome) -> None:
        """Count and log a skipped update, with the corpus rows of its sentences."""
        state = self._session.state
        rows = sorted(outcome.update.rows.tolist())
        state.n_skipped += 1
        state.skipped_in_a_row += 1
        where = {"step": outcome.step, "epoch": outcome.epoch, "minutes": state.seconds / 60}
        self.log.log({"kind": "skipped", **where, "rows": rows})
        # fp16 searches for the largest loss scale that does not overflow, so an overflow now and then is expected
        is_unexpected = not self._session.scaler.is_enabled() or state.skipped_in_a_row > OVERFLOWS_IN_A_ROW
        if is_unexpected and state.skipped_in_a_row.bit_count() == 1:  # the first, second, fourth … in a row
            self.log.say(
                f"step {outcome.step}: loss or gradient is not finite, so the update of {len(rows)} pairs is skipped "
                "(their rows are in log.jsonl)"
            )
        if state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise DivergedError(
                f"{self._session.run.path}: loss or gradient of {MAX_SKIPPED_IN_A_ROW} updates in a row was not finite "
                f"at step {outcome.step}; {ADVICE}, or with training.precision float32"
            )

    def _count_out_of_memory(self, n: int) -> None:
        """Add to the count of out-of-memory errors, and warn when it passes a power of two."""
        state = self._session.state
        before = state.n_out_of_memory
        state.n_out_of_memory += n
        if before.bit_length() != state.n_out_of_memory.bit_length():
            self.log.say(
                f"out of memory ({state.n_out_of_memory} so far): the update was repeated in smaller micro-batches, "
                "with the same result; a lower training.max_tokens avoids the repetition"
            )

    def begin_window(self) -> None:
        """Print the mixture of a new stage."""
        state = self._session.state
        if self._stage != state.stage:
            self._stage = state.stage
            lines = [*mixture(self._session)]
            mix = self._session.windows.mix
            for line in lines:
                self.log.say(line)
            if lines and state.step == state.stage_step:  # not again by a resumed run
                named = zip(mix.corpora, mix.stages[state.stage].shares, strict=True)
                shares = {corpus.name: float(share) for corpus, share in named}
                self.log.log({"kind": "mixture", "step": state.step, "minutes": state.seconds / 60, "shares": shares})

    def pause(self) -> None:
        """Stop counting time as training time."""
        self._tick(training=True)

    def resume(self) -> None:
        """Count time as training time again. The pause counts towards max_minutes but not towards the speed."""
        self._tick(training=False)

    def record(self, is_last: bool = False) -> None:
        """Log the updates since the last record, if there are any, and reset the sums.

        The last record of a run keeps the sums: if the run is continued, a record of more updates replaces it.
        """
        self.settle()
        tally = dict(self._tally)
        state = self._session.state
        settings = self._session.settings
        if "n_updates" not in tally:
            return
        numbers = self._numbers()
        nll = numbers["nll"]
        if not is_last:
            self._tally.clear()
        scores = {"perplexity": math.exp(min(nll, 700.0)), "accuracy": tally["n_correct"] / tally["n_tokens"]}
        if settings.has_consistency:
            scores["divergence"] = tally["divergence"] / tally["n_tokens"]
        if settings.masked.pair_task:
            scores["pair_loss"] = tally["class_nll"] / tally["n_pairs"]
            scores["pair_accuracy"] = tally["n_class_correct"] / tally["n_pairs"]
        self.log.log(
            {
                "kind": "train",
                **position(self._session),
                "loss": numbers["loss"],
                "nll": nll,
                **scores,
                "lr": numbers["lr"],
                "gradient_norm": tally["norm"] / tally["n_updates"],
                "tokens_per_second": numbers["tokens_per_second"],
                "padding_share": 1.0 - tally["n_real"] / tally["n_slots"],
                "n_skipped": state.n_skipped,
                "n_out_of_memory": state.n_out_of_memory,
            }
        )
        self._n_records += 1
        if self._n_records == 2:  # the first updates are slow: they allocate memory, or compile the model
            pace = tally["seconds"] / tally["n_updates"]
            if line := forecast(self._session, pace):
                self.log.say(line)
        if not is_last and (alarm := loss_alarm(state, nll, int(tally["n_updates"]))):
            self.log.warn(state, alarm)

    def show(self, at_once: bool = False) -> None:
        """Refresh the progress bar, at most once every SHOW_SECONDS unless `at_once` is True."""
        now = time.monotonic()
        if "n_updates" in self._tally and (at_once or now - self._shown >= SHOW_SECONDS):
            self._shown = now
            session = self._session
            state = session.state
            pace = (state.update_seconds + state.paused_seconds) / max(state.step, 1)  # starting is over
            _, last = expected_end(session, pace)
            self.log.progress(state.step, last, self._numbers(), pace * max(0, last - state.step))

    def _numbers(self) -> dict[str, float]:
        """Return the loss, nll, learning rate and speed of a record of the updates so far."""
        tally = self._tally
        session = self._session
        return {
            "loss": tally["loss"] / tally["n_tokens"],
            "nll": tally["nll"] / tally["n_tokens"],
            "lr": learning_rate(session.state.step, session.settings, session.d_model, session.state.cooldown),
            "tokens_per_second": self._learned_tokens / max(tally["seconds"], 1e-9),
        }

    def _tick(self, training: bool) -> None:
        """Count the seconds since the last call, as training time if `training`."""
        now = time.monotonic()
        cpu_now = time.process_time()
        seconds = now - self._clock
        self._clock = now
        cpu_seconds = cpu_now - self._cpu_clock
        self._cpu_clock = cpu_now
        state = self._session.state
        state.seconds += seconds
        if training:
            self._tally["seconds"] = self._tally.get("seconds", 0.0) + seconds
            state.update_seconds += seconds
            # the other processes do the same work
            state.cpu_seconds += cpu_seconds * self._session.world.size
        else:
            state.paused_seconds += seconds


MEMORY_STEPS = 50  # time constant of the moving average of the loss, in updates
CLIMB = 1.0  # nats per token
SHARE = 0.5  # of the translations
ADVICE = "start another run with a lower training.peak_lr or training.factor, or with more training.warmup_steps"


def loss_alarm(state: TrainState, loss: float, n_updates: int) -> str | None:
    """Update the recent loss in `state` with `loss`, the mean over the last `n_updates`.

    Returns a warning if the recent loss has just risen far above its minimum.
    """
    weight = 1.0 - math.exp(-n_updates / MEMORY_STEPS)
    recent = loss if state.recent_loss is None else state.recent_loss + weight * (loss - state.recent_loss)
    state.recent_loss = recent
    state.lowest_loss = recent if state.lowest_loss is None else min(recent, state.lowest_loss)
    was_high = state.loss_is_high
    state.loss_is_high = recent > state.lowest_loss + CLIMB
    if not state.loss_is_high or was_high:
        return None
    return f"the loss has climbed from {state.lowest_loss:.2f} to {recent:.2f}: training may have diverged; {ADVICE}"


def collapse_alarm(sources: Sequence[str], translations: Sequence[str]) -> str | None:
    """Return a warning if most translations of the development set are empty, identical or repetitive."""
    n = len(translations)
    common, n_common = Counter(translations).most_common(1)[0]
    n_repetitive = sum(_is_repetitive(line) for line in translations)
    n_empty = sum(not line.strip() for line in translations)
    if n_empty > SHARE * n:
        problem = f"{n_empty} of {n} translations of the development set are empty"
    elif n_common > SHARE * n and sources.count(sources[translations.index(common)]) <= SHARE * n:
        problem = f"{n_common} of {n} translations of the development set are the same: {beginning(common, 60)!r}"
    elif n_repetitive > SHARE * n:
        problem = f"{n_repetitive} of {n} translations of the development set repeat a word or two over and over"
    else:
        return None
    return (
        f"{problem}; early in a run this is normal, later check the warnings of nmt prepare (characters that the "
        "vocabulary lacks), the training text and the learning rate"
    )


def _is_repetitive(line: str) -> bool:
    """Return whether one or two distinct words make up most of a line."""
    words = line.split()
    return len(words) >= 8 and sum(n for _, n in Counter(words).most_common(2)) > 0.75 * len(words)


def mixture(session: Session) -> Iterator[str]:
    """Yield lines that describe the mixture of the current stage, unless corpora of one direction are mixed by size."""
    settings = session.settings
    mix = session.windows.mix
    state = session.state
    if not mix.is_mixed and not session.data.has_several_directions:
        return
    stage = mix.stages[state.stage]
    n_steps = max(settings.planned_steps or settings.max_steps, state.stage_step)
    n_updates = stage.n_updates or n_steps - state.stage_step
    n_pairs = n_updates * mix.n_pairs // session.n_epoch_updates
    # training.max_minutes, not max_steps, ends most runs that have both
    has_known_end = bool(stage.n_updates or settings.planned_steps or settings.max_epochs or not settings.max_minutes)
    if settings.max_epochs is not None:
        n_left = settings.max_epochs * mix.n_pairs - state.stage_pairs
        n_pairs = max(0, min(n_pairs, n_left))  # a cool-down may go on for a little longer
    if len(mix.stages) > 1:
        yield f"stage {state.stage + 1} of {len(mix.stages)} mixes the training corpora, from step {state.stage_step}:"
    for corpus, share in zip(mix.corpora, stage.shares, strict=True):
        line = f"{corpus.name} ({corpus.n:,} pairs): {float(share):.4g} of the training pairs"
        if has_known_end:
            line += f", about {float(share * n_pairs / corpus.n):.3g} passes in this stage"
        yield line


@contextmanager
def reporting(session: Session, has_profile: bool) -> Iterator[Meter]:
    """Open the log of a run and yield its meter; profile a few updates if `has_profile`."""
    state = session.state
    run = session.run
    with TrainingLog(run, state, session.settings.report_to, session.description) as log:
        announce(session, log)
        try:
            with profiler(session.device, run, log) if has_profile else nullcontext() as tracing:
                yield Meter(session, log, tracing)
            if has_profile and not run.trace.exists():
                log.say(f"--profile: nothing was traced: tracing begins after {SKIPPED_STEPS} updates of this process")
        except KeyboardInterrupt:
            log.say(
                f"interrupted at step {state.step}; nmt train --resume continues from step {session.saver.saved_step}"
            )
            raise


def announce(session: Session, log: TrainingLog) -> None:
    """Print the direction, sizes, precision and directory of the run that is starting."""
    n_parameters = session.model.n_parameters
    n_learned = sum(parameter.numel() for parameter in session.model.parameters() if parameter.requires_grad)
    pairs = "lines" if session.settings.learns_lines else "pairs"
    learned = "" if n_learned == n_parameters else f" ({n_learned:,} of them learned)"
    data = session.data
    packed = " packed" if session.layout == "packed" else ""
    log.say(
        f"{', '.join(data.all_directions)}: {session.windows.n_examples:,} {pairs}, "
        f"{n_parameters:,} parameters{learned}, {session.precision} on {session.device.type}{packed}, "
        f"into {session.run.path}"
    )
    if n_lines := session.settings.validate_lines:
        log.say(f"validations translate at most {n_lines} lines by greedy search, only the last one translates all")
    for note in unspaced_notes(session.validator.references, data.tgt):
        log.say(f"warning: {note}")
    if few := session.validator.few_four_grams:
        log.say(f"warning: {few}; checkpoints are selected by {metric_name(session.selected_by)}")
    if session.settings.modifiers:
        announce_modifiers(session, log)
    if session.forward is not None:
        log.say("training.compile: the model is compiled first, so the first updates take a minute or more")
    if session.state.step:
        log.say(f"resuming from step {session.state.step}")


N_TRIED = 256
"""Number of pairs on which a modifier is tried before training."""


def announce_modifiers(session: Session, log: TrainingLog) -> None:
    """Print the modifiers, warn about modifiers without effect, and write an example of each to the log."""
    rates = ", ".join(f"{name} {rate:g}" for name, rate in session.settings.modifiers.items())
    log.say(f"modifiers: {rates} (shares of the pairs; see log.jsonl for an example of each)")
    n_tried = min(len(session.pairs), N_TRIED)
    for name, example in session.training_objective.modified_examples(session.pairs, N_TRIED).items():
        if example is None:
            log.say(f"warning: training.modifiers.{name} has no effect on any of {n_tried} sampled pairs")
        elif session.state.step == 0:
            src, tgt = example
            log.log({"kind": "modifier", "step": 0, "minutes": 0.0, "modifier": name, "src": src, "tgt": tgt})


SKIPPED_STEPS = 5
TRACED_STEPS = 10
PROFILE_ROWS = 20
"""For `nmt train --profile`: updates before the trace, updates in it, and rows of its table."""

making_batches = partial(record_function, "making batches")
"""Context that labels the making of batches for the profiler."""


def profiler(device: torch.device, run: RunDir, log: TrainingLog) -> profile:
    """Return a profiler that skips the first `SKIPPED_STEPS` updates and traces the next `TRACED_STEPS`.

    It then logs a table of the most expensive operations and writes the trace to the run directory.
    """

    def report(traced: profile) -> None:
        by = f"self_{device.type}_time_total"
        table = traced.key_averages().table(sort_by=by, row_limit=PROFILE_ROWS, max_name_column_width=40)
        for line in table.splitlines():
            log.say(line)
        try:
            refuse_links([run.trace.parent, run.trace])
            run.trace.parent.mkdir(exist_ok=True)
            traced.export_chrome_trace(str(run.trace))
        except (OSError, UnsafeFileError) as error:
            log.say(f"warning: {run.trace}: cannot be written: {getattr(error, 'strerror', error)}; training continues")
        else:
            log.say(f"trace: {run.trace}; open it in https://ui.perfetto.dev or chrome://tracing; training continues")

    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    steps = schedule(wait=SKIPPED_STEPS - 1, warmup=1, active=TRACED_STEPS, repeat=1)
    return profile(activities=activities, schedule=steps, on_trace_ready=report, acc_events=True)
