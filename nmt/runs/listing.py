"""The list of runs in a directory, with their state, progress and scores.

Nothing here imports torch, so that `nmt runs` starts fast.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from nmt.config.load import load_saved_config
from nmt.config.objectives import OBJECTIVES, Metric
from nmt.console import printable, width
from nmt.errors import CheckpointError, NmtError
from nmt.files.write import lock_holder
from nmt.layout import CheckpointDir, RunDir
from nmt.runs.info import ScoreRecord, Selected, check_selected, read_info, read_scores, read_selected
from nmt.runs.log import Record, best_scores, last_record, number, rank
from nmt.runs.state import load_state
from nmt.tables import Table

State = Literal["running", "imported", "finished", "stopped", "broken"]


@dataclass(frozen=True)
class Summary:
    """A summary of a run. Unknown fields are None."""

    name: str
    path: Path
    state: State
    step: int
    """The last update that was logged or saved."""
    max_steps: int | None
    checkpoint: int | None
    """The step of the last checkpoint."""
    split: str
    """The value of `search.split`; empty if the run does not translate."""
    best_bleu: float | None
    """The best BLEU on the development set, including the average at the end; None if the run does not translate."""
    best_perplexity: float | None
    """The best perplexity on the development set of a run that does not write text."""
    best_accuracy: float | None
    """The best accuracy on the development set of a classifier."""
    test: ScoreRecord | None
    """The newest score of a test set."""
    minutes: float | None
    """Training time, summed over resumes."""
    last_written: float
    """The time of the last write, in seconds since 1970."""
    holder: dict[str, object] | None
    """The host, the pid and the start time of the training process, if it is running."""
    problem: str | None
    """The first problem found, such as a damaged file."""

    @property
    def best_score(self) -> float | None:
        """The best BLEU, perplexity or accuracy, whichever the run has."""
        scores = self.best_bleu, self.best_perplexity, self.best_accuracy
        return next((score for score in scores if score is not None), None)


def is_run(path: Path) -> bool:
    """Return whether `path` is a run directory, and not the `*.part` of a process that died while starting."""
    try:
        return path.suffix != ".part" and RunDir(path).config.is_file()
    except PermissionError:  # it may be a run; its summary shows the problem
        return True


def summarise_all(root: Path) -> list[Summary]:
    """Summarise the runs in a directory and in its sweeps, the most recently written first.

    Raises CheckpointError if there is no run.
    """
    if not root.is_dir():
        raise CheckpointError(f"{root}: no such directory; nmt train creates run directories, by default in runs/")
    sweeps = [path.parent for path in root.glob("*/configs") if path.is_dir() and not is_run(path.parent)]
    found = [path for folder in (root, *sweeps) for path in folder.iterdir() if is_run(path)]
    runs = [replace(summarise(RunDir(path)), name=str(path.relative_to(root))) for path in found]
    if not runs and is_run(root):
        raise CheckpointError(f"{root}: is a run directory; give the directory that contains it")
    if not runs:
        raise CheckpointError(f"{root}: contains no run directory; create one with nmt train")
    return sorted(runs, key=lambda run: (-run.last_written, run.name))


def summarise(run: RunDir) -> Summary:
    """Summarise a run directory from all files that can be read; damage is reported in the summary."""
    problems: list[str] = []
    max_steps: int | None = None
    split = ""
    selected = Selected()
    steps, tests = list[int](), list[ScoreRecord]()
    is_imported = False
    last, metric, best = Record(), OBJECTIVES["translation"].metric, dict[Metric, float | None]()
    with _collecting(problems, run):
        config = load_saved_config(run.config)
        max_steps, metric = config.training.max_steps, config.training.facts.metric
        split = config.search.split if metric == "bleu" else ""
    with _collecting(problems, run):
        is_imported = not read_info(run).data_dir
    with _collecting(problems, run):
        selected = read_selected(run)
    with _collecting(problems, run):
        for path in (run.checkpoints, run.tokenizer.path):
            if not path.is_dir():
                raise CheckpointError(f"{path}: missing")
        steps = _checkpoints(run)
        if selected.finished_step in steps[-1:]:  # a resumed run does not need it
            check_selected(run, selected, selected.weights)
    with _collecting(problems, run):
        best = {metric: min(best_scores(run, metric).values(), key=partial(rank, metric), default=None)}
        last = last_record(run.log)
    with _collecting(problems, run):
        tests = [record for record in read_scores(run) if record.is_test]
    holder = lock_holder(run.lock)
    state: State = "stopped"
    if holder is not None:
        state = "running"
    elif problems:
        state = "broken"
    elif is_imported:
        state = "imported"
    elif steps and selected.finished_step == steps[-1]:
        state = "finished"
    return Summary(
        name=run.path.name,
        path=run.path,
        state=state,
        step=max(int(number(last, "step") or 0), *steps[-1:], 0),
        max_steps=None if is_imported else max_steps,
        checkpoint=steps[-1] if steps else None,
        split=split,
        best_bleu=best.get("bleu"),
        best_perplexity=best.get("perplexity"),
        best_accuracy=best.get("accuracy"),
        test=tests[-1] if tests else None,
        minutes=_minutes(run, steps, number(last, "minutes")),
        last_written=_newest(
            run.path, run.config, run.info, run.lock, run.selected, run.log, run.scores, run.checkpoints, run.dev
        ),
        holder=holder,
        problem=problems[0] if problems else None,
    )


@contextmanager
def _collecting(problems: list[str], run: RunDir) -> Iterator[None]:
    """Append errors raised in the block to `problems`, with paths relative to the run, instead of propagating them."""
    try:
        yield
    except NmtError as error:
        problems.append(str(error.args[0]).removeprefix(f"{run.path}/"))
    except OSError as error:
        where = str(error.filename or run.path).removeprefix(f"{run.path}/")
        problems.append(f"{where}: {error.strerror}")


def _minutes(run: RunDir, steps: Sequence[int], logged: float | None) -> float | None:
    """Return the training time from the last checkpoint or, if later, from the last log record."""
    try:
        return max(load_state(run.step(steps[-1])).seconds / 60, logged or 0.0)
    except (CheckpointError, LookupError):
        return logged  # damage is reported elsewhere


def _checkpoints(run: RunDir) -> list[int]:
    """Return the steps with a complete checkpoint, ascending. Raises CheckpointError if all checkpoints are damaged."""
    matches = [(path, re.fullmatch(r"step-([0-9]+)", path.name)) for path in run.checkpoints.glob("step-*")]
    saved = [(int(match[1]), CheckpointDir(path)) for path, match in matches if match]
    complete = [step for step, checkpoint in saved if checkpoint.weights.is_file() and checkpoint.state.is_file()]
    if saved and not complete:
        raise CheckpointError(f"{run.checkpoints}: damaged: no checkpoint here has both weights and state.json")
    return sorted(complete)


def _newest(*files: Path) -> float:
    """Return the latest modification time of `files` in seconds since 1970, or 0 if none exists."""
    times = [0.0]
    for path in files:
        with suppress(OSError):  # missing or unreadable
            times.append(path.stat().st_mtime)
    return max(times)


def as_table(runs: Sequence[Summary]) -> Table:
    """Return a table with a row for each run, and a column for scores of test sets if there are any."""
    header = ("run", "state", "step", "BLEU", "test BLEU", "trained", "age", "")
    rows = [header, *(_row(run, time.time()) for run in runs)]
    if not any(run.test for run in runs):
        rows = [(*row[:4], *row[5:]) for row in rows]
    tests = [run.test and {"name": run.test.name, **{one.metric: one.value for one in run.test.scores}} for run in runs]
    records = [{**each, "test": test or {}} for each, test in zip(as_json(runs), tests, strict=True)]
    return Table(rows[0], rows[1:], range(2, len(rows[0]) - 1), records=records)


def _row(run: Summary, now: float) -> tuple[str, ...]:
    holder = run.holder
    process = "" if holder is None else f"{holder.get('host', '?')}:{holder.get('pid', '?')}"
    return (
        run.name,
        run.state,
        f"{run.step:,}" + (f" / {run.max_steps:,}" if run.max_steps is not None else ""),
        _dev_score(run),
        "-" if run.test is None else _test_score(run.test),
        "-" if run.minutes is None else _duration(run.minutes),
        _age(now - run.last_written),
        "; ".join(filter(None, (process, run.problem))) or (run.split and f"split: {run.split}"),
    )


def _dev_score(run: Summary) -> str:
    """Format the best score on the development set: accuracy, perplexity or BLEU."""
    if run.best_accuracy is not None:
        return f"acc {run.best_accuracy:.1%}"
    if run.best_perplexity is not None:
        return f"ppl {run.best_perplexity:.1f}"
    return "-" if run.best_bleu is None else f"{run.best_bleu:.1f}"


def _test_score(record: ScoreRecord) -> str:
    """Format a shortened name of a test set and its BLEU or accuracy, with an asterisk if there are notes."""
    bleu, accuracy, name = record.score("bleu"), record.score("accuracy"), printable(record.name)
    value = "-" if bleu is None else f"{bleu.value:.1f}{'*' if record.notes else ''}"
    if accuracy is not None:
        value = f"{accuracy.value:.1%}"
    return f"{name if width(name) <= 12 else f'{name[:4]}…{name[-6:]}'} {value}"


def _duration(minutes: float) -> str:
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.1f} h"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"  # the clock of another machine may be ahead


def as_json(runs: Sequence[Summary]) -> list[dict[str, object]]:
    """Return runs as values that JSON can represent; unknown values are None."""
    objects = []
    for run in runs:
        written = datetime.fromtimestamp(run.last_written, UTC).isoformat("T", "seconds")
        test = run.test.model_dump() if run.test else None
        objects.append(asdict(run) | {"path": str(run.path), "last_written": written, "test": test})
    return objects


def newest_run(root: Path = Path("runs")) -> Path:
    """Return the run directory in `root` with the newest checkpoint or, for runs without one, the newest config.yaml.

    A resume that fails, or that finds the run finished, does not make a run the newest. Raises CheckpointError if there
    is no run.
    """
    runs = [RunDir(path) for path in root.glob("*") if is_run(path)]
    if not runs:
        raise CheckpointError(f"{root}: contains no run directory; create one with nmt train, or give one with --run")
    return max(runs, key=lambda run: (_newest(run.config, run.checkpoints, run.selected), run.path.name)).path
