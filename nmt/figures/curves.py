"""Training curves of runs in one figure: loss, BLEU or accuracy, and learning rate, over steps and over time.

Curves can be distinguished without colour: runs by dashes, markers and shades of grey; training by the absence of
markers, the development set by filled markers, the moving average by hollow markers, the final average by a star.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from nmt.config.load import load_saved_config
from nmt.console import printable
from nmt.errors import CheckpointError, NmtError
from nmt.figures.attention import check_picture, save_picture
from nmt.layout import RunDir
from nmt.runs.listing import is_run
from nmt.runs.log import Record, number, read_log

Points = npt.NDArray[np.float64]  # (n, 3): step, minutes (NaN if not logged), value
STEP, MINUTES, VALUE = range(3)
LOSS, SCORE, RATE = range(3)
"""Rows of the figure."""
KINDS = {
    "train": "training",
    "valid": "development set",
    "ema": "development set, moving average",
    "average": "development set, average of the last checkpoints",
}
"""The kinds of records in a log that have curves, with their labels."""


@dataclass(frozen=True)
class Curves:
    """The training curves of a run."""

    name: str
    unit: str
    """The unit that losses are averaged over: token, masked piece or text."""
    metric: str
    """The score: BLEU, or the accuracy (%) of tokens or classes for a run that does not translate."""
    points: Mapping[tuple[int, str], Points]
    """The points of each curve, by row of the figure and kind."""


def curves_of(name: str, records: Sequence[Record], unit: str = "token") -> Curves:
    """Extract the curves from the log of a run, whose losses are averaged over `unit`.

    Training losses are without label smoothing and validation losses without the pair task, so both are comparable.
    """
    valid = [record for record in records if record.get("kind") == "valid"]
    has_bleu = any("bleu" in record for record in valid) or (not valid and unit == "token")
    key, factor = ("bleu", 1) if has_bleu else ("accuracy", 100)
    rows: dict[tuple[int, str], list[list[float]]] = {(row, kind): [] for row in range(3) for kind in KINDS}
    for record in records:
        kind = str(record.get("kind"))
        values = dict[int, float | None]()
        if kind == "train":
            perplexity = number(record, "perplexity", most=1e305)  # training writes exp(700) at most
            values = {LOSS: math.log(perplexity) if perplexity else None, RATE: number(record, "lr")}
        elif kind in KINDS:
            nll, score = number(record, "nll"), number(record, key)  # older logs lack the first
            values = {LOSS: number(record, "loss") if nll is None else nll, SCORE: score and factor * score}
        place = [math.nan if x is None else x for x in (number(record, "step"), number(record, "minutes"))]
        for row, value in values.items():
            if value is not None:
                rows[row, kind].append([*place, value])
    points = {where: np.array(found, np.float64).reshape(-1, 3) for where, found in rows.items()}
    return Curves(name, unit, "BLEU" if has_bleu else "accuracy (%)", points)


def unit_of(run: RunDir) -> str:
    """Return the unit that the losses of a run are averaged over: token, masked piece or text."""
    with suppress(NmtError, OSError):  # a run with a damaged configuration is plotted like a translation model
        objective = load_saved_config(run.config).training.objective
        return {"classification": "text", "masked": "masked piece"}.get(objective, "token")
    return "token"


MOST_POINTS = 300  # per training curve, to keep dashes visible; more are averaged, and their range is shaded
EXPLODED = 20.0  # nats per token: twice the loss of an untrained model
LEGEND_CHARS = 100  # per row of the legend
DASHES, MARKERS, GREYS = ("-", "--", ":", "-."), "osD^vPX", ("0.0", "0.4", "0.6")
MOST_RUNS = len(DASHES) * len(MARKERS)  # per directory; further runs would repeat a style


def plot(runs: Sequence[Path], output: Path) -> list[str]:
    """Draw the curves of runs into a figure; return a message for each run whose log lacks records.

    A directory of runs stands for the runs in it. Raises CheckpointError if a path is neither a run nor a directory of
    runs, or has too many runs, and DataError unless `output` ends in .png, .pdf or .svg and its directory exists.
    """
    check_picture(output)
    runs = [run for path in runs for run in _runs_at(path)]
    names = [path.name or path.resolve().name for path in runs]
    names = [str(path) if names.count(name) > 1 else name for path, name in zip(runs, names, strict=True)]
    logs = [list(read_log(RunDir(path).log)) for path in runs]
    curves = [curves_of(name, log, unit_of(RunDir(run))) for name, log, run in zip(names, logs, runs, strict=True)]
    save_picture(draw(curves), output)
    lacks = [" and ".join(_missing(records)) for records in logs]
    return [f"{path}: its log has {lack} yet" for path, lack in zip(runs, lacks, strict=True) if lack]


def _runs_at(path: Path) -> list[Path]:
    """Return the run directory `path`, or the run directories in it, sorted by name.

    Raises CheckpointError if there are none, or more than there are styles.
    """
    if is_run(path):
        return [path]
    if not path.is_dir():
        problem = "a file, where a run directory is needed" if path.exists() else "no such directory"
        raise CheckpointError(f"{path}: {problem}; nmt runs lists the runs")
    runs = sorted(child for child in path.iterdir() if is_run(child))
    if not runs:
        raise CheckpointError(f"{path}: neither a run nor a directory of runs; nmt runs {path} lists the runs below it")
    if len(runs) > MOST_RUNS:
        raise CheckpointError(f"{path}: has {len(runs)} runs, but only {MOST_RUNS} can be distinguished")
    return runs


def _missing(records: Sequence[Record]) -> Iterator[str]:
    """Yield the kinds of records that the log of a run lacks."""
    for kind, name in {"train": "no training record", "valid": "no validation"}.items():
        if not any(record.get("kind") == kind for record in records):
            yield name


def thin(points: Points, most: int = MOST_POINTS) -> tuple[Points, Points]:
    """Average neighbouring points, so that at most `most` remain; return them with their value ranges (n, 2)."""
    if len(points) <= most:
        return points, points[:, [VALUE, VALUE]]
    starts = np.arange(most) * len(points) // most
    sizes = np.diff(starts, append=len(points))
    values = points[:, VALUE]
    extent = np.stack([np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)], axis=1)
    return np.add.reduceat(points, starts, axis=0) / sizes[:, None], extent


# --- drawing ------------------------------------------------------------------------------------


def draw(runs: Sequence[Curves]) -> Figure:
    """Draw the curves of runs: loss, score and learning rate in three rows, over steps and over time in two columns."""
    labels = [_label(curves.name) for curves in runs]
    n_columns = max(1, min(len(runs), LEGEND_CHARS // (max(map(len, labels)) + 8)))
    figure = Figure(figsize=(11, 10 + 0.2 * math.ceil(len(runs) / n_columns)), layout="constrained")
    panels = figure.subplots(3, 2, sharex="col", sharey="row", height_ratios=(5, 4, 3))
    every = np.concatenate([points for curves in runs for points in curves.points.values()])
    in_hours = np.nan_to_num(every[:, MINUTES]).max(initial=0.0) >= 90
    for column, scale in ((STEP, 1.0), (MINUTES, 60.0 if in_hours else 1.0)):
        for i, curves in enumerate(runs):
            for (row, kind), points in curves.points.items():
                _draw_curve(panels[row, column], kind, points, i, column, scale)
    losses = [points[:, VALUE] for curves in runs for (row, _), points in curves.points.items() if row == LOSS]
    if np.concatenate(losses).max(initial=0.0) > EXPLODED:
        panels[LOSS, 0].set_yscale("log")  # next to an exploded loss the rest would be invisible
    units, metrics = {curves.unit for curves in runs}, {curves.metric for curves in runs}
    of_loss = f"Loss (nats per {' or '.join(sorted(units))})"
    for row, label in enumerate((of_loss, f"Development set {' or '.join(sorted(metrics))}", "Learning rate")):
        panels[row, 0].set_ylabel(label, fontsize=12)
        for panel in panels[row]:
            panel.tick_params(labelsize=11)
            panel.grid(color="0.9", linewidth=0.6)
            panel.set_axisbelow(True)
            if not panel.lines:
                panel.text(0.5, 0.5, "nothing logged yet", transform=panel.transAxes, ha="center", fontsize=12)
    steps, times = panels[RATE]
    steps.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    steps.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    steps.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    for panel, label in ((steps, "Steps (updates)"), (times, f"Training time ({'hours' if in_hours else 'minutes'})")):
        panel.set_xlabel(label, fontsize=12)
        panel.set_xlim(left=0)
    drawn = [kind for kind in KINDS if any(len(curves.points[row, kind]) for curves in runs for row in range(3))]
    names = [Line2D([], [], **_look("valid", i), label=label) for i, label in enumerate(labels)]
    kinds = [Line2D([], [], **_look(kind, 0), label=KINDS[kind]) for kind in drawn]
    shared = {"fontsize": 11, "frameon": False, "handlelength": 4}
    figure.legend(handles=names, loc="outside upper center", ncols=n_columns, **shared)
    figure.legend(handles=kinds, loc="outside lower center", ncols=2 if len(kinds) == 4 else 3, **shared)
    return figure


def _draw_curve(panel: Axes, kind: str, points: Points, i: int, column: int, scale: float) -> None:
    """Draw a curve of run `i`. `column` is the column of `points` on the x axis, which is divided by `scale`."""
    if not np.isfinite(points[:, column]).any():
        return
    look = _look(kind, i)
    if kind != "train":
        panel.plot(points[:, column] / scale, points[:, VALUE], markevery=max(1, len(points) // 20), **look)
        return
    means, extent = thin(points)
    x = means[:, column] / scale
    panel.plot(x, means[:, VALUE], **look, marker="." if len(x) == 1 else "")  # a single point has no line
    if len(means) < len(points):
        panel.fill_between(x, *extent.T, color=look["color"], alpha=0.35, linewidth=0.8)


def _look(kind: str, i: int) -> dict[str, Any]:
    """Return the style of a curve of run `i`. The styles of the first 28 runs are distinct."""
    run = {"color": GREYS[i % len(GREYS)], "linestyle": DASHES[i % len(DASHES)]}
    match kind:
        case "train":
            return {**run, "linewidth": 1.0}
        case "average":
            return {**run, "linestyle": "", "marker": "*", "markersize": 14, "markerfacecolor": "white", "zorder": 4}
        case _:
            inside = "1.0" if kind == "ema" else run["color"]
            marker = {"marker": MARKERS[i % len(MARKERS)], "markersize": 5, "markerfacecolor": inside}
            return {**run, **marker, "linewidth": 1.6}


def _label(name: str) -> str:
    """Return the name of a run for the legend, shortened and without the special meaning of `$` and a leading `_`."""
    text = printable(name)
    if len(text) > 60:
        text = f"{text[:28]} … {text[-29:]}"
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")
