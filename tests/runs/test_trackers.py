"""Reports to experiment trackers, with stand-ins for their libraries, and with the real ones where installed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fitting import fit
from nmt.errors import ConfigError, StoppedError
from nmt.layout import RunDir
from nmt.runs.state import TrainState
from nmt.training.report import log as log_module
from nmt.training.report.log import STARTS, Trackers, TrainingLog, check_installed
from nmt.training.session import Description
from places import GOLDEN
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("quick")


class Service:
    """A tracker that keeps what it is given. At the call named `fails`, it raises an error."""

    def __init__(self) -> None:
        self.fails = ""
        self.started: list[str | None] = []
        self.settings: list[dict[str, Any]] = []
        self.values: dict[int, dict[str, float]] = {}
        self.files: dict[str, str] = {}
        self.ended: list[object] = []
        self.calls: list[str] = []

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.fails == name:
            raise RuntimeError(f"no {name}\ntoday")

    def start(self, run_id: str | None, settings: Mapping[str, Any]) -> str:
        self._called("start")
        print("a library's own message")
        self.started.append(run_id)
        self.settings.append({**settings})
        return run_id or "id-1"

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._called("log")
        self.values.setdefault(step, {}).update(values)

    def upload(self, folder: str | Path) -> None:
        self._called("upload")
        self.files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}

    def end(self, status: object) -> None:
        self._called("end")
        self.ended.append(status)


def stand_in_wandb(service: Service) -> dict[str, Any]:
    def init(*, project: str, name: str, config: dict[str, Any], id: str | None, resume: str) -> object:  # noqa: A002
        assert (project, resume) == ("nmt", "allow") and name
        return SimpleNamespace(
            id=service.start(id, config),
            define_metric=lambda *_, **__: None,
            log=lambda values: service.log(values, values["step"]),
            log_artifact=lambda folder, name, type: service.upload(folder),  # noqa: A006, ARG005
            finish=lambda exit_code: service.end(exit_code),
        )

    return {"init": init}


def stand_in_mlflow(service: Service) -> dict[str, Any]:
    def log_params(params: dict[str, Any]) -> None:
        assert len(params) <= 100
        service.settings[-1] |= params

    return {
        "set_experiment": lambda _: None,
        "start_run": lambda run_id, run_name: SimpleNamespace(  # noqa: ARG005
            info=SimpleNamespace(run_id=service.start(run_id, {}))
        ),
        "log_params": log_params,
        "log_metrics": lambda values, step: service.log(values, step),
        "log_artifacts": service.upload,
        "end_run": service.end,
    }


def stand_in_trackio(service: Service) -> dict[str, Any]:
    def init(project: str, name: str, *, config: dict[str, Any], resume: str, embed: bool) -> object:
        assert (project, resume, embed) == ("nmt", "allow", False)
        service.start(name, config)
        return SimpleNamespace(
            name=name,
            log=lambda values, step: service.log(values, step),
            log_artifact=lambda folder, name, type: service.upload(folder),  # noqa: A006, ARG005
        )

    return {"init": init, "finish": lambda: service.end(None)}


STAND_INS: dict[str, Callable[[Service], dict[str, Any]]] = {
    "wandb": stand_in_wandb,
    "mlflow": stand_in_mlflow,
    "trackio": stand_in_trackio,
}


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> dict[str, Service]:
    """The trackers behind the stand-ins for their libraries."""
    found = {name: Service() for name in STAND_INS}
    for variable in ("WANDB_PROJECT", "TRACKIO_PROJECT", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(variable, raising=False)
    for name, service in found.items():
        module = ModuleType(name)
        vars(module).update(STAND_INS[name](service), __spec__=ModuleSpec(name, None, origin="stand-in"))
        monkeypatch.setitem(sys.modules, name, module)
    return found


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run to report on."""
    return RunDir(shutil.copytree(GOLDEN / "run", tmp_path / "a run"))


# --- a run --------------------------------------------------------------------------------------


def test_run_and_its_continuation_are_one_run_of_each_tracker(tiny_data, text, tmp_path, services, capsys):
    run = RunDir(tmp_path / "run")
    short = {"max_steps": 3, "validate_every_steps": 3, "report_to": ["tensorboard", *services]}
    fit(tiny_settings(text, training=short), tiny_data, run.path)
    for service in services.values():
        assert set(service.values) == {1, 2, 3} and service.ended in ([0], ["FINISHED"], [None])
        assert "train/loss" in service.values[1] and {"valid/bleu", "valid/cpu_seconds"} <= service.values[3].keys()
        assert sorted(service.files) == ["README.md", "config.yaml", "run.json", "selected.json"]
        assert "model-index" not in service.files["README.md"] and "## Recipe" in service.files["README.md"]
        assert {"training.seed": 1, "run.device": "cpu"}.items() <= service.settings[0].items()
    ids = json.loads(run.trackers.read_text())
    assert ids["wandb"] == ids["mlflow"] == "id-1" and ids["trackio"].startswith("run-")
    assert capsys.readouterr().out == "", "what libraries print goes to the screen, not to standard output"

    fit(tiny_settings(text, training=short | {"max_steps": 5}), tiny_data, run.path, resume=True)
    for name, service in services.items():
        assert service.started[-1] == ids[name] and set(service.values) == {1, 2, 3, 4, 5}
    assert services["mlflow"].settings[-1] == {}, "its parameters cannot be changed"
    assert json.loads(run.trackers.read_text()) == ids


@pytest.mark.parametrize("origin", [None, "no spec"])
def test_missing_library_is_reported_before_anything_is_written(tiny_data, text, tmp_path, monkeypatch, origin):
    # a folder that is named like the library, such as that of W&B's own files, has a spec without an origin
    spec = None if origin else ModuleSpec("wandb", None, is_package=True)
    monkeypatch.setattr(log_module, "find_spec", lambda name: spec if name == "wandb" else None)
    with pytest.raises(ConfigError, match=r"training\.report_to: wandb .*pip install wandb.*nmt-train"):
        fit(tiny_settings(text, training={"report_to": ["wandb"]}), tiny_data, tmp_path / "run")
    assert not RunDir(tmp_path / "run").config.exists()
    check_installed(["tensorboard"])


# --- trackers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("fails", ["start", "log", "upload", "end"])
def test_failure_is_reported_once(run, services, name, fails):
    said: list[str] = []
    services[name].fails = fails
    description = Description(write=lambda folder: (folder / "a.txt").touch())
    other = "mlflow" if name == "wandb" else "wandb"
    reports = Trackers([name, other], run, said.append, description)
    for step in (1, 2):
        reports.scalars({"train/loss": 1.0}, step)
    reports.attach_description()
    reports.close(0)
    assert len(said) == 1 and f"{name} failed: no {fails} today; training continues without it" in said[0]
    assert services[name].calls.count(fails) == 1 and services[name].calls[-1] == fails
    assert (name in json.loads(run.trackers.read_text())) == (fails != "start")
    assert services[other].calls == ["start", "log", "log", "upload", "end"], "the other goes on"


@pytest.mark.parametrize(
    ("error", "statuses"), [(StoppedError("stopped"), (75, "KILLED")), (ValueError("x"), (1, "FAILED"))]
)
def test_trackers_learn_how_run_ended(run, services, error, statuses):
    with pytest.raises(type(error)), TrainingLog(run, TrainState(), report_to=["wandb", "mlflow", "wandb"]):
        raise error
    assert (services["wandb"].ended, services["mlflow"].ended) == ([statuses[0]], [statuses[1]])


def test_damaged_ids_are_reported(run, services):
    run.trackers.write_text('{"wandb": 1}')
    said: list[str] = []
    Trackers(["wandb"], run, said.append, Description()).close(0)
    assert len(said) == 1 and "trackers.json" in said[0] and not services["wandb"].calls


# --- the libraries themselves, offline ----------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STARTS)
def test_library_takes_reports_offline(run, tmp_path, monkeypatch, name):
    for variable, value in {
        "WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, value)
    pytest.importorskip(name)
    said: list[str] = []
    for values in ({"train/loss": 3.0, "watch/a b/bleu": 1.0}, {"train/loss": 2.0}):
        description = Description({"model.d_ff": 64}, lambda folder: (folder / "README.md").write_text("card"))
        reports = Trackers([name], run, said.append, description)
        reports.scalars(values, 5)  # a resumed run logs some steps again
        reports.attach_description()
        reports.close(0)
        ids = json.loads(run.trackers.read_text())
        assert said == [] and list(ids) == [name]
    assert json.loads(run.trackers.read_text()) == ids
