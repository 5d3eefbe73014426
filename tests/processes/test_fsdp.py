"""A sharded model has the same updates and checkpoints as an unsharded one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from cases import cases
from fitting import fit, start
from labelled import TEST, TRAIN, VALID, labelled_config, write_reviews
from nmt.config import Config
from nmt.config.load import changed_config, load_config
from nmt.data.batching import Update, epoch_updates
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_ema, load_optimizer, load_weights, optimizer_tensors
from nmt.runs.state import saved_steps
from nmt.training import objective
from nmt.training.loop import accumulate_gradients, forward_backward, train_step
from nmt.training.optim import make_optimizer
from nmt.training.parallel import World, full_tensor, shard
from nmt.training.session import Session
from several import NEW, NO_DROPOUT, close, ended, free_port, in_processes, the_other, torchrun
from tiny_corpus import tiny_settings

CLASSES = {
    "objective": "classification", "device": "cpu", "precision": "float32", "update_tokens": 600, "max_tokens": 600,
    "schedule": "constant", "peak_lr": 1e-3, "warmup_steps": 1, "max_steps": 6,
    "save_every_steps": 6, "validate_every_steps": 6, "average_last": 1, "eps": 1e-4,
}  # fmt: skip
SMALL = {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}


def settings(folder: Path, **training: object) -> Config:
    model = {**NO_DROPOUT, "decoder_layers": 2, "output_bias": True, "start_embedding": "zero"}
    return tiny_settings(folder / "text", model=model, training=training)


def first_update(session: Session) -> Update:
    return epoch_updates(session.pairs.lengths, 300, 1, epoch=0)[0]


def learn(world: World, folder: Path, parallel: str) -> None:
    """Gradients of one update in as many micro-batches as leave eight in all, as they are and clipped, and losses; the
    gradients if the last process runs out of memory in its first pass, and if they are exchanged in bf16."""
    run = folder / f"{parallel}-{world.size}"
    session = start(settings(folder, parallel=parallel), folder / "data", run, resume=False, world=world)
    assert session.is_sharded == (parallel == "fsdp" and world.size > 1)
    update = first_update(session)
    micro_batches = np.array_split(update.share(world.rank, world.size), 8 // world.size)
    stats = forward_backward(session, micro_batches, update)
    world.all_reduce(stats.sums)
    found = [gradients(session)]
    norm = full_tensor(torch.nn.utils.clip_grad_norm_(session.model.parameters(), 0.01))
    found.append(gradients(session))
    for precision in ("float32", "bf16"):
        config = settings(folder, parallel=parallel, exchange_precision=precision)
        session = start(config, folder / "data", folder / f"{run.name}-{precision}", resume=False, world=world)
        share = update.share(world.rank, world.size)
        session.max_tokens = session.pairs.lengths.larger_side(share) - 1  # two micro-batches
        if fails := precision == "float32" and parallel == "ddp" and world.rank == world.size - 1 > 0:
            fail_once(session)
        again = accumulate_gradients(session, update)
        assert int(again.n_out_of_memory) == fails
        world.all_reduce(again.sums)
        found.append(gradients(session))
    if world.is_rank0:
        torch.save((found, norm, torch.stack((stats.loss, stats.nll, stats.n_correct))), f"{run}.pt")


def gradients(session: Session) -> dict[str, torch.Tensor]:
    return {name: full_tensor(p.grad).clone() for name, p in session.model.named_parameters()}


def fail_once(session: Session) -> None:
    """Make the first backward pass run out of memory."""

    def fail(_: torch.Tensor) -> None:
        handle.remove()
        raise MemoryError

    handle = session.model.encoder.layers[0].attention.in_weight.register_hook(fail)


@pytest.fixture(scope="module")
def alone(several: Path) -> Path:
    learn(World(), several, "ddp")
    return several


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("n", cases([2, 3], always=[2]))
def test_gradients_equal_those_of_one_process(alone, n, parallel):
    in_processes(n, learn, alone, parallel)
    (found, norm, numbers), (wanted, wanted_norm, wanted_numbers) = (
        torch.load(alone / name, weights_only=False) for name in (f"{parallel}-{n}.pt", "ddp-1.pt")
    )
    torch.testing.assert_close((numbers, norm), (wanted_numbers, wanted_norm), rtol=1e-6, atol=0)
    for each, other, error in zip(found, wanted, (1e-6, 1e-6, 1e-6, 4e-3), strict=True):
        assert each.keys() == other.keys()
        scale = torch.linalg.vector_norm(torch.cat([grad.flatten() for grad in other.values()]))
        for name in other:
            assert torch.linalg.vector_norm(each[name] - other[name]) < error * scale, name
    whole, rounded = (torch.cat([grad.flatten() for grad in grads.values()]) for grads in found[2:])
    assert torch.linalg.vector_norm(whole - rounded) > 1e-4 * torch.linalg.vector_norm(whole)
    assert float(norm) > 0.02  # so that the second are clipped


def test_sharded_run_resumes_unsharded_and_vice_versa(several, pair):
    config = load_config(several / "config.yaml", ["training.max_steps=5", "training.parallel=fsdp"])
    fit(config, several / "data", several / "part", resume=False)  # one process, which divides nothing
    process = torchrun(several, "--resume", "--run", "part", "--set", "training.max_steps=10", n=3)
    err = ended(process)
    assert process.returncode == 0 and "resuming from step 5" in err, err
    assert load_config(several / "part" / "config.yaml").training.parallel == "fsdp"
    fit(load_config(several / "config.yaml"), several / "data", several / "part", resume=True)
    for load in (load_weights, load_optimizer):
        found, wanted = (load(RunDir(run).step(20)) for run in (several / "part", pair))
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_sharded_run_stops_and_resumes(several, pair):
    run = RunDir(several / "stopped")
    process = torchrun(several, *NEW, "stopped", "--set", "training.parallel=fsdp")
    err = ended(process, lambda: run.step(5).path.exists(), lambda pid: the_other(run, pid))
    step = saved_steps(run)[-1]
    assert f"nmt: stopped at step {step} by another rank; nmt train --resume --run stopped continues from" in err
    assert "exitcode  : 75" in err and "SIGABRT" not in err
    process = torchrun(several, "--resume", "--run", "stopped")
    err = ended(process)
    assert process.returncode == 0 and f"resuming from step {step}" in err, err
    close(run.path, pair)


def learn_with_all(world: World, folder: Path, parallel: str, run: Path, first: int, n: int) -> None:
    """A run of two directions, with a second pass, a moving average and other pieces in every epoch, from update
    `first` to `n`."""
    config = settings(
        folder, parallel=parallel, max_steps=n, ema=0.9, consistency="simcut", cut_rate=0.2, bpe_dropout=0.2,
        eps=1e-4, warmup_steps=40, save_every_steps=3, average_last=1,
    )  # fmt: skip
    config = changed_config(config, ["data.directions=[aa-bb, bb-aa]"])
    fit(config, folder / "data", run, resume=first > 0, world=world)


@pytest.mark.exhaustive
def test_sharded_ema_and_simcut_equal_unsharded(several, tmp_path):
    for name, parallel, first, n in (
        ("whole", "ddp", 0, 6), ("divided", "fsdp", 0, 6), ("resumed", "fsdp", 0, 3), ("resumed", "fsdp", 3, 6),
    ):  # fmt: skip
        in_processes(2, learn_with_all, several, parallel, tmp_path / name, first, n)
    whole_run, *others = (RunDir(tmp_path / name).step(6) for name in ("whole", "divided", "resumed"))
    for load in (load_weights, load_ema, load_optimizer):
        for run in others:
            torch.testing.assert_close(load(run), load(whole_run), rtol=1e-4, atol=1e-6)
    averages, weights = load_ema(whole_run), load_weights(whole_run)
    assert not all(torch.allclose(averages[name], weights[name], atol=1e-3) for name in weights)


def classify(world: World, folder: Path, run: Path) -> None:
    """Train a classifier, whose output layer is not tied and thus frozen."""
    model = {**NO_DROPOUT, **SMALL, "kind": "encoder", "tie_embeddings": "none"}
    del model["decoder_layers"]
    config = labelled_config(folder, data={"max_pieces": 100}, model=model, training=CLASSES)
    if not (folder / "data").exists():
        prepare(config, folder / "data", echo=lambda _: None)
    fit(config, folder / "data", run, world=world)


def test_two_process_classifier_equals_one(tmp_path):
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        write_reviews(tmp_path, name, pairs)
    classify(World(), tmp_path, tmp_path / "one")
    in_processes(2, classify, tmp_path, tmp_path / "two")
    one, two = (RunDir(tmp_path / name).step(6) for name in ("one", "two"))
    for load in (load_weights, load_optimizer):
        torch.testing.assert_close(load(two), load(one), rtol=1e-4, atol=1e-6)


# --- in a group of one --------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of one process."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def divided(config: Config, data: Path, run: Path) -> Session:
    session = start(config, data, run, resume=False)
    session.copy = copy.deepcopy(session.model)
    shard(session.model, session.device, session.world)
    session.parameters = list(session.model.parameters())
    session.optimizer = make_optimizer(session.model, config.training)
    return session


@pytest.mark.usefixtures("group")
def test_model_sharded_over_one_process_equals_unsharded(tiny_data, tmp_path):
    config = settings(tiny_data.parent)
    one, other = start(config, tiny_data, tmp_path / "a", resume=False), divided(config, tiny_data, tmp_path / "b")
    assert other.is_sharded and not one.is_sharded
    for session in (one, other):
        for _ in range(2):
            outcome = train_step(session, first_update(session))
    assert other.copy is not None and other.to_validate("raw") is other.copy
    assert one.to_validate("raw") is one.model and one.copy is None
    for found in (other.full("raw"), dict(other.copy.named_parameters())):
        torch.testing.assert_close(found, one.full("raw"))
    torch.testing.assert_close(other.full("moments"), one.full("moments"))
    assert one.full("moments").keys() == optimizer_tensors(one.optimizer, one.optimizer_names).keys()
    assert float(outcome.stats.loss) > 0


@pytest.mark.usefixtures("group")
def test_nonfinite_loss_changes_nothing_when_sharded(tiny_data, tmp_path, monkeypatch):
    session = divided(settings(tiny_data.parent), tiny_data, tmp_path / "run")
    train_step(session, first_update(session))
    before, moments, real = session.full("raw"), session.full("moments"), objective.token_loss

    def spoilt(*arguments: object) -> object:
        sums = real(*arguments)
        sums.loss.data.fill_(float("nan"))
        return sums

    monkeypatch.setattr("nmt.training.objective.token_loss", spoilt)
    train_step(session, first_update(session))
    assert session.state.step == 2
    found = session.full("raw"), session.full("moments")
    torch.testing.assert_close(found, (before, moments), rtol=0, atol=0)
