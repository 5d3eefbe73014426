"""The table of a sweep: a row for each training, the best first; and the means over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from nmt.errors import CheckpointError
from nmt.metadata import read_selected
from nmt.runs import printable, summarise
from nmt.sweep.grid import Axis
from nmt.sweep.jobs import Ended
from nmt.sweep.plan import Plan, Training

SEED = "training.seed"


@dataclass(frozen=True)
class Row:
    """What has become of one training; None is what is not known."""

    training: Training
    state: Literal["finished", "failed", "stopped", "not started"]
    bleu: float | None
    """The best on the development set."""
    weights: str | None
    """Which weights `nmt translate` takes."""
    step: int | None
    minutes: float | None
    note: str
    """What went wrong."""


def rows_of(plan: Plan, ended: Mapping[str, Ended]) -> list[Row]:
    """The trainings, the best first, then those without a score; `ended` says how those of today ended, by name."""
    rows = [_row(training, ended.get(training.name)) for training in plan.trainings]
    return sorted(rows, key=lambda row: -1.0 if row.bleu is None else row.bleu, reverse=True)


def _row(training: Training, ended: Ended | None) -> Row:
    run = training.run
    note = ended.message if ended is not None and ended.has_failed else ""
    if not run.info.exists():
        return Row(training, "failed" if note else "not started", None, None, None, None, note)
    found = summarise(run)
    weights = None
    with suppress(CheckpointError):
        weights = read_selected(run).get("weights")
    state: Literal["finished", "failed", "stopped"] = "finished"
    if found.state != "finished":
        state = "failed" if note else "stopped"
    return Row(training, state, found.best_bleu, weights, found.step, found.minutes, note)


def render(plan: Plan, rows: Sequence[Row]) -> str:
    """The table for people, and where seeds are part of the grid the means over them."""
    header = [*(axis.label for axis in plan.axes), "dev BLEU", "weights", "step", "min", "state", ""]
    cells = [[*map(printable, row.training.values), *_cells(row)] for row in rows]
    return _columns([header, *cells], len(plan.axes)) + _means(plan.axes, rows)


def _cells(row: Row) -> list[str]:
    return [
        "-" if row.bleu is None else f"{row.bleu:.2f}",
        row.weights or "-",
        "-" if row.step is None else f"{row.step:,}",
        "-" if row.minutes is None else f"{row.minutes:.1f}",
        row.state,
        printable(row.note),
    ]


def _means(axes: Sequence[Axis], rows: Sequence[Row]) -> str:
    """A table of the means over seeds of finished trainings; nothing where the grid has no seeds."""
    places = [i for i, axis in enumerate(axes) if axis.key != SEED]
    if len(places) == len(axes):
        return ""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        scores = groups.setdefault(tuple(row.training.values[i] for i in places), [])
        if row.state == "finished" and row.bleu is not None:
            scores.append(row.bleu)
    lines = [[*(axes[i].label for i in places), "dev BLEU", "seeds"]]
    for values, scores in sorted(groups.items(), key=lambda item: -statistics.fmean(item[1] or [-1.0])):
        spread = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
        mean = f"{statistics.fmean(scores):.2f}{spread}" if scores else "-"
        lines.append([*map(printable, values), mean, str(len(scores))])
    title = f"mean over finished seeds ± standard deviation ({SEED})"
    return f"\n\n{title}\n{_columns(lines, len(places))}"


def _columns(lines: Sequence[Sequence[str]], n_left: int) -> str:
    """Lines of cells in columns; the first `n_left` begin alike, numbers end alike."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_number = [i >= n_left and lines[0][i] in ("dev BLEU", "step", "min", "seeds") for i in range(len(widths))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in lines
    )


def as_tsv(plan: Plan, rows: Sequence[Row]) -> str:
    """The table for programs: full keys, no rounding; what is not known is empty."""
    header = [*(axis.key for axis in plan.axes), "dev_bleu", "weights", "step", "minutes", "state", "run", "note"]
    lines = [header]
    for row in rows:
        facts = (row.bleu, row.weights, row.step, row.minutes, row.state, row.training.run.path, row.note)
        lines.append([*row.training.values, *("" if fact is None else str(fact) for fact in facts)])
    return "".join("\t".join(map(printable, line)) + "\n" for line in lines)
