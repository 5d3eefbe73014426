"""The table of a sweep: the runs, best first, and means over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from nmt.config.objectives import Metric
from nmt.data.corpus import read_manifest, read_pairs_manifest
from nmt.errors import CheckpointError, DataError
from nmt.evaluate.metrics import metric_name
from nmt.evaluate.significance import CONFIDENCE, MIN_RUNS, error_and_freedom, quantile
from nmt.layout import DataDir
from nmt.recipes.sweep_plan import SEED, GridRun, Plan, decimals, score, stage_of
from nmt.runs.info import Selected, read_selected
from nmt.runs.listing import summarise
from nmt.runs.log import rank
from nmt.tables import Cell, Table

DIFFERENCE = "to the first"
DIFFERENCE_NOTE = (
    f"{DIFFERENCE}: difference to the first row, the best, with its 95 % interval over seeds, on the development set, "
    "on which checkpoints were selected"
)
OF_A_TEST_SET = "; nmt compare --group tests over seeds and the lines of a test set"
PREDICTED = ("training.denoising.", "training.masked.", "training.causal.")
"""Sections whose settings decide which pieces are predicted, and from what."""


State = Literal["finished", "eliminated", "failed", "stopped", "not started"]


@dataclass(frozen=True)
class Row:
    """The result of one run, with None for unknown values."""

    planned: GridRun
    state: State
    score: float | None = None
    """The best score on the development set, by `Plan.metric`."""
    weights: str | None = None
    """The weights that `nmt translate` uses by default."""
    step: int | None = None
    minutes: float | None = None
    ended_by: str | None = None
    """The setting of `training` whose limit ended it, such as max_minutes."""
    note: str = ""
    """The error if it failed, or why its arm was eliminated, even if it had finished before."""


def rows_of(plan: Plan, errors: Mapping[str, str]) -> list[Row]:
    """Return the rows, best first; `errors` contains the messages of failed runs by name."""
    eliminated = stage_of(plan, errors)[2]
    rows = [
        _row(one, errors.get(one.name, ""), eliminated.get(arm, ""))
        for arm, runs in plan.arms().items()
        for one in runs
    ]
    return sorted(rows, key=lambda row: math.inf if row.score is None else rank(plan.metric, row.score))


def _row(one: GridRun, error: str, eliminated: str) -> Row:
    is_started, note = one.run.info.exists(), error or eliminated
    state: State = "stopped" if is_started else "not started"
    if note:
        state = "failed" if error else "eliminated"
    if not is_started:
        return Row(one, state, note=note)
    summary, selected = summarise(one.run), Selected()
    with suppress(CheckpointError):
        selected = read_selected(one.run)
    weights = selected.weights if selected.model_fields_set else None
    row = Row(one, state, summary.best_score, weights, summary.step, summary.minutes, note=note)
    if summary.state == "finished":
        return replace(row, state="finished", ended_by=selected.finished_by)
    return row


def tables_of(plan: Plan, rows: Sequence[Row]) -> list[Table]:
    """Return the table of the runs and, if the grid has seeds, of the means over the finished runs of each arm."""
    n, dev = len(plan.axes), f"dev {metric_name(plan.metric)}"
    header = [*(axis.label for axis in plan.axes), dev, "weights", "step", "min", "state", ""]
    lines: list[list[str | Cell]] = [
        [
            *row.planned.values,
            score(row.score, plan.metric),
            row.weights or "-",
            "-" if row.step is None else f"{row.step:,}",
            "-" if row.minutes is None else f"{row.minutes:.1f}",
            row.state,
            row.note,
        ]
        for row in rows
    ]
    notes = [*_lengths(rows), *_development_sets(plan, rows)]
    table = Table(header, lines, (n, n + 2, n + 3), notes=notes, records=records_of(plan, rows))
    return [table, *_means(plan, rows)]


def _lengths(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a note if the time limit ended runs after different numbers of steps."""
    finished = [row for row in rows if row.state == "finished"]
    n_timed = sum(row.ended_by == "max_minutes" for row in finished)
    steps = sorted({row.step or 0 for row in finished})
    if n_timed and len(steps) > 1:
        yield (
            f"training.max_minutes ended {n_timed} of {len(finished)} finished runs: they have different lengths, "
            f"{steps[0]:,} to {steps[-1]:,} steps"
        )


def _development_sets(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a warning if the scores of the runs are not comparable, because their development sets differ."""
    directories = {row.planned.data for row in rows if row.score is not None}
    n_texts = _n_different(directories, DataDir.text)
    if n_texts > 1:
        yield (
            f"warning: the runs have {n_texts} different development sets, whose {metric_name(plan.metric)} "
            "cannot be compared; name the same files in data.valid for all"
        )
    if n_texts > 1 or plan.metric != "perplexity":
        return
    reasons = [axis.key for axis in plan.axes if axis.key.startswith(PREDICTED) and len(axis.values) > 1]
    if _n_different(directories, DataDir.ids) > 1:
        reasons.insert(0, "the vocabulary")
    if reasons:
        yield f"warning: perplexities of different pieces cannot be compared: {' and '.join(reasons)} differ"


def _n_different(directories: Iterable[Path], file_of: Callable[[DataDir, str, str], Path]) -> int:
    """Count the different development sets, apart from those without checksums."""
    return len({_checksums(DataDir(path), file_of) for path in directories} - {()})


def _checksums(data: DataDir, file_of: Callable[[DataDir, str, str], Path]) -> tuple[str, ...]:
    """Return the checksums of the development set for each language; empty if the manifest lacks them."""
    with suppress(DataError, KeyError):
        if data.pairs.is_file():
            pairs = read_pairs_manifest(data).pairs
            return tuple(each for pair in pairs for each in _checksums(DataDir(data.path / pair), file_of))
        manifest = read_manifest(data)
        return tuple(manifest.files[file_of(data, "valid", language).name].sha256 for language in manifest.languages)
    return ()


def _means(plan: Plan, rows: Sequence[Row]) -> Iterator[Table]:
    """Yield a table of the means over seeds, the best first; none if the grid has no seeds."""
    metric, indices = plan.metric, plan.arm_axes()
    if len(indices) == len(plan.axes):
        return
    scores: dict[tuple[str, ...], list[float]] = {}
    notes: dict[tuple[str, ...], str] = {}
    for row in rows:
        values = tuple(row.planned.values[i] for i in indices)
        of_arm = scores.setdefault(values, [])
        if row.state == "finished" and row.score is not None:
            of_arm.append(row.score)
        notes.setdefault(values, row.note if row.state in ("eliminated", "finished") else "")
    means = {values: rank(metric, statistics.fmean(of_arm)) for values, of_arm in scores.items() if of_arm}
    best, *others = sorted(scores, key=lambda values: means.get(values, math.inf))
    differences = {values: difference(scores[best], scores[values], metric) for values in others}
    lines: list[list[str | Cell]] = [
        [*values, Cell(mean(scores[values], metric), values == best), str(len(scores[values])),
         differences.get(values, ""), notes[values]]
        for values in (best, *others)
    ]  # fmt: skip
    n, to_first = len(indices), DIFFERENCE if any(differences.values()) else ""
    header = [*(plan.axes[i].label for i in indices), f"dev {metric_name(metric)}", "seeds", to_first, ""]
    title = f"mean over finished seeds ± standard deviation ({SEED})"
    note = f"{DIFFERENCE_NOTE}{OF_A_TEST_SET if metric == 'bleu' else ''}"
    yield Table(header, lines, range(n, n + 3), title, [note] if to_first else [])


def mean(scores: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the mean of scores, with the standard deviation if there are several."""
    if len(scores) < 2:
        return score(scores[0] if scores else None, metric)
    return f"{score(statistics.fmean(scores), metric)} ± {score(statistics.stdev(scores), metric)}"


def difference(first: Sequence[float], other: Sequence[float], metric: Metric = "bleu") -> str:
    """Format the difference of means with its 95 % interval over seeds (Welch); empty if there are too few scores."""
    if min(len(first), len(other)) < MIN_RUNS:
        return ""
    variances = [statistics.variance(scores) / len(scores) for scores in (first, other)]
    error, freedom = error_and_freedom(variances, (len(first), len(other)))
    value, half = statistics.fmean(other) - statistics.fmean(first), error * quantile(CONFIDENCE, freedom)
    shown, low, high = (f"{x:+.{decimals(metric)}f}" for x in (value, value - half, value + half))
    return f"{shown} [{low}, {high}]"


def records_of(plan: Plan, rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return the results of each run by name: full keys, no rounding, None for unknown values."""
    return [
        {
            **{axis.key: value for axis, value in zip(plan.axes, row.planned.values, strict=True)},
            f"dev_{plan.metric}": row.score,
            **{name: getattr(row, name) for name in ("weights", "step", "minutes", "ended_by", "state")},
            "run": str(row.planned.run.path),
            "note": row.note,
        }
        for row in rows
    ]
