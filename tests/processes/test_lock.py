"""The lock of a run directory."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fitting import fit
from kept_run import differences, kept, settings
from nmt.errors import CheckpointError, LockedError
from nmt.files.write import Lock, lock_holder
from nmt.layout import RunDir
from nmt.training import plan as plan_module
from nmt.training.parallel import World
from nmt.training.plan import locked

HOLDER = """
import sys, time
from pathlib import Path
from nmt.files.write import Lock
Path(sys.argv[1]).parent.mkdir(exist_ok=True)
lock = Lock(Path(sys.argv[1]), "trains")
print("held", flush=True)
time.sleep(100)
"""


def failing(number: int) -> Callable[..., Any]:
    """Return a function that fails with an error of the system."""

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_lock_error_identifies_holder(tmp_path):
    path = tmp_path / "run" / "lock"
    path.parent.mkdir()
    assert lock_holder(path) is None
    lock = Lock(path, "trains")
    holder = json.loads(path.read_text())
    assert lock_holder(path) == holder == {"host": os.uname().nodename, "pid": os.getpid(), "since": holder["since"]}
    message = f"run: another process evaluates here: process {os.getpid()} on {holder['host']} since {holder['since']};"
    with pytest.raises(LockedError, match=re.escape(message)):
        Lock(path, "evaluates")
    lock.release()
    assert path.exists() and lock_holder(path) is None
    Lock(path, "trains").release()


def test_removed_lock_file_is_reopened(tmp_path, monkeypatch):
    path, real, removed = tmp_path / "lock", fcntl.flock, []

    def flock(descriptor: int, how: int) -> None:
        if not removed:
            path.unlink()
            removed.append(path)
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = Lock(path, "trains")
    assert lock_holder(path) is not None
    lock.release()


def test_lock_works_on_full_disk_and_without_flock(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(errno.ENOSPC))
        lock = Lock(tmp_path / "lock", "trains")
    assert lock_holder(tmp_path / "lock") == {}
    with pytest.raises(LockedError, match=r"another process trains here: process \? on \? since \?; wait"):
        Lock(tmp_path / "lock", "trains")
    lock.release()

    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOTSUP))
    Lock(tmp_path / "other", "trains").release()
    assert capsys.readouterr().err.startswith(
        f"nmt: {tmp_path / 'other'} cannot be locked (Operation not supported): make sure that only one process writes"
    )
    assert lock_holder(tmp_path / "other") is None


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of tmp_path/run."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run" / "lock")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.usefixtures("quick")
def test_second_process_in_run_directory_raises(data, whole, tmp_path, request, resume):
    """Also in one that is about to be made. Whoever is killed holds nothing any more."""
    if resume:
        shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns("step-00000006", "average", "selected*"))
    process = request.getfixturevalue("holder")
    before = kept(tmp_path / "run")
    form = rf"{tmp_path / 'run'}: another process trains here: process {process.pid} on {os.uname().nodename} since "
    with pytest.raises(LockedError, match=form + r"20\d\d-\S+; wait for it to end or stop it$"):
        fit(settings(data), data, tmp_path / "run", resume)
    assert kept(tmp_path / "run") == before
    process.kill()
    process.wait()
    fit(settings(data), data, tmp_path / "run", resume)
    assert differences(kept(tmp_path / "run"), kept(whole)) == []


@pytest.mark.usefixtures("quick")
def test_run_created_concurrently_raises(data, whole, tmp_path, monkeypatch):
    class Slow(Lock):
        def __init__(self, path: Path, what: str) -> None:
            with monkeypatch.context() as patch:
                patch.setattr(plan_module, "Lock", Lock)
                fit(settings(data), data, path.parent)
            super().__init__(path, what)

    monkeypatch.setattr(plan_module, "Lock", Slow)
    with pytest.raises(CheckpointError, match=r"run: exists already; continue it with --resume"):
        fit(settings(data), data, tmp_path / "run")
    assert differences(kept(tmp_path / "run"), kept(whole)) == []


def test_failed_start_removes_only_new_directory(tmp_path):
    run = RunDir(tmp_path / "run")
    with pytest.raises(ZeroDivisionError), locked(run, False, World().on_rank0):
        run.checkpoints.mkdir()
        assert 1 / 0
    assert not run.path.exists()
    with locked(run, False, World().on_rank0):
        run.step(3).path.mkdir(parents=True)
        run.info.touch()
        run.log.touch()
        run.info.unlink()  # by mistake
    assert run.step(3).path.exists()
