"""Training curves of runs in one figure: loss, BLEU or accuracy, and learning rate, over steps and over time.

Curves are distinguishable without colour: runs by dashes, markers and shade of grey; training has no markers, the
development set filled ones, the moving average hollow ones, and the average at the end a star.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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
from matplotlib.typing import LineStyleType

from nmt.config.load import load_saved_config
from nmt.console import printable
from nmt.errors import CheckpointError, NmtError
from nmt.layout import RunDir
from nmt.figures.attention import check_picture, save_picture
from nmt.runs.listing import is_run
from nmt.runs.log import Record, number, read_log

Points = npt.NDArray[np.float64]  # (n, 3): step, minutes (NaN if not logged), value
STEP, MINUTES, VALUE = range(3)


@dataclass(frozen=True)
class Curves:
    """The curves of one run."""

    name: str
    unit: str
    """What losses are means over: tokens, masked pieces or texts."""
    metric: str
    """BLEU, or of a run that does not translate its accuracy (%), of tokens or classes."""
    train_loss: Points
    learning_rate: Points
    dev_loss: Points
    dev_score: Points
    ema_loss: Points
    ema_score: Points
    average_loss: Points
    average_score: Points

    @property
    def rows(self) -> tuple[tuple[Points, ...], ...]:
        """The curves in each row of the figure."""
        losses = self.train_loss, self.dev_loss, self.ema_loss, self.average_loss
        return losses, (self.dev_score, self.ema_score, self.average_score), (self.learning_rate,)


def curves_of(name: str, records: Sequence[Record], unit: str = "token") -> Curves:
    """Extract the curves from the log of a run, whose losses are means over `unit`."""
    train, dev, ema, average = (
        [record for record in records if record.get("kind") == kind] for kind in ("train", "valid", "ema", "average")
    )
    has_bleu = any("bleu" in record for record in dev) or (not dev and unit == "token")

    def score(record: Record) -> float | None:
        value = number(record, "bleu" if has_bleu else "accuracy")
        return value if has_bleu or value is None else 100 * value

    return Curves(
        name=name,
        unit=unit,
        metric="BLEU" if has_bleu else "accuracy (%)",
        train_loss=_points(train, _unsmoothed),
        learning_rate=_points(train, lambda record: number(record, "lr")),
        dev_loss=_points(dev, _without_pairs),
        dev_score=_points(dev, score),
        ema_loss=_points(ema, _without_pairs),
        ema_score=_points(ema, score),
        average_loss=_points(average, _without_pairs),
        average_score=_points(average, score),
    )


def _unsmoothed(record: Record) -> float | None:
    """Return the training loss without label smoothing, from the perplexity: comparable with the development set's."""
    perplexity = perplexity_of(record)
    return math.log(perplexity) if perplexity is not None else number(record, "loss")


def _without_pairs(record: Record) -> float | None:
    """Return the loss of a validation without that of the pair task: comparable with what is drawn of training."""
    nll = number(record, "nll")  # older logs lack it
    return number(record, "loss") if nll is None else nll


def perplexity_of(record: Record) -> float | None:
    """Return the perplexity of a training record; None if there is none, as in older logs."""
    perplexity = number(record, "perplexity", most=1e305)  # training writes exp(700) at most
    return perplexity if perplexity is not None and perplexity > 0 else None


def _points(records: Sequence[Record], value_of: Callable[[Record], float | None]) -> Points:
    rows = []
    for record in records:
        value = value_of(record)
        if value is not None:
            position = (number(record, name) for name in ("step", "minutes"))
            rows.append([*(math.nan if x is None else x for x in position), value])
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def unit_of(run: RunDir) -> str:
    """Return what the losses of a run are means over."""
    with suppress(NmtError, OSError):  # of a damaged configuration: as in translation
        objective = load_saved_config(run.config).training.objective
        return {"classification": "text", "masked": "masked piece"}.get(objective, "token")
    return "token"


MOST_POINTS = 300  # of a training curve, to keep dashes visible; more are averaged, with their range shaded
EXPLODED = 20.0  # nats per token: twice the loss of an untrained model
LEGEND_CHARS = 100  # per row of the legend
MOST_NAMED = 10
DASHES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")
STAR: dict[str, Any] = {"marker": "*", "markersize": 14, "markerfacecolor": "white"}
MARKERS, GREYS = "osD^vPX", ("0.0", "0.4", "0.6")
MOST_RUNS = len(DASHES) * len(MARKERS)  # of a directory: further ones would repeat a style


@dataclass(frozen=True)
class Style:
    """The line style of a run."""

    dashes: LineStyleType
    marker: str
    grey: str

    @classmethod
    def of(cls, i: int) -> Style:
        """Return the style of run `i`; the first 28 are distinct."""
        return cls(DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)], GREYS[i % len(GREYS)])


def plot(runs: Sequence[Path], output: Path) -> list[str]:
    """Draw the curves of runs into a figure; return a line per run whose log lacks something.

    A directory of runs stands for the runs in it. Raises CheckpointError for a directory that is no run and holds none
    or too many, DataError unless `output` ends in .png, .pdf or .svg and its directory exists.
    """
    check_picture(output)
    runs = [run for path in runs for run in _runs_at(path)]
    logs = [list(read_log(RunDir(path).log)) for path in runs]
    units = [unit_of(RunDir(path)) for path in runs]
    curves = [curves_of(*run) for run in zip(_names(runs), logs, units, strict=True)]
    save_picture(draw(curves), output)
    lacks = [", ".join(_missing(records)) for records in logs]
    return [f"{path}: its log has {lack}" for path, lack in zip(runs, lacks, strict=True) if lack]


def _runs_at(path: Path) -> list[Path]:
    """Return the run directory `path`, or the run directories in it by name.

    Raises CheckpointError if there are none or more than there are styles.
    """
    if is_run(path):
        return [path]
    if not path.is_dir():
        problem = "a file, where a run directory is needed" if path.exists() else "no such directory"
        raise CheckpointError(f"{path}: {problem}; nmt runs lists the runs")
    runs = sorted(child for child in path.iterdir() if is_run(child))
    if len(runs) > MOST_RUNS:
        names = _some([run.name for run in runs])
        raise CheckpointError(
            f"{path}: holds {len(runs)} runs, more than the {MOST_RUNS} that can be distinguished; name some of {names}"
        )
    if not runs:
        further = sorted(child for child in path.iterdir() if child.is_dir() and any(map(is_run, child.iterdir())))
        if further:
            raise CheckpointError(f"{path}: no run directory here, but in {_some(list(map(str, further)))}")
        names = _some(sorted(child.name for child in path.iterdir()))
        raise CheckpointError(f"{path}: no run directory, and none in it; it holds {names or 'nothing'}")
    return runs


def _some(names: Sequence[str]) -> str:
    """Join the first names with commas."""
    return ", ".join([*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])])


def _missing(records: Sequence[Record]) -> Iterator[str]:
    """Yield what the log of a run lacks."""
    train = [record for record in records if record.get("kind") == "train"]
    if not train:
        yield "no training record yet"
    if not any(record.get("kind") == "valid" for record in records):
        yield "no validation yet"
    if any(perplexity_of(record) is None for record in train):
        yield "records without perplexity, whose loss is drawn with label smoothing"


def _names(runs: Sequence[Path]) -> list[str]:
    """Return the names of runs in the legend: the directory name, or the path if two are equal."""
    names = [path.name or path.resolve().name for path in runs]
    return [str(path) if names.count(name) > 1 else name for path, name in zip(runs, names, strict=True)]


def thin(points: Points, most: int = MOST_POINTS) -> tuple[Points, Points]:
    """Reduce points to at most `most` means of neighbours, and return them with (n, 2) minimum and maximum values."""
    if len(points) <= most:
        return points, points[:, [VALUE, VALUE]]
    starts = np.arange(most) * len(points) // most
    sizes = np.diff(starts, append=len(points))
    values = points[:, VALUE]
    extent = np.stack([np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)], axis=1)
    return np.add.reduceat(points, starts, axis=0) / sizes[:, None], extent


# --- drawing ------------------------------------------------------------------------------------


def draw(runs: Sequence[Curves]) -> Figure:
    """Draw three rows (loss, score, learning rate) of two columns (over steps, over time), between two legends."""
    labels = [_label(curves.name) for curves in runs]
    n_columns = max(1, min(len(runs), LEGEND_CHARS // (max(map(len, labels)) + 8)))
    figure = Figure(figsize=(11, 10 + 0.2 * math.ceil(len(runs) / n_columns)), layout="constrained")
    panels = figure.subplots(3, 2, sharex="col", sharey="row", height_ratios=(5, 4, 3))
    rows = [np.concatenate([points for curves in runs for points in curves.rows[i]]) for i in range(3)]
    minutes = np.concatenate(rows)[:, MINUTES]
    in_hours = minutes[np.isfinite(minutes)].max(initial=0.0) >= 90
    for column, scale in ((STEP, 1.0), (MINUTES, 60.0 if in_hours else 1.0)):
        for i, curves in enumerate(runs):
            _draw_run(panels[:, column], curves, Style.of(i), column, scale)
    if rows[0][:, VALUE].max(initial=0.0) > EXPLODED:
        panels[0, 0].set_yscale("log")  # next to an exploded loss the rest would be invisible
    metrics = " or ".join(sorted({curves.metric for curves in runs})) or "BLEU"
    units = " or ".join(sorted({curves.unit for curves in runs})) or "token"
    _label_axes(panels, rows, (f"Loss (nats per {units})", f"Development set {metrics}", "Learning rate"))
    panels[2, 1].set_xlabel(f"Training time ({'hours' if in_hours else 'minutes'})", fontsize=12)
    names = [
        Line2D([], [], color=style.grey, linestyle=style.dashes, marker=style.marker, markersize=6, label=label)
        for style, label in zip(map(Style.of, range(len(runs))), labels, strict=True)
    ]
    kinds = [
        Line2D([], [], color="0.0", linewidth=1.0, label="training"),
        Line2D([], [], color="0.0", linewidth=1.6, marker="o", markersize=5, label="development set"),
        Line2D([], [], color="0.0", linestyle="", label="development set, average of the last checkpoints", **STAR),
    ]
    if any(len(curves.ema_score) for curves in runs):
        hollow = Line2D([], [], color="0.0", linewidth=1.6, marker="o", markersize=5, markerfacecolor="1.0")
        hollow.set_label("development set, moving average")
        kinds.insert(2, hollow)
    shared = {"fontsize": 11, "frameon": False, "handlelength": 4}
    figure.legend(handles=names, loc="outside upper center", ncols=n_columns, **shared)
    figure.legend(handles=kinds, loc="outside lower center", ncols=3 if len(kinds) == 3 else 2, **shared)
    return figure


def _draw_run(panels: Sequence[Axes], curves: Curves, style: Style, column: int, scale: float) -> None:
    """Draw the curves of one run in one column; `scale` is the unit of its x axis."""
    loss, bleu, rate = panels
    for panel, points in ((loss, curves.train_loss), (rate, curves.learning_rate)):
        means, extent = thin(points)
        x = means[:, column] / scale
        lone = "." if len(x) == 1 else ""  # a single point has no line
        panel.plot(x, means[:, VALUE], color=style.grey, linestyle=style.dashes, linewidth=1.0, marker=lone)
        if len(means) < len(points):
            panel.fill_between(x, *extent.T, color=style.grey, alpha=0.35, linewidth=0.8)
    filled, hollow = style.grey, "1.0"
    for panel, points, inside in (
        (loss, curves.dev_loss, filled), (bleu, curves.dev_score, filled),
        (loss, curves.ema_loss, hollow), (bleu, curves.ema_score, hollow),
    ):  # fmt: skip
        panel.plot(
            points[:, column] / scale, points[:, VALUE], color=style.grey, linestyle=style.dashes, linewidth=1.6,
            marker=style.marker, markersize=5, markevery=max(1, len(points) // 20), markerfacecolor=inside,
        )  # fmt: skip
    for panel, points in ((loss, curves.average_loss), (bleu, curves.average_score)):
        panel.plot(points[:, column] / scale, points[:, VALUE], color=style.grey, linestyle="", zorder=4, **STAR)


def _label_axes(panels: npt.NDArray[np.object_], rows: Sequence[Points], labels: Sequence[str]) -> None:
    """Label the axes, and panels without points; `rows` are the points of each row, `labels` those of their y axes."""
    for label, row, points in zip(labels, panels, rows, strict=True):
        row[0].set_ylabel(label, fontsize=12)
        for column, panel in zip((STEP, MINUTES), row, strict=True):
            panel.tick_params(labelsize=11)
            panel.grid(color="0.9", linewidth=0.6)
            panel.set_axisbelow(True)
            if not np.isfinite(points[:, column]).any():
                panel.text(0.5, 0.5, "nothing logged yet", transform=panel.transAxes, ha="center", fontsize=12)
        if not len(points):
            row[0].set_yticks([])
    rate = panels[2, 0]
    if len(rows[2]):
        rate.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    rate.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    rate.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    rate.set_xlabel("Steps (updates)", fontsize=12)
    for column in (STEP, MINUTES):
        if np.isfinite(np.concatenate(rows)[:, column]).any():
            panels[2, column].set_xlim(left=0)
        else:
            panels[2, column].set_xticks([])


def _label(name: str) -> str:
    """Return a run's name for the legend: `$` would start a formula, a leading `_` would hide it, paths may be long."""
    text = printable(name)
    if len(text) > 60:
        text = f"{text[:28]} … {text[-29:]}"
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")
