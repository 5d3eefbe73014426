"""The log of a run, log.jsonl, as it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from nmt.files.read import LOG_BYTES, read_regular
from nmt.layout import RunDir
from nmt.runs.info import Weights

Record = dict[str, Any]
Metric = Literal["bleu", "perplexity", "accuracy"]
"""A score of validations, as it is named in their records."""


def read_log(log: Path, having: bytes = b"") -> Iterator[Record]:
    """Yield the records of log.jsonl whose line contains `having`; nothing if there is no log.

    Invalid lines are skipped: the process was killed while writing one, or it is damaged.
    """
    for line in _lines(log):
        if having in line and (record := _record(line)) is not None:
            yield record


def last_record(log: Path) -> Record:
    """Return the last record with a step, or an empty one."""
    records = (_record(line) for line in reversed(_lines(log)))
    return next((record for record in records if record and number(record, "step") is not None), {})


def _lines(log: Path) -> list[bytes]:
    return read_regular(log, LOG_BYTES).splitlines() if log.exists() else []


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


KINDS: dict[str, Weights] = {"valid": "raw", "ema": "ema", "average": "average"}
"""The weights that were validated, by the `kind` of a validation record."""


def is_validation(record: Record) -> bool:
    """Whether a record is a validation on the development set."""
    return record.get("kind") in KINDS


def metric_of(objective: str) -> Metric:
    """Return the score of the development set by which runs that have learned `objective` are listed and ranked."""
    by_objective: dict[str, Metric] = {"translation": "bleu", "classification": "accuracy"}
    return by_objective.get(objective, "perplexity")


def rank(metric: Metric, score: float) -> float:
    """Return a key that sorts scores, the best first: the lowest perplexity, the highest of others."""
    return score if metric == "perplexity" else -score


def best_scores(run: RunDir, metric: Metric) -> dict[Weights, float]:
    """Return the best development score of each kind of weights."""
    best: dict[Weights, float] = {}
    for record in read_log(run.log, having=f'"{metric}"'.encode()):
        score = number(record, metric)
        # at step 0 it was of the weights that the run has started with, which are not its own
        if is_validation(record) and score is not None and number(record, "step") != 0:
            kind = KINDS[record["kind"]]
            best[kind] = min(best.get(kind, score), score, key=partial(rank, metric))
    return best


def number(record: Record, name: str, most: float = 1e15) -> float | None:
    """Return a number of a record; None if it is missing, not finite, or larger than `most`, and so damaged."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= most else None
