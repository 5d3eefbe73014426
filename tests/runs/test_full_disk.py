"""A full disk, temporarily or to the end of a run: a warning is printed, and training continues."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.io import gfile

from disk import Full
from fitting import fit
from kept_run import Died, die_before, differences, kept, settings
from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.checkpoint import load_optimizer, load_weights
from nmt.runs.state import saved_steps
from nmt.training import loop, saving
from nmt.training import session as session_module
from nmt.training.report.log import Board

pytestmark = pytest.mark.usefixtures("no_coverage")


def warnings_of(run: RunDir) -> list[str]:
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    return [r["message"] for r in records if r["kind"] == "warning" and "translations of the dev" not in r["message"]]


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "weights")


def last_tensors(path: Path) -> list[bytes]:
    saved = RunDir(path).step(4)
    load_weights(saved), load_optimizer(saved)  # whole
    return [saved.weights.read_bytes(), saved.optimizer.read_bytes()]


def curves(path: Path) -> list[dict[str, Any]]:
    return [record for record in kept(path)["log.jsonl"] if record["kind"] in ("train", "valid")]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("saves_in", ["this thread", "a thread"])
def test_run_survives_full_disk_at_any_operation(data, tmp_path, saves_in, monkeypatch, stride):
    """At any one operation there is no room, then there is again: two saves, a validation and an average."""
    if saves_in == "a thread":
        monkeypatch.setattr(session_module, "THREADED", ("cpu",))
    config, whole, n_warned, n_ended = settings(data, max_steps=4, validate_every_steps=4), tmp_path / "whole", 0, 0
    step = 8 * stride if saves_in == "a thread" else 4 * stride
    with pytest.MonkeyPatch.context() as patch:
        disk = Full(patch, whole, 0, 0)
        fit(config, data, whole)
    assert disk.n_operations > 50
    for k in range(1, disk.n_operations + 1, step):
        run = RunDir(tmp_path / "run")
        with pytest.MonkeyPatch.context() as patch:
            disk = Full(patch, run.path, k, 1)
            try:
                fit(config, data, run.path)
            except (OSError, CheckpointError) as error:  # before there was a run, or at its end
                n_ended += 1
                at_its_end = saved_steps(run)[-1:] == [4] or "free some space" in str(error)
                assert at_its_end or not run.log.exists(), k
        assert disk.n_refused == 1 or saves_in == "a thread"  # which may have fewer operations if it is slow
        n_warned += bool(run.log.exists() and warnings_of(run))
        if not run.selected.exists() or "finished_step" not in run.selected.read_text():
            fit(config, data, run.path, resume=run.info.exists())
        assert last_tensors(run.path) == last_tensors(whole), k
        assert curves(run.path) == curves(whole), k
        assert not list(run.path.rglob("*.part")), k
        shutil.rmtree(run.path)
    assert n_warned > 20 / step and n_ended > 5 / step


@pytest.mark.usefixtures("quick")
def test_failed_save_in_thread_is_logged_at_next_step(data, tmp_path, monkeypatch):
    monkeypatch.setattr(session_module, "THREADED", ("cpu",))
    real, real_step, calls = saving.save_checkpoint, loop.train_step, []
    goes_on = threading.Event()

    def save_checkpoint(*arguments: Any) -> None:
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            assert goes_on.wait(30)
            no_space()
        real(*arguments)

    def train_step(session: loop.Session, update: loop.Update) -> loop.Outcome:
        if session.state.step == 3:
            goes_on.set()
            assert session.saver.saved_step == 0  # waits
        return real_step(session, update)

    monkeypatch.setattr(saving, "save_checkpoint", save_checkpoint)
    monkeypatch.setattr(loop, "train_step", train_step)
    run = RunDir(tmp_path / "run")
    fit(settings(data, save_every_steps=3, validate_every_steps=6), data, run.path)
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    [warning] = [record for record in records if "is not saved" in record.get("message", "")]
    assert warning["step"] == 4 and "step 3 is not saved: weights: No space left" in warning["message"]
    assert all(name.startswith("nmt saves") for name in calls[:2]) and saved_steps(run) == [6]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("threaded", [(), ("cpu",)])
def test_run_with_full_disk_at_its_end_raises_and_can_be_resumed(data, whole, tmp_path, monkeypatch, threaded):
    monkeypatch.setattr(session_module, "THREADED", threaded)
    run = RunDir(tmp_path / "run")
    real = loop.train_step
    with pytest.MonkeyPatch.context() as patch:

        def train_step(session: loop.Session, update: loop.Update) -> loop.Outcome:
            if session.state.step == 3:
                Full(patch, run.path, 0, 10**9)
            return real(session, update)

        patch.setattr(loop, "train_step", train_step)
        with pytest.raises(CheckpointError) as caught:
            fit(settings(data), data, run.path)
    assert caught.value.exit_status == 2
    assert str(caught.value) == (
        f"{run.path}: the end of the run could not be saved, only step 3; free some space and complete the run with "
        f"nmt train --resume --run {run.path}"
    )
    assert saved_steps(run) == [2, 3]
    load_weights(run.step(3)), load_optimizer(run.step(3))
    fit(settings(data), data, run.path, resume=True)
    assert differences(kept(run.path), kept(whole)) == []


@pytest.mark.usefixtures("quick")
def test_log_lines_are_kept_while_disk_is_full(data, whole, tmp_path, monkeypatch, capsys):
    """Nor can it be in parts: its lines wait, and come whole and in order."""
    real, n = os.pwrite, 0

    def pwrite(descriptor: int, line: bytes, offset: int) -> int:
        nonlocal n
        n += 1
        if 2 < n < 8 and n % 2:
            no_space()
        return real(descriptor, line[: len(line) // 2] if 2 < n < 8 else line, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    fit(settings(data), data, tmp_path / "run")
    assert n > 8
    assert kept(tmp_path / "run")["log.jsonl"] == kept(whole)["log.jsonl"]
    assert (
        capsys.readouterr().err.count("log.jsonl: cannot be written: No space left on device; training continues") == 1
    )


def test_waiting_records_survive_killed_process(data, whole, tmp_path, monkeypatch):
    real = os.pwrite

    def no_room(descriptor: int, line: bytes, offset: int) -> int | None:
        return no_space() if line.startswith(b'{"kind"') else real(descriptor, line, offset)

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(os, "pwrite", no_room)
        die_before(5, patch)
        fit(settings(data), data, tmp_path / "run")
    assert RunDir(tmp_path / "run").log.read_bytes() == b""
    fit(settings(data), data, tmp_path / "run", resume=True)
    names = differences(kept(tmp_path / "run"), kept(whole))
    assert [name for name in names if name != "checkpoints/step-00000004/state.json"] == []  # which has them in it


def test_tensorboard_recovers_from_full_disk(tmp_path, monkeypatch, capfd):
    """It is said once per save; what was written before is still shown, and what comes after it."""
    said: list[str] = []
    real, before = gfile.LocalFileSystem._write, threading.excepthook
    board = Board(tmp_path / "board", 1, said.append)
    for step in range(1, 13):
        monkeypatch.setattr(gfile.LocalFileSystem, "_write", no_space if 4 <= step < 8 else real)
        board.scalars({"train/loss": float(step)}, step)
        if step % 3 == 0:
            board.flush()
    board.close()
    [line] = said
    assert line.startswith(
        f"warning: {tmp_path / 'board'}: cannot be written: No space left on device; training continues"
    )
    # files of the same second are read in the order of their names, ".10" before ".9"
    events = EventAccumulator(str(tmp_path / "board"), purge_orphaned_data=False).Reload().Scalars("train/loss")
    shown = sorted(scalar.step for scalar in events)
    assert (shown[:3], shown[-3:], len(set(shown))) == ([1, 2, 3], [10, 11, 12], len(shown))
    assert "Traceback" not in capfd.readouterr().err
    assert threading.excepthook == before
