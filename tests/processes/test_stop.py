"""A stopped run saves, prints how to resume, and continues with equal bits."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitting import fit
from kept_run import kept, settings
from nmt.config import Config
from nmt.config.load import dump_config
from nmt.errors import StoppedError
from nmt.layout import RunDir
from nmt.process import Stop
from nmt.runs.checkpoint import load_optimizer, load_weights
from nmt.runs.state import load_state, saved_steps
from waiting import until

pytestmark = pytest.mark.usefixtures("no_coverage")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(scope="module")
def plain(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run without averaging."""
    run = tmp_path_factory.mktemp("plain") / "run"
    fit(settings(data, average_last=1), data, run)
    return run


def before_call(patch: pytest.MonkeyPatch, name: str, number: int, act: Callable[[], object]) -> None:
    """Call `act` before call `number`, counted from 1, of the function `name` of nmt."""
    module, _, attribute = f"nmt.{name}".rpartition(".")
    real, calls = getattr(sys.modules[module], attribute), 0

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            act()
        return real(*arguments, **options)

    patch.setattr(f"nmt.{name}", call)


def send(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def live(config: Config, data: Path, run: Path) -> None:
    fit(config, data, run, resume=RunDir(run).info.exists())


def stop(name: str, number: int, config: Config, data: Path, run: Path, kind: signal.Signals = signal.SIGTERM) -> str:
    """Start or resume the run, stop it before call `number` of `name`, and return its last message."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError) as caught:
        before_call(patch, name, number, lambda: send(kind))
        live(config, data, run)
    return str(caught.value)


def at_the_end(run: Path) -> dict[str, Any]:
    """Return the content of a run except for older checkpoints and the configuration."""
    return {
        name: value
        for name, value in kept(run).items()
        if name != "config.yaml" and (not name.startswith("checkpoints") or "step-00000006" in name)
    }


POINTS = [
    ("training.start.start", 1, 0),
    ("training.report.meter.announce", 1, 0),
    ("training.loop.train_step", 1, 1),
    ("training.loop.train_step", 2, 2),
    ("training.loop.train_step", 5, 5),
    ("training.loop.train_step", 6, 6),
    ("runs.checkpoint.save_tensors", 1, 2),
    ("runs.checkpoint.save_tensors", 2, 2),
    ("runs.checkpoint.state_text", 1, 2),
    ("training.saving.rotate", 2, 3),
    ("training.validate.cross_entropy", 1, 3),
    ("training.validate.cross_entropy", 2, 6),
    ("training.validate.corpus_score", 1, 3),
    ("training.saving.update_state", 1, 3),
    ("training.saving.write_selected", 1, 3),
]


@pytest.mark.parametrize("kind", SIGNALS[:2])
@pytest.mark.parametrize(("name", "number", "step"), POINTS)
@pytest.mark.usefixtures("quick")
def test_signal_saves_and_resumed_run_has_equal_bits(data, plain, tmp_path, name, number, step, kind):
    config, run = settings(data, average_last=1), RunDir(tmp_path / "run")
    message = stop(name, number, config, data, run.path, kind)
    assert message == f"stopped at step {step} by {kind.name}; nmt train --resume --run {run.path} continues from there"
    assert max(saved_steps(run), default=0) == step
    if step:
        load_weights(run.step(step)), load_optimizer(run.step(step)), load_state(run.step(step))
    assert not list(run.path.rglob("*.part"))
    live(config, data, run.path)
    assert at_the_end(run.path) == at_the_end(plain)


@pytest.mark.usefixtures("quick")
def test_interrupted_validation_is_repeated(data, whole, tmp_path, capsys):
    config, run = settings(data), RunDir(tmp_path / "run")
    for _ in range(2):  # again, in the one that is made up for
        stop("training.validate.cross_entropy", 1, config, data, run.path)
        assert load_state(run.step(3)).last_check == 0 and not run.selected.exists()
        assert " valid " not in capsys.readouterr().err
    live(config, data, run.path)
    assert kept(run.path) == kept(whole)


@pytest.mark.usefixtures("quick")
def test_interrupted_average_validation_is_repeated(data, whole, tmp_path):
    config, run = settings(data), RunDir(tmp_path / "run")
    assert stop("training.saving.average", 1, config, data, run.path).startswith("stopped at step 6 by SIGTERM")
    assert load_state(run.step(6)).last_check == 6 and not run.average.path.exists()
    live(config, data, run.path)
    assert kept(run.path) == kept(whole)


@pytest.mark.parametrize(
    "name", ["training.loop.train_step", "runs.checkpoint.save_tensors", "training.validate.cross_entropy"]
)
@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.usefixtures("quick")
def test_second_signal_ends_immediately(data, whole, tmp_path, capsys, name, first):
    config, run = settings(data), tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        before_call(patch, name, 2, lambda: send(first, signal.SIGINT))
        fit(config, data, run)
    assert re.search(
        r"^interrupted at step \d; nmt train --resume continues from step \d$", capsys.readouterr().err, re.M
    )
    live(config, data, run)
    assert kept(run) == kept(whole)


@pytest.mark.usefixtures("quick")
def test_stopped_command_names_resume_command(data, tmp_path, nmt):
    (tmp_path / "config.yaml").write_text(dump_config(settings(data)), encoding="utf-8")
    new = ("train", "--config", tmp_path / "config.yaml", "--data", data, "--run", tmp_path / "run")
    line = f"nmt: stopped at step 1 by {{}}; nmt train --resume --run {tmp_path / 'run'} continues from there"
    resume = ("train", "--resume", "--run", tmp_path / "run")
    for arguments, signals, status, last in (
        (new, [signal.SIGINT], 75, line.format("SIGINT")),
        ((*resume, "--stop-after", "0"), [], 75, line.format("--stop-after 0")),
        (resume, [signal.SIGINT] * 2, 130, "nmt: interrupted"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            before_call(patch, "training.loop.train_step", 1, functools.partial(send, *signals))
            ended = nmt(*arguments)
        assert (ended.status, ended.err.splitlines()[-1], "Traceback" in ended.err) == (status, last, False)


def test_sigterm_to_command_line_saves(data, tmp_path):
    """Run the command line in a process of its own."""
    config = settings(data, max_steps=100_000)
    (tmp_path / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    run = RunDir(tmp_path / "run")
    command = [sys.executable, "-m", "nmt", "train", "--config", "config.yaml", "--data", data, "--run", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as child:
        try:
            until(lambda: saved_steps(run) or child.poll() is not None)
            child.send_signal(signal.SIGTERM)
            _, err = child.communicate(timeout=60)
        finally:
            child.kill()
    step = saved_steps(run)[-1]
    assert child.returncode == 75
    assert err.endswith(f"nmt: stopped at step {step} by SIGTERM; nmt train --resume --run run continues from there\n")
    fit(settings(data, max_steps=step + 1), data, run.path, resume=True)
    assert saved_steps(run)[-1] == step + 1


@pytest.mark.parametrize("minutes", [0.0, 1.5])
@pytest.mark.usefixtures("quick")
def test_stop_after_counts_from_process_start(data, whole, tmp_path, monkeypatch, minutes):
    config, run, clock = settings(data, max_minutes=30.0), RunDir(tmp_path / "run"), SimpleNamespace(now=1e6)
    monkeypatch.setattr("nmt.process.time", SimpleNamespace(monotonic=lambda: clock.now))
    for step in (3, 6) if minutes else (0, 0):
        clock.now += 1000.0
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError) as caught:
            before_call(patch, "training.loop.train_step", 3, lambda: setattr(clock, "now", clock.now + 60 * minutes))
            fit(config, data, run.path, run.info.exists(), Stop(minutes))
        assert str(caught.value).startswith(f"stopped at step {step} by --stop-after {minutes:g}; ")
    fit(config, data, run.path, resume=True)
    assert at_the_end(run.path) == at_the_end(whole)


@pytest.mark.usefixtures("quick")
def test_stop_at_stops_after_the_validation_of_the_step(data, whole, tmp_path):
    config, run = settings(data), RunDir(tmp_path / "run")
    for resume in (False, True):
        with pytest.raises(StoppedError) as caught:
            fit(config, data, run.path, resume, Stop(at_step=3))
        assert str(caught.value).startswith("stopped at step 3 by --stop-at 3; ")
        assert saved_steps(run)[-1] == 3 and load_state(run.step(3)).last_check == 3
    fit(config, data, run.path, resume=True, stop=Stop(at_step=6))  # the end of the run
    assert at_the_end(run.path) == at_the_end(whole)
