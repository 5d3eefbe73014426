"""The training log: a progress bar, log.jsonl, TensorBoard and other trackers: Weights & Biases, MLflow and Trackio.

Each tracker is reached through its own library, whose environment variables choose the server, the credentials and
offline modes.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pydantic import RootModel
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from nmt.console import say
from nmt.errors import CheckpointError, ConfigError, UnsafeFileError, error_text
from nmt.files.document import document_text, read_document
from nmt.files.write import open_own, refuse_links, replace_file
from nmt.layout import RunDir
from nmt.runs.info import read_info
from nmt.runs.state import TrainState
from nmt.training.session import Description, Session

Record = Mapping[str, Any]
CURVES = ("train", "valid", "ema", "average", "final", "watch")
"""The kinds of records that are points of curves; after a slash, records have the name of a direction or test set."""
TIMES = ("n_epochs", "minutes", "cpu_seconds", "update_seconds", "paused_seconds")
"""The fields of records that are sums over the whole run."""


class TrainingLog:
    """A log that writes every record to the screen, log.jsonl, TensorBoard and other trackers.

    A record is flat. `kind` is train, valid, ema, average, final, skipped, warning, modifier or mixture (which has a
    mapping, `shares`); `step` is the update it belongs to. A model with several directions has records valid/DIRECTION
    and so on, besides records of their means; test sets of training.watch have watch/NAME, and watch/NAME/DIRECTION. To
    compare training and development set, use `nll` (nats per token): `loss` is the training objective, which includes
    label smoothing and divergence, and equals `nll` on the development set.
    """

    def __init__(
        self,
        run: RunDir,
        state: TrainState,
        report_to: Sequence[str] = ("tensorboard",),
        description: Description | None = None,
    ) -> None:
        """Continue the log of a run in this state.

        report_to: the trackers, see `TrainingConfig`. A resumed run writes everything after its checkpoint again.
        """
        self._path = run.log
        self._file = open_own(run.log)
        os.ftruncate(self._file, min(state.log_bytes, os.fstat(self._file).st_size))
        self._waiting = [line.encode() for line in state.log_waiting]  # lines not written yet, the disk being full
        self._in_trouble = False
        # only on a terminal: in a log file every record is a line instead. It may be closed, so errors are suppressed.
        self._bar: tqdm[Any] | None = None
        if sys.stderr.isatty():
            form = "{percentage:3.0f}% {n_fmt}/{total_fmt}{postfix}"
            with suppress(OSError):
                self._bar = tqdm(initial=state.step, bar_format=form, dynamic_ncols=True)
        self._board = Board(run.tensorboard, state.step + 1, self.say) if "tensorboard" in report_to else None
        names = dict.fromkeys(name for name in report_to if name != "tensorboard")
        self.trackers = Trackers(names, run, self.say, description or Description())

    def progress(self, step: int, last: int, record: Record, seconds_left: float) -> None:
        """Update the progress bar with the loss (with label smoothing), nll, learning rate and speed of a record.

        last: the last step, as expected at the pace so far.
        """
        if self._bar is None:
            return
        self._bar.total = last
        numbers = "loss {loss:.2f}, nll {nll:.2f}, lr {lr:.1e}, {tokens_per_second:,.0f} tok/s".format(**record)
        with suppress(OSError):
            self._bar.set_postfix_str(f"{clock(seconds_left)} left, {numbers}", refresh=False)
            self._bar.update(step - self._bar.n)

    def log(self, record: Record) -> None:
        """Write a record to log.jsonl and, if it is a point of a curve, to the trackers and the screen."""
        self._waiting.append(json.dumps(record).encode() + b"\n")
        self._write()
        if record["kind"].partition("/")[0] in CURVES:
            values = {
                f"{record['kind']}/{name}": value
                for name, value in record.items()
                if isinstance(value, (int, float)) and name != "step"
            }
            if self._board is not None:
                self._board.scalars(values, record["step"])
            self.trackers.scalars(values, record["step"])
            if record["kind"] != "train" or self._bar is None:
                self.say(_line(record))

    def warn(self, state: TrainState, message: str) -> None:
        """Log a warning and print it."""
        self.log({"kind": "warning", "step": state.step, "minutes": state.seconds / 60, "message": message})
        self.say(f"warning: {message}")

    @property
    def waiting(self) -> list[str]:
        """The lines of log.jsonl that have not been written yet because the disk is full."""
        return [line.decode() for line in self._waiting]

    def sync(self) -> int:
        """Flush all records to disk and return the size of log.jsonl in bytes."""
        self._write()
        os.fsync(self._file)
        if self._board is not None:
            self._board.flush()
        return os.fstat(self._file).st_size

    def _write(self) -> None:
        """Write all waiting lines; a line is written completely or not at all."""
        while self._waiting:
            end = os.fstat(self._file).st_size
            try:
                n_written = os.pwrite(self._file, self._waiting[0], end)
            except OSError as error:
                n_written = 0
                reason = error.strerror
            else:
                reason = "No space left on device"
            if n_written < len(self._waiting[0]):
                os.ftruncate(self._file, end)
                if not self._in_trouble:
                    self.say(
                        f"warning: {self._path}: cannot be written: {reason}; training continues and retries later"
                    )
                self._in_trouble = True
                return
            self._waiting.pop(0)
        self._in_trouble = False

    def close_bar(self) -> None:
        """Leave the progress bar as it is; what is printed from now on is below it."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()

    def say(self, text: str) -> None:
        """Print a line above the progress bar."""
        say(text, by="")

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self.close_bar()
        if self._board is not None:
            self._board.close()
        self.trackers.close(0 if error is None else getattr(error, "exit_status", 1))
        self._write()
        if self._waiting:
            self.say(f"{self._path}: {len(self._waiting)} records could not be written")
        os.close(self._file)


def position(session: Session) -> dict[str, float]:
    """Return the position of a run and the time that it took, with which records of updates and scores begin."""
    state = session.state
    return {
        "step": state.step,
        "epoch": state.epoch,
        "n_epochs": session.n_epochs,
        "minutes": state.seconds / 60,
        "cpu_seconds": state.cpu_seconds,
        "update_seconds": state.update_seconds,
        "paused_seconds": state.paused_seconds,
    }


def clock(seconds: float) -> str:
    """Format seconds: 3725 -> 1:02:05."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _line(record: Record) -> str:
    numbers = {name: value for name, value in record.items() if isinstance(value, float) and name not in TIMES}
    if numbers.get("loss") == numbers.get("nll"):
        numbers.pop("loss", None)
    parts = [f"{name} {value:,.0f}" if value >= 1000 else f"{name} {value:.4g}" for name, value in numbers.items()]
    return f"step {record['step']:>6} {record['kind']:>5}  {clock(60 * record['minutes']):>7}  {', '.join(parts)}"


class Board:
    """A TensorBoard log that survives write errors: it prints a warning and retries at the next save."""

    def __init__(self, path: Path, purge_step: int, say: Callable[[str], None]) -> None:
        """Open the log. Records written before the run was resumed are hidden from step `purge_step` on."""
        self._path = path
        self._say = say
        self._purge_step: int | None = purge_step
        self._writer: SummaryWriter | None = None
        self._in_trouble = False
        self._hook = threading.excepthook
        threading.excepthook = self._hush
        self.flush()

    def _hush(self, failure: threading.ExceptHookArgs) -> None:
        """Suppress errors in TensorBoard's writer thread; the next call raises and reports them."""
        if not (isinstance(failure.exc_value, OSError) and type(failure.thread).__module__.startswith("tensorboard.")):
            self._hook(failure)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of a step, under names such as valid/bleu."""

        def write(writer: SummaryWriter) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        self._do(write)

    def flush(self) -> None:
        """Flush to disk. After a failure, writing starts again from here."""
        self._in_trouble = False
        self._do(lambda writer: writer.flush())
        if not self._in_trouble:
            self._purge_step = None  # from here on there is nothing older

    def close(self) -> None:
        """Flush and close the log."""
        self._do(lambda writer: writer.close())
        threading.excepthook = self._hook

    def _do(self, action: Callable[[SummaryWriter], None]) -> None:
        if self._in_trouble:
            return
        try:
            if self._writer is None:
                refuse_links([self._path])
                self._writer = SummaryWriter(str(self._path), purge_step=self._purge_step)
            action(self._writer)
        except (OSError, UnsafeFileError) as error:  # training is worth more than its curves
            self._writer = None
            self._in_trouble = True
            reason = f"cannot be written: {error.strerror}" if isinstance(error, OSError) else "is now a symbolic link"
            self._say(
                f"warning: {self._path}: {reason}; training continues without TensorBoard until the next save "
                "(log.jsonl is complete)"
            )


PROJECT = "nmt"  # of runs, unless an environment variable of the tracker names another one


class Client(NamedTuple):
    """A run in a tracker: its id there, and functions that log values at a step, upload the files in a folder, and end
    the run with an exit status (75: it was stopped and can be resumed). The functions may raise any exception."""

    id: str
    log: Callable[[Mapping[str, float], int], object]
    upload: Callable[[Path], object]
    end: Callable[[int], object]


def _wandb(name: str, settings: Mapping[str, object], run_id: str | None) -> Client:
    import wandb

    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT), name=name, config={**settings}, id=run_id, resume="allow"
    )
    run.define_metric("*", step_metric="step")  # a resumed run goes back to its checkpoint, but W&B's own step does not
    return Client(
        run.id,
        lambda values, step: run.log({**values, "step": step}),
        lambda folder: run.log_artifact(str(folder), name=f"run-{run.id}", type="run"),
        lambda status: run.finish(exit_code=status),
    )


def _mlflow(name: str, settings: Mapping[str, object], run_id: str | None) -> Client:
    import mlflow

    if not {"MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"} & os.environ.keys():
        mlflow.set_experiment(PROJECT)
    run = mlflow.start_run(run_id=run_id, run_name=name)
    items = [] if run_id else [*settings.items()]  # parameters cannot be changed
    for first in range(0, len(items), 100):  # the largest number in a call
        mlflow.log_params(dict(items[first : first + 100]))
    return Client(
        run.info.run_id,
        lambda values, step: mlflow.log_metrics({**values}, step=step),
        lambda folder: mlflow.log_artifacts(str(folder)),
        lambda status: mlflow.end_run({0: "FINISHED", 75: "KILLED"}.get(status, "FAILED")),
    )


def _trackio(name: str, settings: Mapping[str, object], run_id: str | None) -> Client:
    import trackio

    run_id = run_id or f"{name}-{secrets.token_hex(3)}"  # runs are known by their names
    run = trackio.init(
        os.environ.get("TRACKIO_PROJECT", PROJECT), run_id, config={**settings}, resume="allow", embed=False
    )
    return Client(
        run_id,
        lambda values, step: run.log({**values}, step=step),
        lambda folder: run.log_artifact(folder, name=f"run-{run_id[-6:]}", type="run"),
        lambda _: trackio.finish(),
    )


STARTS = {"wandb": _wandb, "mlflow": _mlflow, "trackio": _trackio}
"""Functions that start a run with a name and settings in a tracker, or continue the run with an id. A tracker, its
library and the extra that installs it have the same name."""

_IDS = RootModel[dict[str, str]]


class Trackers:
    """The trackers that a run reports to. One that fails is reported once, and not used any more."""

    def __init__(self, names: Iterable[str], run: RunDir, say: Callable[[str], None], description: Description) -> None:
        """Start a run in each tracker, or continue the tracker's run if ours is resumed; its id is in trackers.json."""
        self._run = run
        self._say = say
        self._description = description
        self._clients: dict[str, Client] = {}
        for name in names:
            self._try(name, partial(self._start, name))

    def _start(self, name: str) -> None:
        run = self._run
        ids = {}
        with suppress(FileNotFoundError):
            ids = read_document(run.trackers, _IDS, CheckpointError).root
        facts = read_info(run).model_dump(mode="json", exclude_none=True)
        settings = {**self._description.settings, **{f"run.{key}": value for key, value in facts.items()}}
        client = self._clients[name] = STARTS[name](run.path.absolute().name, settings, ids.get(name))
        replace_file(run.trackers, document_text(_IDS({**ids, name: client.id})))

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Log the values of a step. Steps after a checkpoint are logged again by a resumed run."""
        self._each(lambda client: client.log(values, step))

    def attach_description(self) -> None:
        """Upload the files that describe the finished run."""

        def upload(client: Client) -> None:
            with TemporaryDirectory() as folder:
                self._description.write(Path(folder))
                client.upload(Path(folder))

        self._each(upload)

    def close(self, exit_status: int) -> None:
        """End the run in each tracker."""
        self._each(lambda client: client.end(exit_status))

    def _each(self, action: Callable[[Client], object]) -> None:
        for name, client in [*self._clients.items()]:
            self._try(name, partial(action, client))

    def _try(self, name: str, action: Callable[[], object]) -> None:
        try:
            with redirect_stdout(sys.stderr):
                action()
        except Exception as error:  # training is worth more than its curves
            self._clients.pop(name, None)
            self._say(f"warning: training.report_to: {name} failed: {error_text(error)}; training continues without it")


def check_installed(names: Sequence[str]) -> None:
    """Raise ConfigError if the library of a tracker is not installed."""
    if missing := [name for name in names if name in STARTS and getattr(find_spec(name), "origin", None) is None]:
        raise ConfigError(
            f"training.report_to: {missing[0]} is not installed; install it with pip install {missing[0]}, or with "
            f"nmt-train[{missing[0]}]"
        )
