"""The table of a sweep: a row per training, the best first, and the means over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

from nmt.console import printable
from nmt.data.corpus import read_manifest
from nmt.errors import CheckpointError, DataError
from nmt.layout import DataDir
from nmt.runs.info import Selected, Weights, read_selected
from nmt.runs.listing import summarise
from nmt.runs.log import best_bleu
from nmt.significance.paired import CONFIDENCE
from nmt.significance.seeds import MIN_RUNS
from nmt.significance.student import error_and_freedom, quantile
from nmt.sweep.grid import Axis
from nmt.sweep.jobs import Ended
from nmt.sweep.plan import Plan, Training

SEED = "training.seed"
TIME, TIME_KEY = "max_minutes", "training.max_minutes"
AS_LONG = 0.95
"""Trainings that the time limit ended count as equally long from this share of the steps of the longest on."""
DIFFERENCE = "to the first"
DIFFERENCE_NOTE = (
    f"{DIFFERENCE}: difference to the first row, the best, with its 95 % interval over seeds, on the development set, "
    "on which checkpoints were selected; nmt compare --group tests over seeds and the lines of a test set"
)
KINDS: tuple[Weights, ...] = get_args(Weights)


@dataclass(frozen=True)
class Row:
    """The result of one training; None is unknown."""

    training: Training
    state: Literal["finished", "failed", "stopped", "not started"]
    bleu: float | None
    """The best development BLEU."""
    by_weights: dict[Weights, float]
    """The best development BLEU of each kind of weights."""
    weights: str | None
    """The weights that `nmt translate` uses by default."""
    step: int | None
    minutes: float | None
    ended_by: str | None
    """The limit of `training` that ended it."""
    note: str
    """The error, if it failed."""


def rows_of(plan: Plan, ended: Mapping[str, Ended]) -> list[Row]:
    """Return the rows, best first, those without a score last; `ended` has the outcomes of this sweep, by name."""
    rows = [_row(training, ended.get(training.name)) for training in plan.trainings]
    return sorted(rows, key=lambda row: -1.0 if row.bleu is None else row.bleu, reverse=True)


def _row(training: Training, ended: Ended | None) -> Row:
    run = training.run
    note = ended.message if ended is not None and ended.has_failed else ""
    if not run.info.exists():
        return Row(training, "failed" if note else "not started", None, {}, None, None, None, None, note)
    summary = summarise(run)
    selected, by_weights = Selected(), dict[Weights, float]()
    with suppress(CheckpointError):
        selected = read_selected(run)
    with suppress(OSError):
        by_weights = best_bleu(run)
    state: Literal["finished", "failed", "stopped"] = "finished"
    if summary.state != "finished":
        state = "failed" if note else "stopped"
    settings, step, minutes = training.config.training, summary.step, summary.minutes
    limit = selected.finished_by
    weights = selected.weights if selected.model_fields_set else None
    if limit is None and step < settings.max_steps and (minutes or 0.0) >= (settings.max_minutes or math.inf):
        limit = TIME  # earlier versions did not record it
    ended_by = limit if state == "finished" else None
    return Row(training, state, summary.best_bleu, by_weights, weights, step, minutes, ended_by, note)


def render(plan: Plan, rows: Sequence[Row], include_shorter: bool = False) -> str:
    """Format the table as text and, if the grid has seeds, the means over them.

    The means are over finished trainings; without `include_shorter` those that the time limit ended before `AS_LONG`
    of the longest with the same settings are left out.
    """
    kinds = _kinds(rows)
    header = [*(printable(axis.label) for axis in plan.axes), "dev BLEU", *kinds, "weights", "step", "min", "state", ""]
    cells = [[*map(printable, row.training.values), *_cells(row, kinds)] for row in rows]
    table = _columns([header, *cells], len(plan.axes)) + _lengths(rows) + _development_sets(rows)
    return table + _means(plan.axes, rows, kinds, include_shorter)


def _kinds(rows: Sequence[Row]) -> list[Weights]:
    """Return the kinds of weights with a column of their own: those with a score, if there are several."""
    kinds = [kind for kind in KINDS if any(kind in row.by_weights for row in rows)]
    return kinds if len(kinds) > 1 else []


def _cells(row: Row, kinds: Sequence[Weights]) -> list[str]:
    return [
        *map(score, (row.bleu, *map(row.by_weights.get, kinds))),
        row.weights or "-",
        "-" if row.step is None else f"{row.step:,}",
        "-" if row.minutes is None else f"{row.minutes:.1f}",
        row.state,
        printable(row.note),
    ]


def score(bleu: float | None) -> str:
    """Format BLEU with two decimals."""
    return "-" if bleu is None else f"{bleu:.2f}"


def _lengths(rows: Sequence[Row]) -> str:
    """Return a note if the time limit ended trainings, so that they are not equally long."""
    finished = [row for row in rows if row.state == "finished"]
    timed = [row for row in finished if row.ended_by == TIME]
    steps = sorted({row.step or 0 for row in finished})
    if not timed or len(steps) < 2:
        return ""
    return (
        f"\n\n{TIME_KEY} ended {len(timed)} of {len(finished)} finished trainings: they are not equally long, "
        f"{steps[0]:,} to {steps[-1]:,} steps"
    )


def _development_sets(rows: Sequence[Row]) -> str:
    """Return a warning if the development sets differ, as when each is split off another text."""
    directories = dict.fromkeys(row.training.data for row in rows if row.bleu is not None)
    texts = {checksums for path in directories if (checksums := _development_text(DataDir(path)))}
    if len(texts) < 2:
        return ""
    return (
        f"\n\nwarning: the trainings have {len(texts)} different development sets, whose BLEU cannot be compared; give "
        "data.valid files of its own, the same for all"
    )


def _development_text(data: DataDir) -> tuple[str, ...]:
    """Return the checksums of the development set by language; empty if the manifest does not have them."""
    with suppress(DataError, KeyError):
        manifest = read_manifest(data)
        return tuple(manifest.files[data.text("valid", language).name].sha256 for language in manifest.languages)
    return ()


def _means(axes: Sequence[Axis], rows: Sequence[Row], kinds: Sequence[Weights], include_shorter: bool) -> str:
    """Format the means over seeds as a table, and name the trainings left out; empty if the grid has no seeds."""
    indices = [i for i, axis in enumerate(axes) if axis.key != SEED]
    if len(indices) == len(axes):
        return ""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        finished = groups.setdefault(tuple(row.training.values[i] for i in indices), [])
        if row.state == "finished" and row.bleu is not None:
            finished.append(row)
    lines: list[tuple[list[float], list[str]]] = []
    shorter: list[Row] = []
    for values, group in groups.items():
        if not include_shorter:
            cut = _cut_by_time(group)
            group[:], shorter = [row for row in group if row not in cut], shorter + cut
        columns = [[row.bleu for row in group], *([row.by_weights.get(kind) for row in group] for kind in kinds)]
        scores = [[score for score in column if score is not None] for column in columns]
        lines.append((scores[0], [*map(printable, values), *map(mean, scores), str(len(group))]))
    lines.sort(key=lambda line: -statistics.fmean(line[0] or [-1.0]))
    differences = [difference(lines[0][0], scores) for scores, _ in lines]
    differences[0] = ""
    header = [*(printable(axes[i].label) for i in indices), "dev BLEU", *kinds, "seeds", DIFFERENCE]
    cells = [[*line, shown] for (_, line), shown in zip(lines, differences, strict=True)]
    table = [header, *cells] if any(differences) else [line[:-1] for line in (header, *cells)]
    means = f"\n\nmean over finished seeds ± standard deviation ({SEED})\n{_columns(table, len(indices))}"
    if any(differences):
        means += f"\n{DIFFERENCE_NOTE}"
    if not shorter:
        return means
    names = ", ".join(f"{row.training.name} ({row.step or 0:,} steps)" for row in shorter)
    return (
        f"{means}\nnot in the means: {names}, which {TIME_KEY} ended more than {1 - AS_LONG:.0%} before the longest of "
        "the same settings; --include-shorter averages over them, too"
    )


def _cut_by_time(group: Sequence[Row]) -> list[Row]:
    """Return the trainings of a group that the time limit ended clearly before the longest."""
    longest = max((row.step or 0 for row in group), default=0)
    return [row for row in group if row.ended_by == TIME and (row.step or 0) < AS_LONG * longest]


def mean(scores: Sequence[float]) -> str:
    """Format the mean, with the standard deviation if there are several scores."""
    if len(scores) < 2:
        return score(scores[0] if scores else None)
    return f"{statistics.fmean(scores):.2f} ± {statistics.stdev(scores):.2f}"


def difference(first: Sequence[float], other: Sequence[float]) -> str:
    """Format the difference of the means with its 95 % interval over seeds (Welch); empty unless there are enough."""
    if min(len(first), len(other)) < MIN_RUNS:
        return ""
    variances = [statistics.variance(scores) / len(scores) for scores in (first, other)]
    error, freedom = error_and_freedom(variances, (len(first), len(other)))
    value, half = statistics.fmean(other) - statistics.fmean(first), error * quantile(CONFIDENCE, freedom)
    return f"{value:+.2f} [{value - half:+.2f}, {value + half:+.2f}]"


def _columns(lines: Sequence[Sequence[str]], n_left: int) -> str:
    """Align columns: the first `n_left` to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    names = {"dev BLEU", *KINDS, "step", "min", "seeds", DIFFERENCE}
    is_number = [i >= n_left and name in names for i, name in enumerate(lines[0])]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in lines
    )


def as_tsv(plan: Plan, rows: Sequence[Row]) -> str:
    """Format the table as TSV: full keys, no rounding; unknown values are empty."""
    scores = ["dev_bleu", *(f"dev_bleu_{kind}" for kind in KINDS)]
    facts = ("weights", "step", "minutes", "ended_by", "state", "run", "note")
    lines = [[*(axis.key for axis in plan.axes), *scores, *facts]]
    for row in rows:
        values = (
            *(row.bleu, *map(row.by_weights.get, KINDS), row.weights, row.step, row.minutes),
            *(row.ended_by, row.state, row.training.run.path, row.note),
        )
        lines.append([*row.training.values, *("" if value is None else str(value) for value in values)])
    return "".join("\t".join(map(printable, line)) + "\n" for line in lines)
