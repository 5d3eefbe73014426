"""Runs of several processes on a processor, as `torchrun` starts them, and what must be the same in them."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from torch.distributed import run

import nmt
from kept_run import kept, quicken
from nmt.config.load import dump_config
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_optimizer, load_weights
from nmt.training.parallel import joined
from tiny_corpus import tiny_settings, tiny_text

# Sums of float32 in another order differ in the seventh digit; an eps above that noise keeps Adam from magnifying it.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}
NO_DROPOUT = dict.fromkeys(
    ("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout"), 0.0
)  # fmt: skip
PRELOAD = [
    "nmt.cli.train", "nmt.training.loop", "torch.distributed.fsdp", "torch.distributed.run", "torch._dynamo",
    "torch.utils.tensorboard", "sacrebleu",
]  # fmt: skip
NEW = ("--config", "config.yaml", "--data", "data", "--run")


def make_folder(folder: Path) -> Path:
    """A data directory and a configuration."""
    tiny_text(folder / "text")
    search = {"beam": 4, "max_length_ratio": 2.0, "max_length_offset": 10}
    config = tiny_settings(folder / "text", model=NO_DROPOUT, search=search, training={
        "max_steps": 20, "validate_every_steps": 10, "save_every_steps": 5, "eps": 1e-4, "select_by": "loss",
        "average_last": 1, "warmup_steps": 40,
    })  # fmt: skip
    prepare(config, folder / "data", echo=lambda _: None)
    (folder / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    return folder


# `nmt train` whose validations take a second, so that a signal reaches it in one.
SLOW_VALIDATION = """
import time
from nmt.cli import main
from nmt.training import validate

real = validate.cross_entropy

def cross_entropy(*arguments, **options):
    time.sleep(1)
    return real(*arguments, **options)

validate.cross_entropy = cross_entropy
main()
"""


class Forked:
    """`torchrun`, whose standard error goes into `stderr_file`. It and its workers are forked from a process that has
    imported everything, which saves three quarters of the time; they are `quicken`ed, too."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        start_forkserver()
        self.stderr_file = folder / f"{uuid.uuid4().hex}.err"
        options = ["--start-method", "fork", "--run-path", *arguments]
        fork = multiprocessing.get_context("forkserver")
        self._process = fork.Process(target=_torchrun, args=(folder, self.stderr_file, options))
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    poll = returncode.fget

    def wait(self, timeout: float) -> int | None:
        self._process.join(timeout)
        return self.returncode

    def kill(self) -> None:
        self._process.kill()


def _torchrun(folder: Path, errors: Path, arguments: list[str]) -> None:
    os.chdir(folder)
    with errors.open("wb") as file:
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)
    quicken(pytest.MonkeyPatch())  # and the workers, which are forks of this process
    run.main(arguments)


def torchrun(folder: Path, *arguments: str, restarts: int = 0, n: int = 2, script: str | None = None) -> Forked:
    """Run `nmt train` in `n` processes; `script` is the text of a program to run instead."""
    program = Path(nmt.__file__).with_name("__main__.py")
    if script is not None:
        program = folder / "script.py"
        program.write_text(script, encoding="utf-8")
    options = ["--standalone", "--nproc-per-node", str(n), "--max-restarts", str(restarts)]
    options += ["--log-dir", str(folder / "torchelastic")]  # otherwise in /tmp, where it would stay
    return Forked(folder, [*options, "--", str(program), "train", *arguments])


def ended(
    process: Forked,
    when: Callable[[], bool] = lambda: True,
    whom: Callable[[int], int] | None = None,
    number: int = signal.SIGTERM,
) -> str:
    """Send a signal `when` the time has come to the process that `whom` names, given torchrun's; what was said."""
    try:
        while whom is not None and not when():
            assert process.poll() is None, process.stderr_file.read_text()
            time.sleep(0.01)
        if whom is not None:
            os.kill(whom(process.pid), number)
        process.wait(timeout=100)
        return process.stderr_file.read_text()
    finally:
        if process.poll() is None:  # its workers would outlive it
            for worker in workers_of(process.pid):
                os.kill(worker, signal.SIGKILL)
        process.kill()


def workers_of(torchrun: int) -> set[int]:
    """Return the process ids of the workers."""
    found = subprocess.run(["pgrep", "-P", str(torchrun)], capture_output=True, text=True, check=False)
    return {int(worker) for worker in found.stdout.split()}


def the_other(run: RunDir, torchrun: int) -> int:
    """Return the process id of the worker that does not write."""
    (other,) = workers_of(torchrun) - {json.loads(run.lock.read_text())["pid"]}
    return other


def left(run: Path) -> dict[str, Any]:
    """What `kept` finds, but for the name of the call of torchrun."""
    info = json.loads(RunDir(run).info.read_text(encoding="utf-8"))
    info.pop("launch", None)
    return {**kept(run), "run.json": info}


def close(run: Path, other: Path, step: int = 20) -> None:
    """Check that two runs have the same weights, moments and records up to the order of summation."""
    for load in (load_weights, load_optimizer):
        found, wanted = load(RunDir(run).step(step)), load(RunDir(other).step(step))
        assert found.keys() == wanted.keys()
        for name in wanted:
            torch.testing.assert_close(
                found[name], wanted[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}"
            )
    found, wanted = kept(run)["log.jsonl"], kept(other)["log.jsonl"]
    assert len(found) == len(wanted)
    # another digit may be another word; a share is padded
    but = ("bleu", "chrf", "message", "padding_share")
    for record, expected in zip(found, wanted, strict=True):
        assert record.pop("kind") == expected.pop("kind")
        for name in but:
            record.pop(name, None), expected.pop(name, None)
        assert record == pytest.approx(expected, rel=1e-3, abs=1e-4)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def in_processes(n: int, act: Callable[..., None], *arguments: Any) -> None:
    """Call `act(world, *arguments)` in each of `n` processes. It must be a function of a module."""
    start_forkserver()
    mp.start_processes(_join, (n, free_port(), act, arguments), nprocs=n, start_method="forkserver")


@functools.cache
def start_forkserver() -> None:
    """Start the process that the others are forked from: it imports once what they need."""
    multiprocessing.set_forkserver_preload(PRELOAD)
    forkserver.ensure_running()


def _join(rank: int, size: int, port: int, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    quicken(pytest.MonkeyPatch())
    with joined() as world:
        act(world, *arguments)
    names = [(task / "comm").read_text() for task in Path("/proc/self/task").glob("*")]
    assert not any("gloo" in name for name in names), "the group's threads outlive it"
