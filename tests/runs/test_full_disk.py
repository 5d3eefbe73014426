"""A disk that takes nothing, for a while or to the end: it is said, training continues, and the rest is made up for."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.io import gfile

from disk import Full
from kept_run import differences, kept, settings
from nmt.config.load import dump_config
from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.checkpoint import load_optimizer, load_weights, saved_steps
from nmt.training import loop, saving
from nmt.training import session as session_module
from nmt.training.loop import fit
from nmt.training.report.log import Board, TrainingLog

pytestmark = pytest.mark.usefixtures("no_coverage")

READ_ONLY = """
import ctypes, os, sys
from pathlib import Path
from nmt.cli import main
from nmt.training import loop
from nmt.training import session as session_module
if os.geteuid() == 0:  # for root permissions are nothing, unless it gives up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, sets) == 0
    for i in (0, 1, 2):
        sets[i] &= ~0b110
    assert libc.capset(header, sets) == 0
run, real = Path(sys.argv[1]), loop.train_step
def train_step(session, update):
    if session.state.step == 3:
        for path in [run, *run.rglob("*")]:
            if path.is_dir():
                path.chmod(0o555)
        try:
            (run / "new").touch()
        except PermissionError:
            print("it is read-only")
    return real(session, update)
loop.train_step = train_step
main(sys.argv[2:])
"""


def warnings_of(run: RunDir) -> list[str]:
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    return [r["message"] for r in records if r["kind"] == "warning" and "translations of the dev" not in r["message"]]


def last_tensors(path: Path) -> list[bytes]:
    saved = RunDir(path).step(4)
    load_weights(saved), load_optimizer(saved)  # whole
    return [saved.weights.read_bytes(), saved.optimizer.read_bytes()]


def curves(path: Path) -> list[dict[str, Any]]:
    return [record for record in kept(path)["log.jsonl"] if record["kind"] in ("train", "valid")]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("saves_in", ["this thread", "a thread"])
def test_a_disk_that_is_full_for_a_moment(data, tmp_path, saves_in, monkeypatch):
    """At any one operation there is no room, then there is again: two saves, a validation and an average."""
    if saves_in == "a thread":
        monkeypatch.setattr(session_module, "THREADED", ("cpu",))
    config, whole, n_warned, n_ended = settings(data, max_steps=4, validate_every_steps=4), tmp_path / "whole", 0, 0
    with pytest.MonkeyPatch.context() as patch:
        disk = Full(patch, whole, 0, 0)
        fit(config, data, whole)
    assert disk.n_operations > 50
    for k in range(1, disk.n_operations + 1, 1 if saves_in == "this thread" else 4):
        run = RunDir(tmp_path / "run")
        with pytest.MonkeyPatch.context() as patch:
            disk = Full(patch, run.path, k, 1)
            try:
                fit(config, data, run.path)
            except (OSError, CheckpointError) as error:  # before there was a run, or at its end
                n_ended += 1
                at_its_end = saved_steps(run)[-1:] == [4] or "free some space" in str(error)
                assert at_its_end or not run.log.exists(), k
        assert disk.n_refused == 1
        n_warned += bool(run.log.exists() and warnings_of(run))
        if not run.selected.exists() or "finished_step" not in run.selected.read_text():
            fit(config, data, run.path, resume=run.info.exists())
        assert last_tensors(run.path) == last_tensors(whole), k
        assert curves(run.path) == curves(whole), k
        assert not list(run.path.rglob("*.part")), k
        shutil.rmtree(run.path)
    assert n_warned > 5 and n_ended > 1 if saves_in == "a thread" else n_warned > 20 and n_ended > 5


@pytest.mark.usefixtures("quick")
def test_a_save_that_fails_in_its_thread_is_told_at_the_next_step(data, tmp_path, monkeypatch):
    monkeypatch.setattr(session_module, "THREADED", ("cpu",))
    real, real_step, calls = saving.save_checkpoint, loop.train_step, []
    goes_on = threading.Event()

    def save_checkpoint(*arguments: Any) -> None:
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            assert goes_on.wait(30)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "weights")
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
def test_a_disk_that_is_full_to_the_end(data, whole, tmp_path, capsys, monkeypatch, threaded):
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
        f"{run.path}: the end of the run could not be saved, only step 3 is; free some space, "
        f"then nmt train --resume --run {run.path} completes it"
    )
    said = capsys.readouterr().err
    assert said.count("is not saved: ") == 3, "twice by the last step"
    assert re.search("warning: step 4 is not saved: .*: No space left on device; training continues and the next", said)
    assert f"{run.log}: cannot be written: No space left on device; training continues and retries later" in said
    assert saved_steps(run) == [2, 3]
    load_weights(run.step(3)), load_optimizer(run.step(3))
    fit(settings(data), data, run.path, resume=True)
    assert differences(kept(run.path), kept(whole)) == []


@pytest.mark.usefixtures("quick")
def test_a_checkpoint_that_cannot_be_read_when_its_validation_is_done(data, whole, tmp_path, monkeypatch):
    real = loop.check

    def check(session: loop.Session, log: TrainingLog) -> None:
        real(session, log)
        if session.state.step == 3:
            session.run.step(3).state.write_bytes(b"")

    monkeypatch.setattr(loop, "check", check)
    run = RunDir(tmp_path / "run")
    fit(settings(data), data, run.path)
    assert warnings_of(run) == [
        f"the validation is not saved: {run.step(3).state}: damaged: Expecting value: line 1 column 1 (char 0)"
    ]
    assert differences(kept(run.path, but=("warning",)), kept(whole, but=("warning",))) == []


@pytest.mark.usefixtures("quick")
def test_a_log_that_cannot_be_written_for_a_while(data, whole, tmp_path, monkeypatch, capsys):
    """Nor can it be in parts: its lines wait, and come whole and in order."""
    real, n = os.pwrite, 0

    def pwrite(descriptor: int, line: bytes, offset: int) -> int:
        nonlocal n
        n += 1
        if 2 < n < 8:
            if n % 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, line[: len(line) // 2], offset)
        return real(descriptor, line, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    fit(settings(data), data, tmp_path / "run")
    assert n > 8
    assert kept(tmp_path / "run")["log.jsonl"] == kept(whole)["log.jsonl"]
    assert (
        capsys.readouterr().err.count("log.jsonl: cannot be written: No space left on device; training continues") == 1
    )


def test_records_that_wait_survive_the_death_of_their_process(data, whole, tmp_path, monkeypatch):
    real, real_step = os.pwrite, loop.train_step

    def no_room(descriptor: int, line: bytes, offset: int) -> int:
        if line.startswith(b'{"kind"'):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, line, offset)

    def dying(session: Any, update: Any) -> Any:
        if session.state.step == 5:
            raise KeyboardInterrupt
        return real_step(session, update)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "pwrite", no_room)
        patch.setattr(loop, "train_step", dying)
        fit(settings(data), data, tmp_path / "run")
    assert RunDir(tmp_path / "run").log.read_bytes() == b""
    fit(settings(data), data, tmp_path / "run", resume=True)
    names = differences(kept(tmp_path / "run"), kept(whole))
    assert [name for name in names if name != "checkpoints/step-00000004/state.json"] == []  # which has them in it


def test_a_log_that_can_never_be_written(tmp_path, monkeypatch, capsys):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with TrainingLog(RunDir(tmp_path), 0, 0, True, 3) as log:
        for step in (1, 2, 3):
            log.log({"kind": "skipped", "step": step})
    assert "log.jsonl: 3 records could not be written" in capsys.readouterr().err
    assert RunDir(tmp_path).log.read_bytes() == b""


def test_a_tensorboard_that_cannot_be_written_for_a_while(tmp_path, monkeypatch, capfd):
    """It is said once per save; what was written before is still shown, and what comes after it."""
    said: list[str] = []
    real, before = gfile.LocalFileSystem._write, threading.excepthook
    board = Board(tmp_path / "board", 1, said.append)
    for step in range(1, 13):
        if step == 4:
            monkeypatch.setattr(gfile.LocalFileSystem, "_write", no_space)
        if step == 8:
            monkeypatch.setattr(gfile.LocalFileSystem, "_write", real)
        board.scalars({"kind": "train", "step": step, "loss": float(step)})
        if step % 3 == 0:
            board.flush()
    board.close()
    assert len(said) == 1
    assert said[0].startswith(
        f"warning: {tmp_path / 'board'}: cannot be written: No space left on device; training continues"
    )
    shown = [scalar.step for scalar in EventAccumulator(str(tmp_path / "board")).Reload().Scalars("train/loss")]
    assert shown[:3] == [1, 2, 3] and shown[-3:] == [10, 11, 12]
    assert len(set(shown)) == len(shown)
    assert "Traceback" not in capfd.readouterr().err
    assert threading.excepthook == before


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_tensorboard_folder_that_cannot_be_made(tmp_path, capsys):
    run = RunDir(tmp_path)
    run.tensorboard.write_text("in the way")
    with TrainingLog(run, 0, 0, True, 3) as log:
        log.log({"kind": "train", "step": 1, "minutes": 0.0, "loss": 1.0})
        log.board.flush()
        run.tensorboard.unlink()
        log.sync()
        log.log({"kind": "train", "step": 2, "minutes": 0.0, "loss": 1.0})
    assert capsys.readouterr().err.count("tensorboard: cannot be written: File exists; training continues") == 2
    scalars = EventAccumulator(str(run.tensorboard)).Reload().Scalars("train/loss")
    assert [scalar.step for scalar in scalars] == [2]


def command(data: Path, folder: Path) -> list[str]:
    config = folder / "tiny.yaml"
    config.write_text(dump_config(settings(data)), encoding="utf-8")
    return ["train", "--config", str(config), "--data", str(data), "--run", str(folder / "run")]


@pytest.mark.usefixtures("quick")
def test_files_that_may_not_grow_so_large(data, whole, tmp_path):
    """As with a quota: no checkpoint can be written at all."""
    limit = 2 * (data / "tokenizer" / "joint.model").stat().st_size
    assert limit < RunDir(whole).step(6).weights.stat().st_size
    ended = subprocess.run(
        [sys.executable, "-m", "nmt", *command(data, tmp_path)],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    lines = ended.stderr.splitlines()
    assert ended.returncode == 2, ended.stderr
    assert "/weights.safetensors: File too large; training continues and the next save tries again" in ended.stderr
    assert lines[-1].startswith(f"nmt: {tmp_path / 'run'}: the end of the run could not be saved, only step 0 is; free")
    assert "Traceback" not in ended.stderr and "Exception" not in ended.stderr
    fit(settings(data), data, tmp_path / "run", resume=True)
    assert differences(kept(tmp_path / "run"), kept(whole)) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="giving up capabilities is told to Linux")
@pytest.mark.usefixtures("quick")
def test_a_directory_that_is_made_read_only(data, whole, tmp_path):
    run = RunDir(tmp_path / "run")
    ended = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(run.path), *command(data, tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for path in [run.path, *run.path.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    assert ended.stdout == "it is read-only\n", ended.stderr
    assert ended.returncode == 2
    assert re.search("warning: step 4 is not saved: .*: Permission denied; training continues and", ended.stderr)
    assert ended.stderr.splitlines()[-1].startswith(
        f"nmt: {run.path}: the end of the run could not be saved, only step 3"
    )
    assert "Traceback" not in ended.stderr and "Exception" not in ended.stderr
    fit(settings(data), data, run.path, resume=True)
    assert differences(kept(run.path), kept(whole)) == []
