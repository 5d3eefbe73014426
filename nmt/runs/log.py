"""Reading of log.jsonl, the log of a run, and of the learning curve in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nmt.errors import CheckpointError
from nmt.files.read import LOG_BYTES, read_regular
from nmt.layout import RunDir
from nmt.runs.info import Weights, text_score
from nmt.tables import Table
from nmt.training.facts import Metric

Record = dict[str, Any]


def read_log(log: Path, having: bytes = b"") -> Iterator[Record]:
    """Yield the records of log.jsonl whose line contains `having`; nothing if there is no log.

    Invalid lines, such as one that a killed process has left, are skipped.
    """
    for line in _lines(log):
        if having in line and (record := _record(line)) is not None:
            yield record


def last_number(log: Path, name: str) -> float | None:
    """Return the number of this name in the last record that has one; None if there is none."""
    records = (_record(line) for line in reversed(_lines(log)))
    numbers = (number(record, name) for record in records if record)
    return next((value for value in numbers if value is not None), None)


def _lines(log: Path) -> list[bytes]:
    return read_regular(log, LOG_BYTES).splitlines() if log.exists() else []


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


KINDS: dict[str, Weights] = {"valid": "raw", "ema": "ema", "average": "average"}
"""The kind of weights that were validated, by the `kind` of the record."""


def is_validation(record: Record) -> bool:
    """Return whether a record is a validation on the development set."""
    return record.get("kind") in KINDS


def rank(metric: Metric, score: float) -> float:
    """Return a key that sorts scores from best to worst: perplexity in ascending order, other scores in descending
    order."""
    return score if metric == "perplexity" else -score


def best_scores(run: RunDir, metric: Metric, at_step: int | None = None) -> dict[Weights, float]:
    """Return the best development score of each kind of weights, or the last one at a step.

    With training.start_share, the last average at a step is the selected mixture.
    """
    best = {}
    for record in read_log(run.log, having=f'"{metric}"'.encode()):
        score = number(record, metric)
        step = number(record, "step")
        if not is_validation(record) or score is None:
            continue
        kind = KINDS[record["kind"]]
        if at_step is not None:
            if step == at_step:
                best[kind] = score
        elif step != 0:  # at step 0, the initial weights of another run were validated
            best[kind] = min(best.get(kind, score), score, key=partial(rank, metric))
    return best


def number(record: Record, name: str, most: float = 1e15) -> float | None:
    """Return a number from a record, or None if it is missing, not finite, or larger than `most`."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= most else None


@dataclass(frozen=True)
class CurvePoint:
    """A point of a learning curve: the results of one validation.

    chrF and perplexity belong to the weights with the highest BLEU (chrF if BLEU says little, see `text_score`) or,
    without BLEU, the lowest perplexity. They are None if they were not recorded.
    """

    step: int
    minutes: float | None
    """Training time so far."""
    bleu: dict[Weights, float]
    """BLEU on the development set for each kind of weights that was validated."""
    chrf: float | None
    perplexity: float | None
    accuracy: float | None
    """The accuracy of pieces or labels at the lowest perplexity, for a run that does not translate."""


def learning_curve(run: RunDir) -> list[CurvePoint]:
    """Return the validations of a run in the order of its log. Raises CheckpointError if there are none."""
    validations: dict[int, dict[Weights, dict[str, float | None]]] = {}
    # if a run translates, all its validations have BLEU
    records = [*read_log(run.log, having=b'"bleu"')] or read_log(run.log, having=b'"perplexity"')
    for record in records:
        step = number(record, "step")
        if is_validation(record) and step is not None:
            values = {name: number(record, name) for name in ("bleu", "chrf", "perplexity", "accuracy", "minutes")}
            if values["bleu"] is None and values["perplexity"] is None:
                continue
            validations.setdefault(int(step), {})[KINDS[record["kind"]]] = values
    if not validations:
        raise CheckpointError(f"{run.path}: the log of this run contains no validation")
    points = []
    metric = text_score(run)
    for step, kinds in validations.items():
        bleu_of = {}
        minutes = []
        for kind, values in kinds.items():
            if values["bleu"] is not None:
                bleu_of[kind] = values["bleu"]
            if values["minutes"] is not None:
                minutes.append(values["minutes"])
        best = min(kinds.values(), key=lambda values: (-(values[metric] or 0.0), values["perplexity"] or math.inf))
        accuracy = None if bleu_of else best["accuracy"]
        points.append(CurvePoint(step, max(minutes, default=None), bleu_of, best["chrf"], best["perplexity"], accuracy))
    return points


def curve_table(points: Sequence[CurvePoint]) -> Table:
    """Return a learning curve as a table with a row for each validation."""
    has_bleu = any(point.bleu for point in points)
    columns = ["perplexity", "accuracy"]
    if has_bleu:
        columns = ["BLEU raw", "moving average", "mean of the last", "chrF", "perplexity"]
    header = ["minutes", "steps", *columns]
    rows = []
    for point in points:
        cells = [_rounded(point.minutes, 1), f"{point.step:,}"]
        if has_bleu:
            cells += [_rounded(point.bleu.get(kind), 1) for kind in KINDS.values()]
            cells += [_rounded(point.chrf, 1), _rounded(point.perplexity, 2)]
        else:
            cells += [_rounded(point.perplexity, 2), _rounded(point.accuracy, 4)]
        rows.append(cells)
    return Table(header, rows, range(len(header)), records=[asdict(point) for point in points])


def _rounded(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
