"""What happened, three times over: a progress bar for people, log.jsonl for programs, TensorBoard for eyes."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from nmt.checkpoint import replace_file
from nmt.layout import RunDir

matplotlib.use("Agg")

Record = Mapping[str, Any]

SHOWN_PIECES = 40  # of each side of an attention picture


class TrainingLog:
    """One `log(record)` for all three. A record is flat; `kind` is train or valid, `step` the update it speaks of."""

    def __init__(self, run: RunDir, step: int, total_steps: int) -> None:
        if run.log.exists():  # a resumed run does over what came after its checkpoint
            lines = run.log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            replace_file(run.log, "".join(line for line in lines if _step_of(line) <= step))
        self._file = run.log.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(run.tensorboard), purge_step=step + 1)
        # a progress bar in a log file is noise: there, every record becomes a line
        self._bar: tqdm[Any] | None = None
        if sys.stderr.isatty():
            form = "{percentage:3.0f}% |{bar:20}| {n_fmt}/{total_fmt} steps{postfix}"
            self._bar = tqdm(total=total_steps, initial=step, bar_format=form, dynamic_ncols=True)

    def progress(
        self, step: int, loss: float, perplexity: float, lr: float, tokens_per_second: float, left: float
    ) -> None:
        """Update the progress bar; `left` is in seconds."""
        if self._bar is not None:
            self._bar.set_postfix_str(
                f"loss {loss:.3f}, ppl {perplexity:.1f}, lr {lr:.2e}, {tokens_per_second:,.0f} tokens/s, "
                f"{clock(left)} left",
                refresh=False,
            )
            self._bar.update(step - self._bar.n)

    def log(self, record: Record) -> None:
        """Keep a record: a line of log.jsonl, its numbers as scalars, and a line on the screen."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        for name, value in record.items():
            if isinstance(value, (int, float)) and name not in ("step", "kind"):
                self._board.add_scalar(f"{record['kind']}/{name}", value, record["step"])
        if record["kind"] != "train" or self._bar is None:
            self.say(_line(record))

    def total(self, steps: int) -> None:
        """How many steps there will be, once that is known better."""
        if self._bar is not None:
            self._bar.total = steps

    def say(self, text: str) -> None:
        """A line on the screen, above the progress bar."""
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)

    def samples(self, step: int, rows: Sequence[tuple[str, str, str]]) -> None:
        """Source, reference and translation of a few development sentences, as text."""
        table = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
        self._board.add_text(
            "valid/translations", f"| source | reference | translation |\n|---|---|---|\n{table}", step
        )

    def attention(
        self, step: int, weights: npt.NDArray[np.float32], src_pieces: Sequence[str], tgt_pieces: Sequence[str]
    ) -> None:
        """A picture of attention weights (T, S), a row for each target piece; of a long sentence its start."""
        src_pieces, tgt_pieces = src_pieces[:SHOWN_PIECES], tgt_pieces[:SHOWN_PIECES]
        weights = weights[: len(tgt_pieces), : len(src_pieces)]
        figure = Figure(figsize=(1.5 + 0.35 * len(src_pieces), 1.5 + 0.3 * len(tgt_pieces)), layout="constrained")
        axes = figure.subplots()
        axes.imshow(weights, cmap="gray_r", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_xticks(range(len(src_pieces)), labels=[_drawable(piece) for piece in src_pieces], rotation=90)
        axes.set_yticks(range(len(tgt_pieces)), labels=[_drawable(piece) for piece in tgt_pieces])
        axes.set_xlabel("source pieces")
        axes.set_ylabel("reference pieces")
        axes.set_title(f"Attention of the last layer, mean of the heads, step {step}")
        with warnings.catch_warnings():
            # the default font has no glyph for many scripts: a box is drawn, which is no reason for a warning each
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            self._board.add_figure("valid/attention", figure, step)

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        self._board.close()
        self._file.close()


def _step_of(line: str) -> float:
    """The step of a line of log.jsonl; infinity if the line was torn when the run died."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf


def clock(seconds: float) -> str:
    """3725 -> 1:02:05."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def _line(record: Record) -> str:
    parts = [f"{name} {value:,.4g}" for name, value in record.items() if isinstance(value, float) and name != "minutes"]
    return f"step {record['step']:>6} {record['kind']:>5}  {clock(60 * record['minutes']):>7}  {', '.join(parts)}"


def _drawable(piece: str) -> str:
    """`piece` for a label: `$` would start a formula, and a font knows no control characters."""
    return "".join(c if c.isprintable() else "?" for c in piece).replace("$", r"\$")
