"""Training in several processes on a CPU, as `torchrun` starts them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cases import cases
from fitting import fit, start
from nmt.config import Config
from nmt.config.load import load_config
from nmt.data import mixing
from nmt.data.batching import Update
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import RunDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_optimizer, load_weights
from nmt.runs.state import load_state, saved_steps
from nmt.training import limits
from nmt.training.loop import forward_backward
from nmt.training.parallel import World
from several import (
    NEW,
    NO_DROPOUT,
    SLOW_VALIDATION,
    close,
    ended,
    in_processes,
    left,
    the_other,
    torchrun,
)
from tiny_corpus import tiny_settings


@pytest.fixture(scope="module")
def folder(several: Path) -> Path:
    return several


@pytest.fixture(scope="module")
def config(folder: Path) -> Config:
    return load_config(folder / "config.yaml")


def test_two_processes_equal_one(folder, config, pair):
    fit(config, folder / "data", folder / "single")
    close(pair, folder / "single")
    assert saved_steps(RunDir(pair)) == saved_steps(RunDir(folder / "single"))
    assert load_state(RunDir(pair).step(20)).n_tokens == load_state(RunDir(folder / "single").step(20)).n_tokens


def test_two_processes_share_windows(folder):
    config = load_config(folder / "config.yaml", ["training.max_steps=8", "training.validate_every_steps=8"])
    prepare(config, folder / "shards", echo=lambda _: None, sizes=Sizes(shard_pairs=40))
    in_processes(2, _fit_over_windows, config, folder, "two-windows")
    _fit_over_windows(World(), config, folder, "one-window")
    close(folder / "two-windows", folder / "one-window", step=8)
    assert load_state(RunDir(folder / "two-windows").step(8)).window > 0


def _fit_over_windows(world: World, config: Config, folder: Path, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixing, "WINDOW_PAIRS", 50)
        fit(config, folder / "shards", folder / name, world=world)


def test_sigterm_to_worker_saves_and_one_process_resumes(folder, config, pair, capsys):
    run = RunDir(folder / "one")
    process = torchrun(folder, *NEW, "one")
    err = ended(process, lambda: run.step(5).path.exists(), lambda pid: the_other(run, pid))
    step = saved_steps(run)[-1]
    assert 5 <= step < 20 and process.returncode == 1  # torchrun's own, whatever its workers end with
    assert f"nmt: stopped at step {step} by another rank; nmt train --resume --run one continues from there\n" in err
    assert err.count("nmt: stopped") == 1 and "exitcode  : 75" in err and "SIGKILL" not in err
    load_weights(run.step(step)), load_optimizer(run.step(step))
    fit(config, folder / "data", run.path, resume=True)
    assert (
        "processes 1 instead of 2: data and order are the same, but results are not bit-identical"
        in capsys.readouterr().err
    )
    close(run.path, pair)


def test_sigterm_to_torchrun_in_validation_resumes_with_equal_bits(folder, pair):
    run = RunDir(folder / "two")
    process = torchrun(folder, *NEW, "two", script=SLOW_VALIDATION)
    err = ended(process, lambda: run.step(10).path.exists(), lambda pid: pid)
    assert "nmt: stopped at step 10 by SIGTERM; nmt train --resume --run two continues from there\n" in err
    assert err.count("nmt: stopped") == 1 and process.returncode != 0 and "SIGKILL" not in err
    assert load_state(run.step(10)).last_check == 0
    process = torchrun(folder, "--resume", "--run", "two")
    err = ended(process)
    assert process.returncode == 0 and "not bit-identical" not in err and err.count("resuming from step 10") == 1
    assert left(run.path) == left(pair)


MISTAKES = {
    "pair: exists already; continue it with --resume": (*NEW, "pair"),
    "--set training.seed: must be a whole number": (*NEW, "new", "--set", "training.seed=x"),
    "nowhere": ("--config", "config.yaml", "--data", "nowhere", "--run", "new"),  # which each process finds
    "No such option: --confg": ("--confg", "x"),
}


@pytest.mark.parametrize("told", cases(MISTAKES, always=["nowhere"]))
@pytest.mark.usefixtures("pair")
def test_usage_error_is_reported_once(folder, told):
    process = torchrun(folder, *MISTAKES[told])
    err = ended(process)
    assert (process.returncode, err.count("nmt: ")) == (1, 1) and f"nmt: {told}" in err
    assert "exitcode  : 2 " in err and "nmt/training" not in err  # no traceback but torchrun's
    assert not (folder / "new").exists()


# --- without torchrun ---------------------------------------------------------------------------


def raising(error: Exception) -> None:
    raise error


def caught(act: object) -> str:
    """The error of `act`, or the status that it ends with."""
    with pytest.raises((Exception, SystemExit)) as end:
        act()
    return f"{type(end.value).__name__} {end.value}"


def raising_together(world: World, error: Exception | None) -> None:
    with world.failing_together():
        if error is not None:
            raise error


def in_two(world: World, folder: Path) -> None:
    """What one of two processes finds; the first has nothing to learn from."""
    found: dict[str, object] = {}
    config = tiny_settings(folder / "text", model=NO_DROPOUT)
    for name, there in (("own", World()), ("sum", world)):
        session = start(config, folder / "data", folder / f"{name}-{world.rank}", resume=False, world=there)
        micro_batches = [session.pairs.lengths.sort(torch.arange(9).numpy())] if world.rank else []
        if there is world or world.rank:
            stats = forward_backward(session, micro_batches, Update(torch.arange(9).numpy(), 100))
        found[name] = [p.grad for p in session.model.parameters()]
    world.all_reduce(stats.sums)
    found["stats"] = stats
    found["most"] = world.max_over_ranks(world.rank, -world.rank)
    with world.failing_together():
        found["together"] = world.rank
    helped: list[str] = []
    found["first"] = world.on_rank0(lambda: world.request("weights") or {"rank": world.rank}, helped.append)
    found["helped"] = helped
    each, both = DataError(f"no data at {world.rank}"), ConfigError("a", "b")
    found["errors"] = [
        caught(lambda: world.on_rank0(lambda: raising(CheckpointError("broken")))),
        caught(lambda: world.on_rank0(lambda: raising(OSError(28, "full")))),
        caught(lambda: raising_together(world, both)),
        caught(lambda: raising_together(world, each)),
        caught(lambda: raising_together(world, each if world.rank else None)),
    ]
    torch.save(found, folder / f"found-{world.rank}")


def test_empty_share_and_decisions_of_rank_0(folder):
    in_processes(2, in_two, folder)
    none, all_ = (torch.load(folder / f"found-{rank}", weights_only=False) for rank in (0, 1))
    assert all(grad is None for grad in none["own"]) and all_["own"][0].abs().sum() > 0
    # two starts may find another library the faster one
    torch.testing.assert_close((none["sum"], all_["sum"]), (all_["own"], all_["own"]))
    assert torch.equal(none["stats"].packed, all_["stats"].packed) and none["stats"].loss > 0
    assert none["most"] == all_["most"] == [1, 0] and none["first"] == all_["first"] == {"rank": 0}
    assert (none["together"], all_["together"], none["helped"], all_["helped"]) == (0, 1, [], ["weights"])
    told = zip(none["errors"], all_["errors"], strict=True)
    assert list(told) == [
        ("CheckpointError broken", "SystemExit 2"),
        ("OSError [Errno 28] full", "SystemExit 1"),
        ("ConfigError a\nb", "SystemExit 2"),
        ("DataError no data at 0", "DataError no data at 1"),
        ("SystemExit 2", "DataError no data at 1"),
    ]


def test_cooldown_fixed_by_rank_0_reaches_all_ranks(tiny_data, tmp_path):
    """Only the first process looks at the clock, and it alone knows which limits count."""
    config = tiny_settings(tiny_data.parent / "text", training={"max_epochs": 1})
    session = start(config, tiny_data, tmp_path / "run", resume=False)

    class Second(World):
        def max_over_ranks(self, *values: int) -> list[int]:
            of_the_first = (0, session.state.step >= 50, 40, 50)
            return [max(pair) for pair in zip(values, of_the_first, strict=True)]

    session.world = Second(rank=1, size=2)
    session.state.epoch = 1  # a cool-down that was planned by minutes may end after the last epoch
    assert limits.ended(session) is None and session.state.cooldown == (40, 50)
    session.state.step = 50
    end = limits.ended(session)
    assert end is not None and not end.is_early
