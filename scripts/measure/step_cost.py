"""Measure and draw how the cost of a training step grows with the width of the model and the size of an update.

    python -m scripts.measure.step_cost [--output PICTURE] [--widths N,N] [--updates N,N] [--repeat N] [--seconds S]

The steps are those of `nmt train` (3+3 layers, inner layers of four times the width, 8,000 pieces, dropout 0.1) on
random ids in sentences as long as those of Multi30k. For each point two updates are learned from once to warm up and
then again and again. Operations are the multiplications and additions of the matrix products that the steps make,
padding included, counted by PyTorch. Leave the machine alone meanwhile: up to ten minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import Config
from nmt.config.load import check_config
from nmt.data.batching import Pairs, Update, epoch_updates
from nmt.data.corpus import Split, lines_of
from nmt.data.mixing import Position
from nmt.data.windows import Window, Windows
from nmt.layout import DataDir, RunDir
from nmt.model.device import device_name, pick_device
from nmt.model.precision import pick_float32_library, pick_precision, use_float32_library
from nmt.model.transformer import Transformer
from nmt.process import Stop, set_up
from nmt.runs.state import TrainState
from nmt.text.tokenizer import N_SPECIAL
from nmt.training.loop import train_step
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.parallel import World
from nmt.training.session import Session
from nmt.training.validate import Validator

VOCABULARY, PAIRS, UPDATES = 8000, 29_000, 2
WIDTH, UPDATE_TOKENS = 256, 4096
"""Width while the update size varies, and update size while the width varies."""
LOG_LENGTH = {"de": (2.71, 0.33), "en": (2.69, 0.30)}
"""Mean and deviation of the logarithm of a line's length in Multi30k (8,000 pieces, end of sentence counted)."""
CORRELATION = 0.86
OUTPUT = Path(__file__).parents[1] / "results" / "step_cost.png"
UPPER, LOWER = {"color": "0.5", "marker": "s", "markerfacecolor": "white"}, {"color": "black", "marker": "o"}


@dataclass(frozen=True)
class Point:
    """The cost of steps of one kind."""

    precision: str
    width: int
    update_tokens: int
    parameters: int
    target_tokens: float
    """Mean over the updates, as for `operations`."""
    operations: float
    seconds: list[float]
    """Per step, one for each pass through the updates."""

    @property
    def median(self) -> float:
        """Seconds per step."""
        return statistics.median(self.seconds)


class Lines(Split):
    """A training set of random ids."""

    def __init__(self) -> None:
        super().__init__(DataDir(Path()), "train", PAIRS)
        rng = np.random.default_rng(1)
        normal = rng.multivariate_normal((0, 0), ((1, CORRELATION), (CORRELATION, 1)), PAIRS)
        self._ids, self._ends = {}, {}
        for column, (language, (mean, deviation)) in enumerate(LOG_LENGTH.items()):
            lengths = np.maximum(np.rint(np.exp(mean + deviation * normal[:, column])).astype(np.int64) - 1, 1)
            self._ends[language] = np.cumsum(lengths)
            self._ids[language] = rng.integers(N_SPECIAL, VOCABULARY, int(lengths.sum())).astype(np.uint16)

    def ids(self, language: str) -> npt.NDArray[Any]:
        return self._ids[language]

    def ends(self, language: str) -> npt.NDArray[np.int64]:
        return self._ends[language]


def settings(width: int, update_tokens: int) -> Config:
    """The configuration of a point."""
    dropout = dict.fromkeys(("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout"), 0.1)
    layers = {"encoder_layers": 3, "decoder_layers": 3}
    model = {"d_model": width, "n_heads": max(1, width // 64), "d_ff": 4 * width, **layers, **dropout}
    files = {"files": {"de": "-", "en": "-"}}
    data = {"direction": "de-en", "train": [files], "valid": files}
    return check_config({"data": data, "model": model, "training": {"update_tokens": update_tokens}}, "step_cost")


def make_session(
    config: Config,
    pairs: Pairs,
    updates: list[Update],
    precision: str,
    world: World | None = None,
    vocabulary: int = VOCABULARY,
) -> Session:
    """All that a step needs; there is no run to write to and nothing to validate."""
    device = pick_device(config.training.device)
    use_float32_library(pick_float32_library(precision, device))
    torch.manual_seed(config.training.seed)
    model = Transformer(config.model, vocabulary, vocabulary).to(device)
    return Session(
        config=config,
        run=RunDir(Path()),
        windows=cast(Windows, None),
        window=Window(Position(), pairs, updates),
        validator=cast(Validator, None),
        model=model,
        optimizer=make_optimizer(model, config.training),
        scaler=make_scaler(device, precision),
        state=TrainState(),
        device=device,
        precision=precision,
        max_tokens=4 * config.training.update_tokens,
        world=world or World(),
        stop=Stop(),
    )


@cache  # one point is in both panels
def measure(pairs: Pairs, precision: str, width: int, update_tokens: int, repeat: int, seconds: float) -> Point:
    """Time the steps of a point: `repeat` times, and again until `seconds` have passed or it is ten times as often."""
    planned = epoch_updates(pairs.lengths, update_tokens, seed=1, epoch=0, pool_pairs=PAIRS)[:UPDATES]
    session, updates = make_session(settings(width, update_tokens), pairs, planned, precision), list(planned)
    with FlopCounterMode(display=False) as counter:
        go_through(session, updates)
    found: list[float] = []
    deadline = time.monotonic() + seconds
    while len(found) < repeat or (time.monotonic() < deadline and len(found) < 10 * repeat):
        found.append(go_through(session, updates))
    n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
    tokens, operations = sum(update.n_tokens for update in updates), counter.get_total_flops()
    return Point(precision, width, update_tokens, n_parameters, tokens / UPDATES, operations / UPDATES, found)


def go_through(session: Session, updates: Sequence[Update]) -> float:
    """Learn from each update once; the seconds of a step."""
    start = time.perf_counter()
    for update in updates:
        train_step(session, update).stats.packed.tolist()  # waits for a GPU, too
    return (time.perf_counter() - start) / len(updates)


def table(points: Sequence[Point]) -> str:
    """A line for each point."""
    head = f"{'precision':<10}{'width':>6}{'update':>8}{'parameters':>12}{'s/step':>9}{'(least':>9}{'most)':>8}"
    lines = [f"{head}{'tokens/s':>10}{'TFLOP/s':>9}"]
    for p in points:
        size = f"{p.precision:<10}{p.width:>6}{p.update_tokens:>8,}{p.parameters:>12,}"
        spread = f"{min(p.seconds):>9.3f}{max(p.seconds):>8.3f}"
        speed, teraflops = p.target_tokens / p.median, p.operations / p.median / 1e12
        lines.append(f"{size}{p.median:>9.3f}{spread}{speed:>10,.0f}{teraflops:>9.3f}")
    return "\n".join(lines)


def draw(by_width: Sequence[Point], by_update: Sequence[Point], path: Path) -> None:
    """Seconds per step over width and over the update's size, both axes logarithmic."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _panel(left, by_width, "width", "model width (inner layers 4 times as wide)")
    _panel(right, by_update, "update_tokens", "target tokens of an update")
    left.set_title(f"updates of {UPDATE_TOKENS:,} target tokens")
    right.set_title(f"width {WIDTH}")
    figure.savefig(path, dpi=150)


def _panel(axes: Axes, points: Sequence[Point], name: str, label: str) -> None:
    precisions = list(dict.fromkeys(p.precision for p in points))
    for precision in precisions:
        line = sorted((p for p in points if p.precision == precision), key=lambda p: int(getattr(p, name)))
        x, y = [int(getattr(p, name)) for p in line], [p.median for p in line]
        is_upper = precision == precisions[-1]
        style: dict[str, Any] = UPPER if is_upper and len(precisions) > 1 else LOWER
        as_operations = [y[-1] * p.operations / line[-1].operations for p in line]
        label_of_line = "as the operations grow" if precision == precisions[0] else None
        axes.plot(x, as_operations, linestyle=":", color=style["color"], label=label_of_line)
        spread = [[p.median - min(p.seconds) for p in line], [max(p.seconds) - p.median for p in line]]
        axes.errorbar(x, y, yerr=spread, capsize=3, label=precision, **style)
        place: dict[str, Any] = {"ha": "right", "va": "bottom"} if is_upper else {"ha": "left", "va": "top"}
        for p, at in zip(line, x, strict=True):
            speed, offset = f"{p.target_tokens / p.median:,.0f}", (-5, 6) if is_upper else (5, -6)
            place |= {"textcoords": "offset points", "bbox": {"color": "white", "pad": 0.5}}
            axes.annotate(speed, (at, p.median), offset, fontsize=8, **place)
    ticks = sorted({int(getattr(p, name)) for p in points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10)
    axes.set_xticks(ticks, labels=[f"{tick:,}" for tick in ticks])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.16, y=0.14)
    axes.grid(alpha=0.3, which="both", linewidth=0.5)
    axes.set_xlabel(label)
    axes.set_ylabel("seconds per step (numbers: target tokens/s)")
    axes.legend(loc="lower right")


def numbers(text: str) -> list[int]:
    """Whole numbers separated by commas."""
    return [int(word) for word in text.split(",")]


def main() -> None:
    """Measure, print, draw."""
    before = dict(os.environ)
    set_up()
    if os.environ != before:  # PyTorch reads it when it is imported
        os.execv(sys.executable, sys.orig_argv)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the picture; a .json is written beside it")
    parser.add_argument("--widths", type=numbers, default=[128, 256, 512, 1024], help="widths of the model")
    parser.add_argument("--updates", type=numbers, default=[1024, 2048, 4096, 8192, 16384], help="sizes of an update")
    parser.add_argument("--repeat", type=int, default=3, help="how often each update is learned from at least")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each point, if that is more often")
    options = parser.parse_args()
    device = pick_device("auto")
    best, pairs = pick_precision("auto", device), Pairs(lines_of(Lines(), "de"), lines_of(Lines(), "en"))

    def points(precision: str, sizes: Sequence[tuple[int, int]]) -> list[Point]:
        found = []
        for width, update_tokens in sizes:
            print(f"step_cost: {precision}, width {width}, updates of {update_tokens}", file=sys.stderr, flush=True)
            found.append(measure(pairs, precision, width, update_tokens, options.repeat, options.seconds))
        return found

    widths = [(width, UPDATE_TOKENS) for width in options.widths]
    by_width = [point for precision in dict.fromkeys((best, "float32")) for point in points(precision, widths)]
    by_update = points(best, [(WIDTH, update_tokens) for update_tokens in options.updates])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    place = {"device": device_name(device), "threads": torch.get_num_threads(), "torch": torch.__version__}
    content = {**place, "by_width": list(map(asdict, by_width)), "by_update": list(map(asdict, by_update))}
    options.output.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draw(by_width, by_update, options.output)
    print(table([*by_width, *by_update]))


if __name__ == "__main__":
    main()
