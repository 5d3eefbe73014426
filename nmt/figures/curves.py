"""Training curves of runs in one figure: loss, BLEU or accuracy, and learning rate, over steps, time or CPU time.

Curves can be distinguished without colour: runs by dashes, markers and shades of grey; training by the absence of
markers, the development set by filled markers, the moving average by hollow markers, the final average by a star.
Runs that differ only in the seed can be drawn as one curve, their mean, with a band from the lowest to the highest run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, product
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
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.figures.attention import check_picture, save_picture
from nmt.layout import RunDir
from nmt.runs.listing import is_run
from nmt.runs.log import Record, number, read_log
from nmt.text.words import shortened

Points = npt.NDArray[np.float64]
"""Points of a curve, (n, 6): step, minutes, CPU seconds (NaN if not logged), value, and the range of the values that
the point is the mean of."""
STEP, MINUTES, CPU, VALUE, LOW, HIGH = range(6)
LOSS, SCORE, RATE = range(3)
QUANTITIES = {"loss": LOSS, "score": SCORE, "rate": RATE}
"""The quantities that panels show, by their names on the command line."""
SCALES = {"steps": STEP, "time": MINUTES, "cpu": CPU}
"""The horizontal axes of panels, by their names on the command line."""
DEFAULT_PANELS = tuple(map("/".join, product(QUANTITIES, ("steps", "time"))))
WIDTHS = {1: 3.3, 2: 6.9}
"""The widths of one and two columns of a paper, in inches."""
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
    """The points of each curve, by quantity (`LOSS`, `SCORE`, `RATE`) and kind."""


def curves_of(name: str, records: Sequence[Record], unit: str = "token") -> Curves:
    """Extract the curves from the log of a run, whose losses are averaged over `unit`.

    Training losses are without label smoothing and validation losses without the pair task, so both are comparable.
    """
    valid = [record for record in records if record.get("kind") == "valid"]
    key = "accuracy"
    factor = 100
    metric = "accuracy (%)"
    if any("bleu" in record for record in valid) or (not valid and unit == "token"):
        key = "bleu"
        factor = 1
        metric = "BLEU"
    rows: dict[tuple[int, str], list[list[float | None]]] = {curve: [] for curve in product(range(3), KINDS)}
    for record in records:
        kind = str(record.get("kind"))
        values = {}
        if kind == "train":
            perplexity = number(record, "perplexity", most=1e305)  # training writes exp(700) at most
            values = {RATE: number(record, "lr")}
            if perplexity:
                values[LOSS] = math.log(perplexity)
        elif kind in KINDS:
            loss = number(record, "nll")
            score = number(record, key)
            if loss is None:  # in older logs
                loss = number(record, "loss")
            values = {LOSS: loss, SCORE: score and factor * score}
        place = [number(record, name) for name in ("step", "minutes", "cpu_seconds")]
        for row, value in values.items():
            if value is not None:
                rows[row, kind].append([*place, value, value, value])
    points = {curve: np.array(values, np.float64).reshape(-1, 6) for curve, values in rows.items()}  # None is NaN
    return Curves(name, unit, metric, points)


def mean_of(name: str, members: Sequence[Curves]) -> Curves:
    """Return the mean of the curves of runs, and their range, at the steps that all of them have logged.

    Raises ConfigError if the runs measure different scores or losses.
    """
    first = members[0]
    if len({(curves.unit, curves.metric) for curves in members}) > 1:
        raise ConfigError(f"group {name}: its runs learn different tasks, whose curves have no mean")
    points = {}
    for where in first.points:
        by_step = []
        for curves in members:
            by_step.append({point[STEP]: point for point in curves.points[where]})
        shared = [step for step in by_step[0] if all(step in of_run for of_run in by_step)]
        by_run = [[of_run[step] for step in shared] for of_run in by_step]
        every = np.array(by_run).reshape(len(members), -1, 6)
        points[where] = every.mean(0)
        points[where][:, LOW], points[where][:, HIGH] = every[..., LOW].min(0), every[..., HIGH].max(0)
    return Curves(name, first.unit, first.metric, points)


def unit_of(run: RunDir) -> str:
    """Return the unit that the losses of a run are averaged over: token, masked piece or text."""
    with suppress(NmtError, OSError):  # a run with a damaged configuration is plotted like a translation model
        return load_saved_config(run.config).training.facts.counted
    return "token"


MOST_POINTS = 300  # per training curve, to keep dashes visible; more are averaged, and their range is shaded
EXPLODED = 20.0  # nats per token: twice the loss of an untrained model
LEGEND_CHARS = 100  # per row of the legend, if its type has as many points as the figure has inches
DASHES = ("-", "--", ":", "-.")
MARKERS = "osD^vPX"
GREYS = ("0.0", "0.4", "0.6")
MOST_RUNS = len(DASHES) * len(MARKERS)  # per directory; further runs would repeat a style


def plot(
    runs: Sequence[Path],
    output: Path,
    groups: Mapping[str, Sequence[Path]] | None = None,
    panels: Sequence[str] = DEFAULT_PANELS,
    columns: int | None = None,
) -> list[str]:
    """Draw the curves of runs into a figure; return a message for each run whose log lacks records.

    A directory of runs stands for the runs in it. The runs of each of the named `groups` are drawn as their mean. For
    `panels` and `columns` see `draw`. Raises CheckpointError if a path is neither a run nor a directory of runs, or has
    too many runs, ConfigError if a panel is unknown or the runs of a group cannot be averaged, and
    DataError unless `output` ends in .png, .pdf or .svg and its directory exists.
    """
    check_picture(output)
    known = {*map("/".join, product(QUANTITIES, SCALES))}
    if unknown := [panel for panel in panels if panel not in known]:
        raise ConfigError(
            f"--panel {unknown[0]}: write {' or '.join(QUANTITIES)}, a slash, and {' or '.join(SCALES)}: score/cpu"
        )
    runs = _runs_in(runs)
    names = [path.name or path.resolve().name for path in runs]
    members = []
    for run, name in zip(runs, names, strict=True):
        if names.count(name) > 1:
            name = str(run)
        members.append((name, [run]))
    members += [(name, _runs_in(paths)) for name, paths in (groups or {}).items()]
    curves = []
    messages = []
    for name, paths in members:
        of_runs = []
        for path in paths:
            records = list(read_log(RunDir(path).log))
            of_runs.append(curves_of(name, records, unit_of(RunDir(path))))
            if lack := " and ".join(_missing(records)):
                messages.append(f"{path}: its log has {lack} yet")
        drawn = of_runs[0]
        if len(of_runs) > 1:
            drawn = mean_of(name, of_runs)
        curves.append(drawn)
        n_drawn = _n_points(drawn)
        n_most = max(map(_n_points, of_runs))
        if n_drawn < n_most:
            messages.append(f"{name}: the mean has only the {n_drawn} of {n_most} points that all of its runs have")
    save_picture(draw(curves, panels, columns), output)
    return messages


def _n_points(curves: Curves) -> int:
    return sum(len(points) for (quantity, _), points in curves.points.items() if quantity == LOSS)


def _runs_in(paths: Sequence[Path]) -> list[Path]:
    return [*chain.from_iterable(map(_runs_at, paths))]


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


def thin(points: Points) -> Points:
    """Average neighbouring points, so that at most `MOST_POINTS` remain, each with the range of the averaged values."""
    if len(points) <= MOST_POINTS:
        return points
    starts = np.arange(MOST_POINTS) * len(points) // MOST_POINTS
    sizes = np.diff(starts, append=len(points))
    means = np.add.reduceat(points, starts, axis=0) / sizes[:, None]
    means[:, LOW] = np.minimum.reduceat(points[:, LOW], starts)
    means[:, HIGH] = np.maximum.reduceat(points[:, HIGH], starts)
    return means


# --- drawing ------------------------------------------------------------------------------------


def draw(runs: Sequence[Curves], panels: Sequence[str] = DEFAULT_PANELS, columns: int | None = None) -> Figure:
    """Draw the curves of runs.

    panels: what to draw, as in `DEFAULT_PANELS`; in pairs side by side, but below each other in one column of a paper.
    columns: draw for 1 or 2 columns of a paper (see `WIDTHS`), in its smaller type. None: a page 11 inches wide.
    """
    width = 11.0
    size = 11
    row_height = 9.6
    if columns is not None:
        width = WIDTHS[columns]
        size = 7
        row_height = 6.0
    n_across = min(2, len(panels))
    n_beside = 3
    if columns == 1:
        n_across = n_beside = 1
    chosen = []
    for panel_name in panels:
        quantity_name, scale_name = panel_name.split("/")
        chosen.append((QUANTITIES[quantity_name], SCALES[scale_name]))
    grid = [chosen[i : i + n_across] for i in range(0, len(chosen), n_across)]
    # an axis is labelled once where all panels share it
    is_full = len(chosen) % n_across == 0
    shares_x = is_full and len({tuple(scale for _, scale in row) for row in grid}) == 1
    shares_y = is_full and all(row[0][0] == row[-1][0] for row in grid)
    figure = Figure(layout="constrained")
    height_of = {LOSS: 5, SCORE: 4, RATE: 3}
    heights = [max(height_of[quantity] for quantity, _ in row) for row in grid]
    axes = figure.subplots(
        len(grid), n_across, sharex="col" if shares_x else False, sharey="row" if shares_y else False, squeeze=False,
        height_ratios=heights,
    )  # fmt: skip
    for unused in axes[-1, len(grid[-1]) :]:
        unused.remove()
    drawn = np.concatenate([*chain.from_iterable(curves.points.values() for curves in runs)])
    in_hours = np.nan_to_num(drawn[:, MINUTES]).max(initial=0.0) >= 90
    for (row, column), panel in np.ndenumerate(axes):
        if column < len(grid[row]):
            quantity, scale = grid[row][column]
            _draw_panel(panel, runs, quantity, scale, in_hours, size)
            if shares_x and row < len(grid) - 1:
                panel.set_xlabel("")
            if shares_y and column:
                panel.set_ylabel("")
    shown = set()
    for curves, (quantity, _) in product(runs, chosen):
        shown |= {kind for kind in KINDS if len(curves.points[quantity, kind])}
    kinds = [kind for kind in KINDS if kind in shown]
    labels = [_label(curves.name) for curves in runs]
    n_columns = max(1, min(len(runs), int(LEGEND_CHARS * width / size) // (max(map(len, labels)) + 8)))
    names = [Line2D([], [], **_look("valid", i, size), label=label) for i, label in enumerate(labels)]
    looks = [Line2D([], [], **_look(kind, 0, size), label=KINDS[kind]) for kind in kinds]
    shared = {"fontsize": size, "frameon": False, "handlelength": 4}
    figure.legend(handles=names, loc="outside upper center", ncols=n_columns, **shared)
    if len(kinds) == 4:
        n_beside = min(2, n_beside)
    figure.legend(handles=looks, loc="outside lower center", ncols=n_beside, **shared)
    n_lines = math.ceil(len(runs) / n_columns) + math.ceil(len(kinds) / n_beside)
    figure.set_size_inches(width, row_height / 12 * sum(heights) + 0.018 * size * n_lines)
    return figure


def _draw_panel(panel: Axes, runs: Sequence[Curves], quantity: int, scale: int, in_hours: bool, size: int) -> None:
    """Draw a quantity of all runs over a scale, in type of `size` points."""
    unit = 1.0
    time_unit = "minutes"
    if in_hours:
        time_unit = "hours"
        if scale == MINUTES:
            unit = 60.0
    for i, curves in enumerate(runs):
        for (drawn, kind), points in curves.points.items():
            if drawn != quantity:
                continue
            _draw_curve(panel, kind, points, scale, unit, _look(kind, i, size))
            if quantity == LOSS and points[:, HIGH].max(initial=0.0) > EXPLODED:
                panel.set_yscale("log")  # next to an exploded loss the rest would be invisible
    if quantity == RATE:
        panel.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
        panel.yaxis.get_offset_text().set_fontsize(size)
    units = {curves.unit for curves in runs}
    metrics = {curves.metric for curves in runs}
    labels = {
        LOSS: f"Loss (nats per {' or '.join(sorted(units))})",
        SCORE: f"Development set {' or '.join(sorted(metrics))}",
        RATE: "Learning rate",
    }
    scales = {
        STEP: "Steps (updates)",
        MINUTES: f"Training time ({time_unit})",
        CPU: "CPU seconds of training",
    }
    panel.set_ylabel(labels[quantity], fontsize=size + 1)
    panel.set_xlabel(scales[scale], fontsize=size + 1)
    if scale != MINUTES:
        n_ticks = 7 if size > 7 else 5
        panel.xaxis.set_major_locator(MaxNLocator(nbins=n_ticks, steps=[1, 2, 5, 10], integer=True))
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if panel.get_yscale() == "linear":
        panel.locator_params(axis="y", nbins=7)  # else it follows from the height, which the layout changes afterwards
    panel.set_xlim(left=0)
    panel.tick_params(labelsize=size)
    panel.grid(color="0.9", linewidth=0.6)
    panel.set_axisbelow(True)
    if not panel.lines:
        panel.text(0.5, 0.5, "nothing logged yet", transform=panel.transAxes, ha="center", fontsize=size + 1)


def _draw_curve(panel: Axes, kind: str, points: Points, scale: int, unit: float, look: Mapping[str, Any]) -> None:
    """Draw a curve over a scale, which is divided by `unit`, with the range of its points as a band."""
    if not np.isfinite(points[:, scale]).any():
        return
    markers: dict[str, Any] = {"markevery": max(1, len(points) // 20)}
    if kind == "train":
        points = thin(points)
        markers = {"marker": ""}
        if len(points) == 1:
            markers["marker"] = "."  # a single point has no line
    x = points[:, scale] / unit
    panel.plot(x, points[:, VALUE], **look, **markers)
    if (points[:, LOW] < points[:, HIGH]).any():
        panel.fill_between(x, points[:, LOW], points[:, HIGH], color=look["color"], alpha=0.25, linewidth=0.8)


def _look(kind: str, i: int, size: int) -> dict[str, Any]:
    """Return the style of a curve of run `i` beside type of `size` points. The styles of the first 28 runs are
    distinct."""
    run = {"color": GREYS[i % len(GREYS)], "linestyle": DASHES[i % len(DASHES)]}
    match kind:
        case "train":
            return {**run, "linewidth": size / 11}
        case "average":
            star = {"marker": "*", "markersize": 14 * size / 11, "markerfacecolor": "white", "zorder": 4}
            return {**run, **star, "linestyle": ""}
        case _:
            inside = "1.0" if kind == "ema" else run["color"]
            marker = {"marker": MARKERS[i % len(MARKERS)], "markersize": 5 * size / 11, "markerfacecolor": inside}
            return {**run, **marker, "linewidth": 1.6 * size / 11}


def _label(name: str) -> str:
    """Return the name of a run for the legend, shortened and without the special meaning of `$` and a leading `_`."""
    text = printable(name)
    if len(text) > 60:
        text = shortened(text, 28, 29, " … ")
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
