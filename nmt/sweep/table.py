"""The table of a sweep: a row per training, the best first, and the means over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from nmt.console import printable
from nmt.data.corpus import read_manifest
from nmt.errors import CheckpointError, DataError
from nmt.evaluate.significance import CONFIDENCE, MIN_RUNS, error_and_freedom, quantile
from nmt.layout import DataDir
from nmt.runs.info import Selected, Weights, read_selected
from nmt.runs.listing import summarise
from nmt.runs.log import Metric, best_scores, rank
from nmt.sweep.jobs import Ended
from nmt.sweep.plan import Plan, Training

SEED = "training.seed"
TIME, TIME_KEY = "max_minutes", "training.max_minutes"
AS_LONG = 0.95
"""Trainings that the time limit ended count as equally long from this share of the steps of the longest on."""
DIFFERENCE = "to the first"
DIFFERENCE_NOTE = (
    f"{DIFFERENCE}: difference to the first row, the best, with its 95 % interval over seeds, on the development set, "
    "on which checkpoints were selected"
)
OF_A_TEST_SET = "; nmt compare --group tests over seeds and the lines of a test set"
LABELS: dict[Metric, str] = {"bleu": "BLEU", "perplexity": "perplexity", "accuracy": "accuracy"}
PREDICTED = {f"training.{name}" for name in (
    "noise", "mask_share", "mask_span", "mask_words", "pair_task", "pair_negatives", "languages",
)}  # fmt: skip
"""Settings that decide which pieces are predicted, and from what."""
KINDS: tuple[Weights, ...] = get_args(Weights)


@dataclass(frozen=True)
class Row:
    """The result of one training; None is unknown."""

    training: Training
    state: Literal["finished", "failed", "stopped", "not started"]
    score: float | None
    """The best score of the development set by `Plan.metric`."""
    by_weights: dict[Weights, float]
    """The same of each kind of weights."""
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
    rows = [_row(training, plan.metric, ended.get(training.name)) for training in plan.trainings]
    return sorted(rows, key=lambda row: math.inf if row.score is None else rank(plan.metric, row.score))


def _row(training: Training, metric: Metric, ended: Ended | None) -> Row:
    run = training.run
    note = ended.message if ended is not None and ended.has_failed else ""
    if not run.info.exists():
        return Row(training, "failed" if note else "not started", None, {}, None, None, None, None, note)
    summary = summarise(run)
    selected, by_weights = Selected(), dict[Weights, float]()
    with suppress(CheckpointError):
        selected = read_selected(run)
    with suppress(OSError):
        by_weights = best_scores(run, metric)
    state: Literal["finished", "failed", "stopped"] = "finished"
    if summary.state != "finished":
        state = "failed" if note else "stopped"
    settings, step, minutes = training.config.training, summary.step, summary.minutes
    limit = selected.finished_by
    weights = selected.weights if selected.model_fields_set else None
    if limit is None and step < settings.max_steps and (minutes or 0.0) >= (settings.max_minutes or math.inf):
        limit = TIME  # earlier versions did not record it
    ended_by = limit if state == "finished" else None
    return Row(training, state, summary.best_score, by_weights, weights, step, minutes, ended_by, note)


def render(plan: Plan, rows: Sequence[Row], include_shorter: bool = False) -> str:
    """Format the table as text and, if the grid has seeds, the means over them.

    The means are over finished trainings; without `include_shorter` those that the time limit ended before `AS_LONG`
    of the longest with the same settings are left out.
    """
    kinds, dev = _kinds(rows), f"dev {LABELS[plan.metric]}"
    header = [*(printable(axis.label) for axis in plan.axes), dev, *kinds, "weights", "step", "min", "state", ""]
    cells = [[*map(printable, row.training.values), *_cells(row, kinds, plan.metric)] for row in rows]
    table = _columns([header, *cells], len(plan.axes)) + _lengths(rows) + _development_sets(plan, rows)
    return table + _means(plan, rows, kinds, include_shorter)


def _kinds(rows: Sequence[Row]) -> list[Weights]:
    """Return the kinds of weights with a column of their own: those with a score, if there are several."""
    kinds = [kind for kind in KINDS if any(kind in row.by_weights for row in rows)]
    return kinds if len(kinds) > 1 else []


def _cells(row: Row, kinds: Sequence[Weights], metric: Metric) -> list[str]:
    return [
        *(score(value, metric) for value in (row.score, *map(row.by_weights.get, kinds))),
        row.weights or "-",
        "-" if row.step is None else f"{row.step:,}",
        "-" if row.minutes is None else f"{row.minutes:.1f}",
        row.state,
        printable(row.note),
    ]


def score(value: float | None, metric: Metric = "bleu") -> str:
    """Format a score with two decimals, accuracy with four."""
    return "-" if value is None else f"{value:.{_decimals(metric)}f}"


def _decimals(metric: Metric) -> int:
    return 4 if metric == "accuracy" else 2


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


def _development_sets(plan: Plan, rows: Sequence[Row]) -> str:
    """Return a warning if the development sets differ, as when each is split off another text, or what is predicted."""
    directories = dict.fromkeys(row.training.data for row in rows if row.score is not None)
    texts = {sums for path in directories if (sums := _checksums(DataDir(path), DataDir.text))}
    if len(texts) > 1:
        return (
            f"\n\nwarning: the trainings have {len(texts)} different development sets, whose {LABELS[plan.metric]} "
            "cannot be compared; give data.valid files of its own, the same for all"
        )
    if plan.metric != "perplexity":
        return ""
    reasons = [axis.key for axis in plan.axes if axis.key in PREDICTED and len(axis.values) > 1]
    if len({sums for path in directories if (sums := _checksums(DataDir(path), DataDir.ids))}) > 1:
        reasons.insert(0, "the vocabulary")
    return (
        f"\n\nwarning: perplexities of different pieces cannot be compared: {' and '.join(reasons)} differ"
        if reasons
        else ""
    )


def _checksums(data: DataDir, file_of: Callable[[DataDir, str, str], Path]) -> tuple[str, ...]:
    """Return the checksums of the development set by language; empty if the manifest does not have them."""
    with suppress(DataError, KeyError):
        manifest = read_manifest(data)
        return tuple(manifest.files[file_of(data, "valid", language).name].sha256 for language in manifest.languages)
    return ()


def _means(plan: Plan, rows: Sequence[Row], kinds: Sequence[Weights], include_shorter: bool) -> str:
    """Format the means over seeds as a table, and name the trainings left out; empty if the grid has no seeds."""
    axes, metric = plan.axes, plan.metric
    indices = [i for i, axis in enumerate(axes) if axis.key != SEED]
    if len(indices) == len(axes):
        return ""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        finished = groups.setdefault(tuple(row.training.values[i] for i in indices), [])
        if row.state == "finished" and row.score is not None:
            finished.append(row)
    lines: list[tuple[list[float], list[str]]] = []
    shorter: list[Row] = []
    for values, group in groups.items():
        if not include_shorter:
            cut = _cut_by_time(group)
            group[:], shorter = [row for row in group if row not in cut], shorter + cut
        columns = [[row.score for row in group], *([row.by_weights.get(kind) for row in group] for kind in kinds)]
        scores = [[score for score in column if score is not None] for column in columns]
        means = [mean(column, metric) for column in scores]
        lines.append((scores[0], [*map(printable, values), *means, str(len(group))]))
    lines.sort(key=lambda line: rank(metric, statistics.fmean(line[0])) if line[0] else math.inf)
    differences = [difference(lines[0][0], scores, metric) for scores, _ in lines]
    differences[0] = ""
    header = [*(printable(axes[i].label) for i in indices), f"dev {LABELS[metric]}", *kinds, "seeds", DIFFERENCE]
    cells = [[*line, shown] for (_, line), shown in zip(lines, differences, strict=True)]
    table = [header, *cells] if any(differences) else [line[:-1] for line in (header, *cells)]
    text = f"\n\nmean over finished seeds ± standard deviation ({SEED})\n{_columns(table, len(indices))}"
    if any(differences):
        text += f"\n{DIFFERENCE_NOTE}{OF_A_TEST_SET if metric == 'bleu' else ''}"
    if not shorter:
        return text
    names = ", ".join(f"{row.training.name} ({row.step or 0:,} steps)" for row in shorter)
    return (
        f"{text}\nnot in the means: {names}, which {TIME_KEY} ended more than {1 - AS_LONG:.0%} before the longest of "
        "the same settings; --include-shorter averages over them, too"
    )


def _cut_by_time(group: Sequence[Row]) -> list[Row]:
    """Return the trainings of a group that the time limit ended clearly before the longest."""
    longest = max((row.step or 0 for row in group), default=0)
    return [row for row in group if row.ended_by == TIME and (row.step or 0) < AS_LONG * longest]


def mean(scores: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the mean, with the standard deviation if there are several scores."""
    if len(scores) < 2:
        return score(scores[0] if scores else None, metric)
    return f"{score(statistics.fmean(scores), metric)} ± {score(statistics.stdev(scores), metric)}"


def difference(first: Sequence[float], other: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the difference of the means with its 95 % interval over seeds (Welch); empty unless there are enough."""
    if min(len(first), len(other)) < MIN_RUNS:
        return ""
    variances = [statistics.variance(scores) / len(scores) for scores in (first, other)]
    error, freedom = error_and_freedom(variances, (len(first), len(other)))
    value, half = statistics.fmean(other) - statistics.fmean(first), error * quantile(CONFIDENCE, freedom)
    shown, low, high = (f"{x:+.{_decimals(metric)}f}" for x in (value, value - half, value + half))
    return f"{shown} [{low}, {high}]"


def _columns(lines: Sequence[Sequence[str]], n_left: int) -> str:
    """Align columns: the first `n_left` to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    names = {*(f"dev {label}" for label in LABELS.values()), *KINDS, "step", "min", "seeds", DIFFERENCE}
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
    dev = f"dev_{plan.metric}"
    scores = [dev, *(f"{dev}_{kind}" for kind in KINDS)]
    facts = ("weights", "step", "minutes", "ended_by", "state", "run", "note")
    lines = [[*(axis.key for axis in plan.axes), *scores, *facts]]
    for row in rows:
        values = (
            *(row.score, *map(row.by_weights.get, KINDS), row.weights, row.step, row.minutes),
            *(row.ended_by, row.state, row.training.run.path, row.note),
        )
        lines.append([*row.training.values, *("" if value is None else str(value) for value in values)])
    return "".join("\t".join(map(printable, line)) + "\n" for line in lines)
