"""`nmt train --profile`."""

import gzip
import json
from pathlib import Path

import pytest

from command import Command
from kept_run import differences, kept, settings
from nmt.config.load import dump_config
from nmt.layout import RunDir
from nmt.training.report import meter

WARM_UP, N_STEPS = 2, 3
LAST = WARM_UP + N_STEPS


@pytest.fixture
def config(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration for more steps than profiling takes, which are few."""
    monkeypatch.setattr(meter, "SKIPPED_STEPS", WARM_UP)
    monkeypatch.setattr(meter, "TRACED_STEPS", N_STEPS)
    path = tmp_path / "config.yaml"
    often = {"save_every_steps": LAST, "validate_every_steps": LAST, "max_steps": LAST + 2, "log_every_steps": 4}
    path.write_text(dump_config(settings(data, **often)))
    return path


@pytest.mark.usefixtures("quick")
def test_profile_prints_table_and_does_not_change_training(
    nmt: Command, config: Path, data: Path, tmp_path: Path
) -> None:
    plain, profiled = tmp_path / "plain", tmp_path / "profiled"
    train = ("train", "--config", config, "--data", data, "--run")
    assert nmt(*train, plain).status == 0
    found = nmt(*train, profiled, "--profile")
    assert found.status == 0, found.err
    assert "aten::addmm" in found.err and "making batches" in found.err

    trace = RunDir(profiled).trace
    names = {event.get("name") for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]}
    steps = {f"ProfilerStep#{n}" for n in range(WARM_UP, LAST)}
    assert {"aten::addmm", "making batches", *steps} <= names

    trace.unlink()
    trace.parent.rmdir()
    assert differences(kept(profiled), kept(plain)) == []


@pytest.mark.usefixtures("quick")
def test_profile_of_short_run_warns(nmt: Command, config: Path, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    found = nmt("train", "--config", config, "--data", data, "--run", run, "--set=training.max_steps=1", "--profile")
    assert found.status == 0 and "nothing was traced" in found.err
    assert not RunDir(run).trace.parent.exists()
