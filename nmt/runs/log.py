"""The log of a run, log.jsonl, as it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.files.read import LOG_BYTES, read_regular
from nmt.layout import RunDir
from nmt.runs.info import Weights

Record = dict[str, Any]


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


def best_bleu(run: RunDir) -> dict[Weights, float]:
    """Return the best development BLEU of each kind of weights."""
    best: dict[Weights, float] = {}
    for record in read_log(run.log, having=b'"bleu"'):
        score = number(record, "bleu")
        if is_validation(record) and score is not None:
            kind = KINDS[record["kind"]]
            best[kind] = max(score, best.get(kind, score))
    return best


def best_perplexity(run: RunDir) -> float | None:
    """Return the lowest development perplexity of any kind of weights."""
    records = [record for record in read_log(run.log, having=b'"perplexity"') if is_validation(record)]
    found = [value for record in records if (value := number(record, "perplexity")) is not None]
    return min(found, default=None)


def best_accuracy(run: RunDir) -> float | None:
    """Return the highest development accuracy of any kind of weights."""
    records = [record for record in read_log(run.log, having=b'"accuracy"') if is_validation(record)]
    found = [value for record in records if (value := number(record, "accuracy")) is not None]
    return max(found, default=None)


def number(record: Record, name: str, most: float = 1e15) -> float | None:
    """Return a number of a record; None if it is missing, not finite, or larger than `most`, and so damaged."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= most else None
