"""Several processes train one model: on a processor, with gloo, as `torchrun` starts them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from kept_run import kept
from tiny_corpus import tiny_settings, tiny_text

from nmt.checkpoint import load_optimizer, load_state, load_weights, saved_steps
from nmt.config import Config
from nmt.config_file import dump_config, load_config
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.layout import RunDir
from nmt.prepare import prepare
from nmt.training import limits
from nmt.training.dist import World, joined
from nmt.training.loop import fit, forward_backward
from nmt.training.start import start

# Sums of float32 in another order differ in the seventh digit; an eps above that noise keeps Adam from magnifying it.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}
NO_DROPOUT = dict.fromkeys(
    ("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout"), 0.0
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with so many development lines that a validation takes a second, and a configuration."""
    folder = tmp_path_factory.mktemp("dist")
    tiny_text(folder / "text")
    for language in ("aa", "bb"):
        dev = folder / "text" / f"dev.{language}"
        lines = dev.read_text(encoding="utf-8").splitlines()
        dev.write_text("".join(f"{line} {other}\n" for line in lines for other in lines), encoding="utf-8")
    config = tiny_settings(folder / "text", model=NO_DROPOUT, search={"beam": 4}, training={
        "max_steps": 40, "validate_every_steps": 20, "save_every_steps": 5, "eps": 1e-4, "select_by": "loss",
        "average_last": 1, "warmup_steps": 40,
    })  # fmt: skip
    prepare(config, folder / "data", echo=lambda _: None)
    (folder / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def config(folder: Path) -> Config:
    return load_config(folder / "config.yaml")


def torchrun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """`nmt train` in two processes."""
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--", "nmt", "train"]
    return subprocess.Popen(
        [sys.executable, "-m", *command, *arguments],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str], when: Callable[[], bool], whom: Callable[[int], int] | None) -> str:
    """Send SIGTERM `when` the time has come to the process that `whom` names, given torchrun's; what was said."""
    try:
        while whom is not None and not when():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        if whom is not None:
            os.kill(whom(process.pid), signal.SIGTERM)
        return process.communicate(timeout=100)[1]
    finally:
        process.kill()


def the_other(run: RunDir, torchrun: int) -> int:
    """The process id of the worker that does not write."""
    workers = subprocess.run(["pgrep", "-P", str(torchrun)], capture_output=True, text=True, check=True).stdout.split()
    (other,) = {int(worker) for worker in workers} - {json.loads(run.lock.read_text())["pid"]}
    return other


@pytest.fixture(scope="module")
def pair(folder: Path) -> Path:
    """A run of two processes that were left alone."""
    process = torchrun(folder, "--config", "config.yaml", "--data", "data", "--run", "pair")
    err = ended(process, lambda: True, None)
    assert process.returncode == 0, err
    assert err.count("40 steps") == err.count("selected: ") == 1 and "Traceback" not in err
    return folder / "pair"


def close(run: Path, other: Path, step: int = 40) -> None:
    for load in (load_weights, load_optimizer):
        found, wanted = load(RunDir(run).step(step)), load(RunDir(other).step(step))
        assert found.keys() == wanted.keys()
        for name in wanted:
            torch.testing.assert_close(
                found[name], wanted[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}"
            )
    found, wanted = kept(run)["log.jsonl"], kept(other)["log.jsonl"]
    assert len(found) == len(wanted)
    for record, expected in zip(found, wanted, strict=True):
        assert record.pop("kind") == expected.pop("kind")
        for name in (
            "bleu",
            "chrf",
            "message",
            "padding_share",
        ):  # another digit may be another word; a share is padded
            record.pop(name, None), expected.pop(name, None)
        assert record == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_two_processes_learn_what_one_learns(folder, config, pair):
    fit(config, folder / "data", folder / "single")
    close(pair, folder / "single")
    assert saved_steps(RunDir(pair)) == saved_steps(RunDir(folder / "single"))
    assert load_state(RunDir(pair).step(40))["n_tokens"] == load_state(RunDir(folder / "single").step(40))["n_tokens"]


def test_one_worker_is_told_to_stop_and_one_process_goes_on(folder, config, pair, capsys):
    run = RunDir(folder / "one")
    process = torchrun(folder, "--config", "config.yaml", "--data", "data", "--run", "one")
    err = ended(process, lambda: run.step(5).path.exists(), lambda pid: the_other(run, pid))
    step = saved_steps(run)[-1]
    assert 5 <= step < 40 and process.returncode == 1  # torchrun's own, whatever its workers end with
    assert f"nmt: stopped at step {step} by another process; nmt train --resume --run one goes on from there\n" in err
    assert err.count("nmt: stopped") == 1 and "exitcode  : 75" in err and "SIGKILL" not in err
    load_weights(run.step(step)), load_optimizer(run.step(step))
    fit(config, folder / "data", run.path, resume=True)
    assert "processes 1 instead of 2: the same data in the same order, but not the same bits" in capsys.readouterr().err
    close(run.path, pair)


def test_torchrun_is_told_to_stop_in_a_validation_and_two_processes_go_on(folder, pair):
    run = RunDir(folder / "two")
    process = torchrun(folder, "--config", "config.yaml", "--data", "data", "--run", "two")
    err = ended(process, lambda: run.step(20).path.exists(), lambda pid: pid)
    assert "nmt: stopped at step 20 by SIGTERM; nmt train --resume --run two goes on from there\n" in err
    assert err.count("nmt: stopped") == 1 and process.returncode != 0 and "SIGKILL" not in err
    assert load_state(run.step(20))["last_check"] == 0
    process = torchrun(folder, "--resume", "--run", "two")
    err = ended(process, lambda: True, None)
    assert process.returncode == 0 and "not the same bits" not in err and err.count("going on from step 20") == 1
    assert kept(run.path) == kept(pair)


def test_a_mistake_is_told_once(folder, pair):
    begun = time.monotonic()
    process = torchrun(folder, "--config", "config.yaml", "--data", "data", "--run", pair.name)
    err = ended(process, lambda: True, None)
    assert process.returncode == 1 and time.monotonic() - begun < 60
    assert err.count("nmt: ") == err.count("nmt: pair: exists already; --resume continues it") == 1
    assert "exitcode  : 2 " in err and "nmt/training" not in err  # no traceback but torchrun's


# --- without torchrun ---------------------------------------------------------------------------


def test_one_process_alone():
    world, parameter = World(), torch.nn.Parameter(torch.ones(2))
    with joined(on_gpu=False) as there:
        assert there.size == 1 and there.is_first
    world.sum_gradients([parameter])
    numbers = torch.ones(3)
    world.sum_(numbers)
    assert parameter.grad is None and numbers.tolist() == [1, 1, 1]
    assert world.most(3, -1) == [3, -1] and world.from_first(lambda: "x") == "x"


def in_two(rank: int, port: int, folder: Path, results: str) -> None:
    """What one of two processes finds; the first has nothing to learn from."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    found: dict[str, object] = {}
    with joined(on_gpu=False) as world:
        config = tiny_settings(folder / "text", model=NO_DROPOUT)
        session = start(config, folder / "data", folder / f"empty-{rank}", resume=False)
        micro_batches = [session.pairs.lengths.sort(torch.arange(9).numpy())] if rank else []
        numbers = forward_backward(session, micro_batches, 100)
        own = [None if p.grad is None else p.grad.clone() for p in session.model.parameters()]
        world.sum_gradients(session.model.parameters())
        world.sum_(numbers)
        found["own"], found["sum"] = own, [p.grad for p in session.model.parameters()]
        found["numbers"] = numbers
        found["most"] = world.most(rank, -rank)
        found["first"] = world.from_first(lambda: {"rank": rank})
        for error in (CheckpointError("broken"), OSError(28, "full")):
            try:
                world.from_first(lambda error=error: (_ for _ in ()).throw(error))
            except (CheckpointError, OSError) as raised:
                found[type(error).__name__] = str(raised)
            except SystemExit as end:
                found[type(error).__name__] = end.code
        if rank == 0:  # and the other goes
            with pytest.raises(NmtError, match="process 0 ends because another has ended"):
                world.most(1)
        torch.save(found, f"{results}-{rank}")
    assert not dist.is_initialized()


def test_a_process_with_nothing_to_learn_from_and_what_the_first_decides(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(in_two, (port, folder, str(folder / "found")), nprocs=2)
    none, all_ = (torch.load(f"{folder / 'found'}-{rank}", weights_only=False) for rank in (0, 1))
    assert all(grad is None for grad in none["own"]) and all_["own"][0].abs().sum() > 0
    for own, one, two in zip(all_["own"], none["sum"], all_["sum"], strict=True):
        assert torch.equal(own, one) and torch.equal(own, two)
    assert torch.equal(none["numbers"], all_["numbers"]) and none["numbers"][0] > 0
    assert none["most"] == all_["most"] == [1, 0] and none["first"] == all_["first"] == {"rank": 0}
    assert (none["CheckpointError"], all_["CheckpointError"]) == ("broken", 2)
    assert ("full" in none["OSError"], all_["OSError"]) == (True, 1)


def test_what_torchrun_would_have_set(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    missing = "WORLD_SIZE is set, but not RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT"
    with pytest.raises(ConfigError, match=missing), joined(on_gpu=False):
        pass
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match="process 1 of this machine finds only 1 GPUs"), joined(on_gpu=True):
        pass


def test_a_cooldown_that_the_first_has_fixed_is_told_to_all(tiny_data, tmp_path):
    """Only the first process looks at the clock."""
    session = start(tiny_settings(tiny_data.parent / "text"), tiny_data, tmp_path / "run", resume=False)

    class Second(World):
        def most(self, *values: int) -> list[int]:
            return [max(pair) for pair in zip(values, (0, 0, 40, 50), strict=True)]

    session.world = Second(rank=1, size=2)
    assert limits.ended(session) is None
    assert session.state.cooldown == (40, 50)
    session.state.step = 50
    end = limits.ended(session)
    assert end is not None and not end.is_early
