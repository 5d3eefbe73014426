"""The table of a sweep: the runs, best first, and means over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from nmt.data.manifest import read_contents
from nmt.errors import CheckpointError, DataError
from nmt.evaluate.metrics import metric_name
from nmt.evaluate.significance import CONFIDENCE, MIN_RUNS, error_and_freedom, quantile
from nmt.layout import DataDir
from nmt.recipes.sweep_plan import SEED, GridRun, SweepPlan, shown_score, stage_of
from nmt.runs.info import Selected, read_selected
from nmt.runs.listing import summarise
from nmt.runs.log import rank
from nmt.tables import Cell, Table
from nmt.training.facts import Metric

DIFFERENCE = "to the first"
DIFFERENCE_NOTE = (
    f"{DIFFERENCE}: difference to the first row, the best, with its 95 % interval over seeds, on the development set, "
    "on which checkpoints were selected"
)
OF_A_TEST_SET = "; nmt compare --group tests over seeds and the lines of a test set"
PREDICTED = ("training.denoising.", "training.masked.", "training.causal.")
"""Sections whose settings decide which pieces are predicted, and from what."""


@dataclass(frozen=True)
class SweepRow:
    """The result of one run, with None for unknown values."""

    planned: GridRun
    state: Literal["finished", "eliminated", "failed", "stopped", "not started"]
    note: str
    """The error if it failed, or why its arm was eliminated, even if it had finished before."""
    score: float | None = None
    """The best score on the development set, by `SweepPlan.metric`."""
    weights: str | None = None
    """The weights that `nmt translate` uses by default."""
    step: int | None = None
    minutes: float | None = None
    ended_by: str | None = None
    """The setting of `training` whose limit ended it, such as max_minutes."""


def rows_of(plan: SweepPlan, errors: Mapping[str, str]) -> list[SweepRow]:
    """Return the rows, best first; `errors` contains the messages of failed runs by name."""
    eliminated = stage_of(plan, errors)[2]
    metric = plan.metric
    rows = []
    for arm, runs in plan.arms.items():
        rows += [_row(run, metric, errors.get(run.name, ""), eliminated.get(arm, "")) for run in runs]
    return sorted(rows, key=lambda row: math.inf if row.score is None else rank(metric, row.score))


def _row(planned: GridRun, metric: Metric, error: str, eliminated: str) -> SweepRow:
    row = SweepRow(planned, "not started", error or eliminated)
    if planned.run.info.exists():
        summary = summarise(planned.run)
        selected = Selected()
        with suppress(CheckpointError):
            selected = read_selected(planned.run)
        weights = selected.weights if selected.model_fields_set else None
        row = SweepRow(planned, "stopped", row.note, planned.best(metric), weights, summary.step, summary.minutes)
        if summary.state == "finished":
            return replace(row, state="finished", ended_by=selected.finished_by)
    if error:
        return replace(row, state="failed")
    if eliminated:
        return replace(row, state="eliminated")
    return row


def tables_of(plan: SweepPlan, rows: Sequence[SweepRow]) -> list[Table]:
    """Return the table of the runs and, if the grid has seeds, of the means over the finished runs of each arm."""
    n = len(plan.axes)
    metric = plan.metric
    header = [*(axis.label for axis in plan.axes), f"dev {metric_name(metric)}", "weights", "step", "min", "state", ""]
    lines = []
    for row in rows:
        step = "-" if row.step is None else f"{row.step:,}"
        minutes = "-" if row.minutes is None else f"{row.minutes:.1f}"
        facts = row.weights or "-", step, minutes, row.state, row.note
        lines.append([*row.planned.values.values(), shown_score(row.score, metric), *facts])
    notes = [*_lengths(rows), *_development_sets(plan, rows)]
    table = Table(header, lines, (n, n + 2, n + 3), notes=notes, records=records_of(plan, rows))
    return [table, *_means(plan, rows)]


def _lengths(rows: Sequence[SweepRow]) -> Iterator[str]:
    """Yield a note if the time limit ended runs after different numbers of steps."""
    finished = [row for row in rows if row.state == "finished"]
    timed = [row for row in finished if row.ended_by == "max_minutes"]
    steps = sorted({row.step or 0 for row in finished})
    if timed and len(steps) > 1:
        yield (
            f"training.max_minutes ended {len(timed)} of {len(finished)} finished runs: they have different lengths, "
            f"{steps[0]:,} to {steps[-1]:,} steps"
        )


def _development_sets(plan: SweepPlan, rows: Sequence[SweepRow]) -> Iterator[str]:
    """Yield a warning if the scores of the runs are not comparable, because their development sets differ."""
    directories = {row.planned.data for row in rows if row.score is not None}
    n_texts = _n_different(directories, DataDir.text)
    if n_texts > 1:
        yield (
            f"warning: the runs have {n_texts} different development sets, whose {metric_name(plan.metric)} "
            "cannot be compared; name the same files in data.valid for all"
        )
    elif plan.metric == "perplexity":
        reasons = []
        if _n_different(directories, DataDir.ids) > 1:
            reasons.append("the vocabulary")
        for axis in plan.axes:
            if axis.key.startswith(PREDICTED) and len(axis.values) > 1:
                reasons.append(axis.key)
        if reasons:
            yield f"warning: perplexities of different pieces cannot be compared: {' and '.join(reasons)} differ"


def _n_different(directories: Iterable[Path], file_of: Callable[[DataDir, str, str], Path]) -> int:
    """Count the different development sets, apart from those without checksums."""
    return len({_checksums(DataDir(path), file_of) for path in directories} - {()})


def _checksums(data: DataDir, file_of: Callable[[DataDir, str, str], Path]) -> tuple[str, ...]:
    """Return the checksums of the development set for each language; empty if the manifest lacks them."""
    with suppress(DataError, KeyError):
        contents = read_contents(data)
        checksums = []
        for pair, manifest in contents.manifests.items():
            for language in manifest.languages:
                file = file_of(contents.folders[pair], "valid", language)
                checksums.append(manifest.files[file.name].sha256)
        return tuple(checksums)
    return ()


def _means(plan: SweepPlan, rows: Sequence[SweepRow]) -> Iterator[Table]:
    """Yield a table of the means over seeds, the best first; none if the grid has no seeds."""
    axes = plan.arm_axes
    metric = plan.metric
    if len(axes) == len(plan.axes):
        return
    arms: dict[tuple[str, ...], list[SweepRow]] = {}
    for row in rows:
        values = tuple(row.planned.values[axis.key] for axis in axes)
        arms.setdefault(values, []).append(row)
    scores = dict[tuple[str, ...], list[float]]()
    ranks = {}
    for arm, of_arm in arms.items():
        scores[arm], ranks[arm] = [], math.inf
        for row in of_arm:
            if row.state == "finished" and row.score is not None:
                scores[arm].append(row.score)
        if scores[arm]:
            ranks[arm] = rank(metric, statistics.fmean(scores[arm]))
    ranked = sorted(arms, key=ranks.__getitem__)
    best = ranked[0]
    differences = {arm: difference(scores[best], scores[arm], metric) for arm in ranked}
    differences[best] = ""
    lines: list[list[str | Cell]] = []
    for arm, shown in differences.items():
        first = arms[arm][0]
        note = first.note if first.state in ("eliminated", "finished") else ""
        lines.append([*arm, Cell(mean(scores[arm], metric), arm == best), str(len(scores[arm])), shown, note])
    n = len(axes)
    notes = list[str]()
    heading = ""
    if any(differences.values()):
        heading = DIFFERENCE
        notes = [DIFFERENCE_NOTE]
        if metric in ("bleu", "chrf"):
            notes = [DIFFERENCE_NOTE + OF_A_TEST_SET]
    header = [*(axis.label for axis in axes), f"dev {metric_name(metric)}", "seeds", heading, ""]
    yield Table(header, lines, range(n, n + 3), f"mean over finished seeds ± standard deviation ({SEED})", notes)


def mean(scores: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the mean of scores, with the standard deviation if there are several."""
    if len(scores) < 2:
        return shown_score(scores[0] if scores else None, metric)
    return f"{shown_score(statistics.fmean(scores), metric)} ± {shown_score(statistics.stdev(scores), metric)}"


def difference(first: Sequence[float], other: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the difference of means with its 95 % interval over seeds (Welch); empty if there are too few scores."""
    if min(len(first), len(other)) < MIN_RUNS:
        return ""
    variances = [statistics.variance(scores) / len(scores) for scores in (first, other)]
    error, freedom = error_and_freedom(variances, (len(first), len(other)))
    value = statistics.fmean(other) - statistics.fmean(first)
    half = error * quantile(CONFIDENCE, freedom)
    low = shown_score(value - half, metric, "+")
    high = shown_score(value + half, metric, "+")
    return f"{shown_score(value, metric, '+')} [{low}, {high}]"


def records_of(plan: SweepPlan, rows: Sequence[SweepRow]) -> list[dict[str, object]]:
    """Return the results of each run by name: full keys, no rounding, None for unknown values."""
    records = []
    score = f"dev_{plan.metric}"
    for row in rows:
        facts = {name: getattr(row, name) for name in ("weights", "step", "minutes", "ended_by", "state")}
        run = {"run": str(row.planned.run.path), "note": row.note}
        records.append({**row.planned.values, score: row.score, **facts, **run})
    return records
