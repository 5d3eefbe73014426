"""The training log: a progress bar, log.jsonl and TensorBoard."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from nmt.console import printable
from nmt.errors import UnsafeFileError
from nmt.figures.attention import any_script, draw_attention
from nmt.files.read import DOCUMENT_BYTES
from nmt.files.write import open_own, refuse_links
from nmt.layout import RunDir
from nmt.runs.state import TrainState

Record = Mapping[str, Any]
CURVES = ("train", "valid", "ema", "average")


class TrainingLog:
    """Writes every record to all three.

    A record is flat; `kind` is train, valid, ema, average, skipped, warning or modifier, and `step` is the update it
    belongs to.
    Compare training and development set by `nll` (nats per token): `loss` is what training minimises, smoothing and
    divergence included, and equals `nll` on the development set.
    """

    def __init__(
        self,
        run: RunDir,
        step: int,
        n_bytes: int,
        is_checked: bool,
        total_steps: int,
        waiting: Sequence[str] = (),
    ) -> None:
        """Continue after `step` with the first `n_bytes` of log.jsonl, and the lines `waiting` for disk space.

        A resumed run repeats what came after its checkpoint, and the validation of that step unless it `is_checked`.
        """
        self._path = run.log
        self._file = open_own(run.log)
        size = os.fstat(self._file).st_size
        # the average of that step is repeated, too, if the run died after it
        after = os.pread(self._file, min(max(0, size - n_bytes), DOCUMENT_BYTES), n_bytes)
        is_over = is_checked and b'"kind": "average"' not in after
        os.ftruncate(self._file, min(n_bytes, size))
        self._waiting = [line.encode() for line in waiting]  # lines not written yet, the disk being full
        self._in_trouble = False
        # only on a terminal: in a log file every record is a line instead
        self._bar: tqdm[Any] | None = None
        if sys.stderr.isatty():
            form = "{percentage:3.0f}% {n_fmt}/{total_fmt}{postfix}"
            with _screen():
                self._bar = tqdm(total=total_steps, initial=step, bar_format=form, dynamic_ncols=True)
        self.board = Board(run.tensorboard, step + is_over, self.say)
        if not is_over:
            self._show_again(step)

    def _show_again(self, step: int) -> None:
        """Write the records of `step` to TensorBoard again, which drops them when it continues there."""
        for line in os.pread(self._file, os.fstat(self._file).st_size, 0).splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # lines that were edited by hand
                record = json.loads(line)
                if record["step"] == step and record["kind"] in CURVES:
                    self.board.scalars(record)

    def progress(self, step: int, loss: float, nll: float, lr: float, tokens_per_second: float, left: float) -> None:
        """Update the progress bar; `loss` is with label smoothing, `nll` without, `left` is in seconds."""
        if self._bar is None:
            return
        numbers = f"loss {loss:.2f}, nll {nll:.2f}, lr {lr:.1e}, {tokens_per_second:,.0f} tok/s"
        with _screen():
            self._bar.set_postfix_str(f"{clock(left)} left, {numbers}", refresh=False)
            self._bar.update(step - self._bar.n)

    def log(self, record: Record) -> None:
        """Write a record: a line of log.jsonl, scalars in TensorBoard, and a line on the screen."""
        self._waiting.append(json.dumps(record).encode() + b"\n")
        self._write()
        if record["kind"] in CURVES:
            self.board.scalars(record)
            if record["kind"] != "train" or self._bar is None:
                self.say(_line(record))

    def warn(self, state: TrainState, message: str) -> None:
        """Log a warning, and show it."""
        self.log({"kind": "warning", "step": state.step, "minutes": state.seconds / 60, "message": message})
        self.say(f"warning: {message}")

    @property
    def waiting(self) -> list[str]:
        """Lines not written yet because the disk is full."""
        return [line.decode() for line in self._waiting]

    def sync(self) -> int:
        """Flush all records to the disk, and return the size of log.jsonl in bytes."""
        self._write()
        os.fsync(self._file)
        self.board.flush()
        return os.fstat(self._file).st_size

    def _write(self) -> None:
        """Write all waiting lines, each completely or not at all."""
        while self._waiting:
            end = os.fstat(self._file).st_size
            try:
                n_written = os.pwrite(self._file, self._waiting[0], end)
            except OSError as error:
                n_written, reason = 0, error.strerror
            else:
                reason = "No space left on device"
            if n_written < len(self._waiting[0]):
                os.ftruncate(self._file, end)
                if not self._in_trouble:
                    self.say(
                        f"warning: {self._path}: cannot be written: {reason}; training continues and retries later"
                    )
                self._in_trouble = True
                return
            self._waiting.pop(0)
        self._in_trouble = False

    def total(self, steps: int) -> None:
        """Set the total of the progress bar."""
        if self._bar is not None:
            self._bar.total = steps

    def say(self, text: str) -> None:
        """Print a line, above the progress bar."""
        with _screen():
            if self._bar is not None:
                self._bar.write(printable(text), file=sys.stderr)
            else:
                print(printable(text), file=sys.stderr, flush=True)

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            with _screen():
                self._bar.close()
        self.board.close()
        self._write()
        if self._waiting:
            self.say(f"{self._path}: {len(self._waiting)} records could not be written")
        os.close(self._file)


def _screen() -> contextlib.AbstractContextManager[None]:
    """Suppress errors when writing to the terminal, which may be closed or redirected to a full disk."""
    return contextlib.suppress(OSError)


def clock(seconds: float) -> str:
    """Format seconds: 3725 -> 1:02:05."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def _line(record: Record) -> str:
    numbers = {name: value for name, value in record.items() if isinstance(value, float) and name != "minutes"}
    if "nll" in numbers and "loss" in numbers:  # only one of them if they are equal
        loss = numbers.pop("loss")
        label = "loss (with divergence)" if "divergence" in numbers else "loss (smoothed)"
        label = "loss (with pair_loss)" if "pair_loss" in numbers else label
        numbers = numbers if loss == numbers["nll"] else {label: loss, **numbers}
    parts = [f"{name} {value:,.0f}" if value >= 1000 else f"{name} {value:.4g}" for name, value in numbers.items()]
    return f"step {record['step']:>6} {record['kind']:>5}  {clock(60 * record['minutes']):>7}  {', '.join(parts)}"


SHOWN_PIECES = 40  # of each side of the attention plot


class Board:
    """Writes a TensorBoard log. If that fails, it warns, and tries again at the next save."""

    def __init__(self, path: Path, purge_step: int, say: Callable[[str], None]) -> None:
        """Records written before the run was resumed are hidden from step `purge_step` on."""
        self._path, self._say = path, say
        self._purge_step: int | None = purge_step
        self._writer: SummaryWriter | None = None
        self._in_trouble = False
        self._hook, threading.excepthook = threading.excepthook, self._hush
        self.flush()

    def _hush(self, failure: threading.ExceptHookArgs) -> None:
        """Suppress errors of TensorBoard's writer thread; the next call raises and reports them."""
        if not (isinstance(failure.exc_value, OSError) and type(failure.thread).__module__.startswith("tensorboard.")):
            self._hook(failure)

    def scalars(self, record: Mapping[str, object]) -> None:
        """Write the numbers of a record."""

        def write(writer: SummaryWriter) -> None:
            for name, value in record.items():
                if isinstance(value, (int, float)) and name not in ("step", "kind"):
                    writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])

        self._do(write)

    def samples(self, step: int, rows: Sequence[tuple[str, str, str]]) -> None:
        """Write source, reference and translation of a few development sentences, as text."""
        table = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
        text = f"| source | reference | translation |\n|---|---|---|\n{table}"
        self._do(lambda writer: writer.add_text("valid/translations", text, step))

    def attention(
        self, step: int, weights: npt.NDArray[np.float32], src_pieces: Sequence[str], tgt_pieces: Sequence[str]
    ) -> None:
        """Plot attention weights (T, S), a row for each target piece; only the start of a long sentence."""
        import matplotlib  # not at the start of a run, which it would slow down

        matplotlib.use("Agg")
        title = f"Attention, mean of the heads of the layer before the last, step {step}"
        figure = draw_attention(src_pieces, tgt_pieces, weights, title, SHOWN_PIECES)
        with any_script():
            self._do(lambda writer: writer.add_figure("valid/attention", figure, step))

    def flush(self) -> None:
        """Flush to disk; after a failure, writing can start again from here."""
        self._in_trouble = False
        self._do(lambda writer: writer.flush())
        if not self._in_trouble:
            self._purge_step = None  # from here on there is nothing older

    def close(self) -> None:
        """Flush and close."""
        self._do(lambda writer: writer.close())
        threading.excepthook = self._hook

    def _do(self, action: Callable[[SummaryWriter], None]) -> None:
        if self._in_trouble:
            return
        try:
            if self._writer is None:
                refuse_links([self._path])
                self._writer = SummaryWriter(str(self._path), purge_step=self._purge_step)
            action(self._writer)
        except (OSError, UnsafeFileError) as error:  # training is worth more than its curves
            self._writer, self._in_trouble = None, True
            reason = f"cannot be written: {error.strerror}" if isinstance(error, OSError) else "is now a symbolic link"
            self._say(
                f"warning: {self._path}: {reason}; training continues, and TensorBoard will "
                "lack what comes until the next save (log.jsonl will not)"
            )
