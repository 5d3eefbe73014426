"""A directory of runs: how far each has come, how good it is, and whether it still trains.

Nothing here imports torch, so that `nmt runs` answers at once.
"""

from __future__ import annotations

import json
import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from nmt.config.load import load_config
from nmt.console import printable
from nmt.errors import CheckpointError, NmtError
from nmt.files.read import LOG_BYTES, read_regular
from nmt.files.write import lock_holder
from nmt.layout import CheckpointDir, RunDir
from nmt.runs.info import Selected, Weights, read_info, read_selected
from nmt.runs.state import load_state

Record = dict[str, Any]
State = Literal["running", "finished", "stopped", "broken"]


@dataclass(frozen=True)
class Summary:
    """What a run directory says about its run; None is what it does not say."""

    name: str
    path: Path
    state: State
    step: int
    """The last update that is logged or saved."""
    max_steps: int | None
    checkpoint: int | None
    """The step of the last checkpoint."""
    best_bleu: float | None
    """On the development set, the average at the end included."""
    minutes: float | None
    """Of training, summed over resumes."""
    last_written: float
    """Seconds since 1970."""
    holder: dict[str, Any] | None
    """host, pid and since of the process that trains."""
    problem: str | None
    """The first thing that is damaged."""


def is_run(path: Path) -> bool:
    """Whether this is a run directory; `*.part` is what a train left behind that died as it began."""
    try:
        return path.suffix != ".part" and RunDir(path).config.is_file()
    except PermissionError:  # it may be one, and its summary says what is wrong
        return True


def summarise_all(root: Path) -> list[Summary]:
    """The runs in a directory, the one that was written to last first. Raises CheckpointError if there is none."""
    if not root.is_dir():
        raise CheckpointError(f"{root}: no such directory; nmt train makes run directories, by default in runs/")
    found = [summarise(RunDir(path)) for path in root.iterdir() if is_run(path)]
    if not found and is_run(root):
        raise CheckpointError(f"{root}: a run directory itself; name the directory that holds it")
    if not found:
        raise CheckpointError(f"{root}: no run directory here; make one with nmt train")
    return sorted(found, key=lambda each: (-each.last_written, each.name))


def summarise(run: RunDir) -> Summary:
    """What a run directory says, with as much as can be read of a damaged one. Raises nothing for what it holds."""
    problems: list[str] = []
    max_steps: int | None = None
    selected = Selected()
    steps: list[int] = []
    bleu: dict[Weights, float] = {}
    last: Record = {}
    with _noting(problems, run):
        max_steps = load_config(run.config).training.max_steps
    with _noting(problems, run):
        read_info(run)
    with _noting(problems, run):
        selected = read_selected(run)
    with _noting(problems, run):
        for path in (run.checkpoints, run.tokenizer.path):
            if not path.is_dir():
                raise CheckpointError(f"{path}: missing")
        steps = _checkpoints(run)
    with _noting(problems, run):
        bleu = best_bleu(run)
        last = _last_record(run.log)
    holder = lock_holder(run.lock)
    state: State = "stopped"
    if holder is not None:
        state = "running"
    elif problems:
        state = "broken"
    elif steps and selected.finished_step == steps[-1]:
        state = "finished"
    return Summary(
        name=run.path.name,
        path=run.path,
        state=state,
        step=max(int(number(last, "step") or 0), *steps[-1:], 0),
        max_steps=max_steps,
        checkpoint=steps[-1] if steps else None,
        best_bleu=max(bleu.values(), default=None),
        minutes=_minutes(run, steps, number(last, "minutes")),
        last_written=_last_written(run),
        holder=holder,
        problem=problems[0] if problems else None,
    )


@contextmanager
def _noting(problems: list[str], run: RunDir) -> Iterator[None]:
    """Add what a user can put right to `problems`, the file named within the run, instead of raising it."""
    try:
        yield
    except NmtError as error:
        problems.append(str(error.args[0]).removeprefix(f"{run.path}/"))
    except OSError as error:
        where = str(error.filename or run.path).removeprefix(f"{run.path}/")
        problems.append(f"{where}: {error.strerror}")


def _minutes(run: RunDir, steps: Sequence[int], logged: float | None) -> float | None:
    """How long the run has trained: by its last record, or by its last checkpoint, which is written after it."""
    try:
        return max(load_state(run.step(steps[-1])).seconds / 60, logged or 0.0)
    except (CheckpointError, LookupError):
        return logged  # damage is reported elsewhere


def _checkpoints(run: RunDir) -> list[int]:
    """The steps that have a checkpoint, ascending; none before the first save. Raises CheckpointError if all are
    damaged."""
    matches = [(path, re.fullmatch(r"step-([0-9]+)", path.name)) for path in run.checkpoints.glob("step-*")]
    saved = [(int(match[1]), CheckpointDir(path)) for path, match in matches if match]
    complete = [step for step, checkpoint in saved if checkpoint.weights.is_file() and checkpoint.state.is_file()]
    if saved and not complete:
        raise CheckpointError(f"{run.checkpoints}: damaged: no checkpoint here has both weights and state.json")
    return sorted(complete)


def _last_written(run: RunDir) -> float:
    files = (run.path, run.config, run.info, run.lock, run.checkpoints, run.selected, run.log, run.dev)
    times = [0.0]
    for path in files:
        try:
            times.append(path.stat().st_mtime)
        except OSError:  # not there, or not to be read
            continue
    return max(times)


# --- the log ------------------------------------------------------------------------------------


def read_log(log: Path, having: bytes = b"") -> Iterator[Record]:
    """The records of a log.jsonl, or of its lines that hold `having`; no log has none.

    A line that is no record is skipped: a kill has torn it, or it is damaged.
    """
    for line in _lines(log):
        if having in line and (record := _record(line)) is not None:
            yield record


def _last_record(log: Path) -> Record:
    """The last record that has a step, or nothing."""
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
"""Of the records of the development set: which weights they speak of."""


def is_validation(record: Record) -> bool:
    """Whether a record is of the development set."""
    return record.get("kind") in KINDS


def best_bleu(run: RunDir) -> dict[Weights, float]:
    """The best BLEU on the development set that each kind of weights has reached."""
    best: dict[Weights, float] = {}
    for record in read_log(run.log, having=b'"bleu"'):
        score = number(record, "bleu")
        if is_validation(record) and score is not None:
            kind = KINDS[record["kind"]]
            best[kind] = max(score, best.get(kind, score))
    return best


def number(record: Record, name: str, most: float = 1e15) -> float | None:
    """A number of a record; None if it is not there, is no number, not finite, or so large that it must be damaged."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= most else None


# --- for people and programs --------------------------------------------------------------------


def render_text(runs: Sequence[Summary]) -> str:
    """A table, a row for each run."""
    rows: list[tuple[str, ...]] = [("run", "state", "step", "BLEU", "trained", "age", "")]
    rows += [_row(run, time.time()) for run in runs]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            room = " " * (width - _width(cell))
            cells.append(room + cell if 2 <= i <= 5 else cell + room)  # numbers end in one column
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(run: Summary, now: float) -> tuple[str, ...]:
    holder = run.holder
    notes = [f"{holder.get('host', '?')}:{holder.get('pid', '?')}"] if holder is not None else []
    notes += [run.problem] if run.problem else []
    return (
        printable(run.name),
        run.state,
        f"{run.step:,}" + (f" / {run.max_steps:,}" if run.max_steps is not None else ""),
        "-" if run.best_bleu is None else f"{run.best_bleu:.1f}",
        "-" if run.minutes is None else _duration(run.minutes),
        _age(now - run.last_written),
        printable("; ".join(notes)),
    )


def _duration(minutes: float) -> str:
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.1f} h"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"  # the clock of another machine may be ahead


def _width(text: str) -> int:
    """How many columns of a terminal `text` takes: East Asian characters two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def render_json(runs: Sequence[Summary]) -> str:
    """The runs for programs: a list of JSON objects; what is not known is null."""
    objects = []
    for run in runs:
        written = datetime.fromtimestamp(run.last_written, UTC).isoformat("T", "seconds")
        objects.append(asdict(run) | {"path": str(run.path), "last_written": written})
    return json.dumps(objects, ensure_ascii=False, indent=1)


def newest_run(root: Path = Path("runs")) -> Path:
    """The run directory under `root` that was written to last. Raises CheckpointError if there is none."""
    runs = [RunDir(path) for path in root.glob("*") if is_run(path)]
    if not runs:
        raise CheckpointError(f"{root}: no run directory here; make one with nmt train, or name one with --run")
    return max(runs, key=_last_trained).path


def _last_trained(run: RunDir) -> tuple[float, str]:
    files = (run.config, run.checkpoints, run.selected)
    return max(path.stat().st_mtime for path in files if path.exists()), run.path.name
