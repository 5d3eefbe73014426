"""The list of runs in a directory, with their state, progress and scores.

Nothing here imports torch, so that `nmt runs` starts fast.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from nmt.config.load import load_saved_config
from nmt.console import printable, say, width
from nmt.errors import CheckpointError, NmtError, error_text
from nmt.files.write import lock_holder
from nmt.layout import RunDir
from nmt.runs.info import ScoreRecord, Selected, check_selected, read_info, read_scores, read_selected, text_score
from nmt.runs.log import best_scores, last_number, rank
from nmt.runs.progress import used_shares
from nmt.runs.state import TrainState, load_state, saved_steps
from nmt.tables import Table
from nmt.text.words import shortened
from nmt.training.facts import Metric
from nmt.training.settings import TrainingConfig

State = Literal["running", "imported", "finished", "stopped", "broken"]


@dataclass
class Summary:
    """A summary of a run. Unknown fields are None."""

    name: str
    path: Path
    state: State = "stopped"
    step: int = 0
    """The last update that was logged or saved."""
    progress: float | None = None
    """The used share of the limit that will end the run, the one that is used up most so far; 1.0 once it has
    finished."""
    checkpoint: int | None = None
    """The step of the last checkpoint."""
    split: str = ""
    """The value of `search.split`; empty if the run does not translate."""
    best_bleu: float | None = None
    """The best BLEU on the development set, including the average at the end; None if the run does not translate."""
    best_chrf: float | None = None
    """The best chrF instead, if BLEU says little about the development set."""
    best_perplexity: float | None = None
    """The best perplexity on the development set of a run that does not write text."""
    best_accuracy: float | None = None
    """The best accuracy on the development set of a classifier."""
    test: ScoreRecord | None = None
    """The newest score of a test set."""
    minutes: float | None = None
    """Training time, summed over resumes."""
    last_written: float = 0.0
    """The time of the last record of training, in seconds since 1970."""
    holder: dict[str, object] | None = None
    """The host, the pid and the start time of the training process, if it is running."""
    problem: str | None = None
    """The first problem found, such as a damaged file."""


def is_run(path: Path) -> bool:
    """Return whether `path` is a run directory, and not the `*.part` of a process that died while starting."""
    try:
        return path.suffix != ".part" and RunDir(path).config.is_file()
    except PermissionError:  # it may be a run; its summary shows the problem
        return True


def summarise_all(root: Path) -> list[Summary]:
    """Summarise the runs in a directory and in its sweeps, the most recently trained first.

    Raises CheckpointError if there is no run.
    """
    if not root.is_dir():
        raise CheckpointError(f"{root}: no such directory; nmt train creates run directories, by default in runs/")
    folders = [root]
    for path in root.glob("*/configs"):
        if path.is_dir() and not is_run(path.parent):
            folders.append(path.parent)
    runs = []
    for folder in folders:
        for path in folder.iterdir():
            if is_run(path):
                runs.append(replace(summarise(RunDir(path)), name=str(path.relative_to(root))))
    if not runs and is_run(root):
        raise CheckpointError(f"{root}: is a run directory; give the directory that contains it")
    if not runs:
        raise CheckpointError(f"{root}: contains no run directory; create one with nmt train")
    return sorted(runs, key=lambda run: (-run.last_written, run.name))


def summarise(run: RunDir) -> Summary:
    """Summarise a run directory from all files that can be read; damage is reported in the summary."""
    summary = Summary(run.path.name, run.path)
    problems = list[str]()
    metric: Metric = "bleu"
    selected = Selected()
    steps = []
    last_step = minutes = n_epochs = None
    settings: TrainingConfig | None = None
    with _collecting(problems, run):
        config = load_saved_config(run.config)
        settings = config.training
        metric = settings.facts.metric
        if metric == "bleu":
            metric = text_score(run)
            summary.split = config.search.split
    with _collecting(problems, run):
        if not read_info(run).data_dir:
            summary.state = "imported"
            settings = None
    with _collecting(problems, run):
        selected = read_selected(run)
    with _collecting(problems, run):
        for path in (run.checkpoints, run.tokenizer.path):
            if not path.is_dir():
                raise CheckpointError(f"{path}: missing")
        steps = _checkpoints(run)
        if selected.finished_step in steps[-1:]:  # a resumed run does not need it
            check_selected(run, selected, selected.weights)
            if summary.state != "imported":  # it has no update to finish
                summary.state = "finished"
    with _collecting(problems, run):
        best = min(best_scores(run, metric).values(), key=partial(rank, metric), default=None)
        setattr(summary, f"best_{metric}", best)
        last_step = last_number(run.log, "step")
        minutes = last_number(run.log, "minutes")
        n_epochs = last_number(run.log, "n_epochs")
    with _collecting(problems, run):
        for record in read_scores(run):
            if record.is_test:
                summary.test = record
    summary.holder = lock_holder(run.lock)
    if problems:
        summary.state = "broken"
        summary.problem = problems[0]
    if summary.holder is not None:
        summary.state = "running"
    if steps:
        summary.checkpoint = steps[-1]
    summary.step = max(int(last_step or 0), *steps[-1:], 0)
    _add_progress(summary, run, settings, minutes, n_epochs or 0.0)
    summary.last_written = _newest(run.log) or _newest(run.config, run.checkpoints)
    return summary


def _add_progress(
    summary: Summary, run: RunDir, settings: TrainingConfig | None, minutes: float | None, n_epochs: float
) -> None:
    """Add the time and the share of the limits that a run has used.

    minutes, n_epochs: the last ones in its log; the last checkpoint may be later.
    """
    state = TrainState()
    with suppress(CheckpointError):  # damage is reported elsewhere
        if summary.checkpoint is not None:
            state = load_state(run.step(summary.checkpoint))
            minutes = minutes or 0.0
    if minutes is not None:
        state.seconds = max(state.seconds, 60 * minutes)
        summary.minutes = state.seconds / 60
    if settings is not None:
        state.step = summary.step
        used = max(used_shares(settings, state, max(state.epoch, n_epochs)).values())
        summary.progress = 1.0 if summary.state == "finished" else min(1.0, used)


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


def _checkpoints(run: RunDir) -> list[int]:
    """Return the steps with a complete checkpoint, ascending. Raises CheckpointError if all checkpoints are damaged."""
    saved = saved_steps(run)
    complete = []
    for step in saved:
        checkpoint = run.step(step)
        if checkpoint.weights.is_file() and checkpoint.state.is_file():
            complete.append(step)
    if saved and not complete:
        raise CheckpointError(f"{run.checkpoints}: damaged: no checkpoint here has both weights and state.json")
    return complete


def _newest(*files: Path) -> float:
    """Return the latest modification time of `files` in seconds since 1970, or 0 if none exists."""
    times = [0.0]
    for path in files:
        with suppress(OSError):  # missing or unreadable
            times.append(path.stat().st_mtime)
    return max(times)


def as_table(runs: Sequence[Summary]) -> Table:
    """Return a table with a row for each run, and a column for scores of test sets if there are any."""
    header = ("run", "state", "step", "done", "BLEU", "test BLEU", "trained", "age", "")
    rows = [header, *(_row(run, time.time()) for run in runs)]
    if not any(run.test for run in runs):
        rows = [(*row[:5], *row[6:]) for row in rows]
    records = as_json(runs)
    for record, run in zip(records, runs, strict=True):
        record["test"] = {}
        if run.test is not None:
            record["test"] = {"name": run.test.name} | {score.metric: score.value for score in run.test.scores}
    return Table(rows[0], rows[1:], range(2, len(rows[0]) - 1), records=records)


def _row(run: Summary, now: float) -> tuple[str, ...]:
    holder = run.holder
    notes = []
    if holder is not None:
        notes.append(f"{holder.get('host', '?')}:{holder.get('pid', '?')}")
    if run.problem:
        notes.append(run.problem)
    if not notes and run.split:
        notes.append(f"split: {run.split}")
    done = test = minutes = "-"
    if run.progress is not None:
        done = f"{run.progress:.0%}"
    if run.test is not None:
        test = _test_score(run.test, "bleu" if run.best_chrf is None else "chrf")
    if run.minutes is not None:
        minutes = _duration(run.minutes)
    age = _age(now - run.last_written)
    return run.name, run.state, f"{run.step:,}", done, _dev_score(run), test, minutes, age, "; ".join(notes)


def _dev_score(run: Summary) -> str:
    """Format the best score on the development set: accuracy, perplexity, chrF or BLEU."""
    if run.best_chrf is not None:
        return f"chrF {run.best_chrf:.1f}"
    if run.best_accuracy is not None:
        return f"acc {run.best_accuracy:.1%}"
    if run.best_perplexity is not None:
        return f"ppl {run.best_perplexity:.1f}"
    return "-" if run.best_bleu is None else f"{run.best_bleu:.1f}"


def _test_score(record: ScoreRecord, metric: Metric) -> str:
    """Format a shortened name of a test set and its BLEU, chrF or accuracy, with an asterisk if there are notes."""
    text = record.score(metric)
    accuracy = record.score("accuracy")
    name = printable(record.name)
    value = "-"
    if width(name) > 12:
        name = shortened(name, 4, 6, "…")
    if accuracy is not None:
        value = f"{accuracy.value:.1%}"
    elif text is not None:
        value = f"{text.value:.1f}"
        if metric == "chrf":
            value = f"chrF {value}"
        if record.notes:
            value += "*"
    return f"{name} {value}"


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


def newest_run(objectives: Sequence[str], root: Path = Path("runs")) -> Path:
    """Return the run directory in `root` with the newest checkpoint or, for runs without one, the newest config.yaml.

    objectives: the run must have a checkpoint, and one of these values of training.objective; empty: any run. A resume
    that fails, or that finds the run finished, does not make a run the newest. A message names a newer run that is
    damaged. Raises CheckpointError if there is no other.
    """
    runs = [RunDir(path) for path in root.glob("*") if is_run(path)]
    runs.sort(key=lambda run: (_newest(run.config, run.checkpoints, run.selected), run.path.name), reverse=True)
    damaged = list[str]()
    for run in runs:
        try:
            if not objectives or (_checkpoints(run) and load_saved_config(run.config).training.objective in objectives):
                for problem in damaged:
                    say(f"a newer run is damaged: {problem}")
                return run.path
        except (NmtError, OSError) as error:
            damaged.append(error_text(error))
    advice = "; ".join([*damaged, "create one with nmt train, or give one with --run"])
    raise CheckpointError(f"{root}: contains no run that this command can use; {advice}")
