"""Reports to experiment trackers: Weights & Biases, MLflow and Trackio, each through its own library.

The libraries' own environment variables choose the server, the credentials and offline modes.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pydantic import RootModel

from nmt.config.load import load_saved_config
from nmt.errors import CheckpointError, ConfigError, error_text
from nmt.files.document import document_text, read_document
from nmt.files.write import replace_file
from nmt.layout import RunDir
from nmt.runs.info import read_info

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

    def __init__(self, names: Iterable[str], run: RunDir, say: Callable[[str], None]) -> None:
        """Start a run in each tracker, or continue that of a resumed run, whose id is in trackers.json."""
        self._run, self._say = run, say
        self._clients: dict[str, Client] = {}
        for name in names:
            self._try(name, partial(self._start, name))

    def _start(self, name: str) -> None:
        run, ids = self._run, dict[str, str]()
        with suppress(FileNotFoundError):
            ids = read_document(run.trackers, _IDS, CheckpointError).root
        tree = load_saved_config(run.config).model_dump(mode="json")
        tree["run"] = read_info(run).model_dump(mode="json", exclude_none=True)
        settings = {f"{section}.{key}": value for section, values in tree.items() for key, value in values.items()}
        client = self._clients[name] = STARTS[name](run.path.absolute().name, settings, ids.get(name))
        replace_file(run.trackers, document_text(_IDS({**ids, name: client.id})))

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Log the values of a step. Steps after a checkpoint are logged again by a resumed run."""
        self._each(lambda client: client.log(values, step))

    def attach(self, fill: Callable[[Path], None]) -> None:
        """Upload the files that `fill` writes into a folder."""

        def upload(client: Client) -> None:
            with TemporaryDirectory() as folder:
                fill(Path(folder))
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
            f"nmt's extra {missing[0]}"
        )
