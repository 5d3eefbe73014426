"""Checkpoints are written atomically, verified before use, and rotated."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from disk import steps_of
from kept_run import resumable_steps, save, three_checkpoints
from models import tiny_model
from nmt.errors import CheckpointError
from nmt.files import write
from nmt.layout import RunDir
from nmt.runs.checkpoint import (
    assign,
    load_optimizer,
    load_weights,
    optimizer_tensors,
    recent_steps,
    restore_optimizer,
)
from nmt.runs.state import TrainState, load_state, saved_steps, update_state
from nmt.training.saving import rotate


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return three_checkpoints(tmp_path / "run")


def test_checkpoint_round_trip(run):
    tensors = load_weights(run.step(20))["w"], load_optimizer(run.step(20))["w/m"]
    assert [tensor.tolist() for tensor in tensors] == [[20.0] * 3, [0.0] * 3]
    assert load_state(run.step(20)) == TrainState(20)
    assert saved_steps(run) == resumable_steps(run) == [10, 20, 30]


def test_checkpoint_is_synced_before_rename(run, monkeypatch):
    steps = steps_of(monkeypatch, lambda: save(run, 40, 1.0))
    files = [f"fsync {name}" for name in ("optimizer.safetensors", "state.json", "weights.safetensors")]
    part = "step-00000040.part"
    assert [step for step in steps if step.startswith(("fsync", "rename"))] == [
        *files, f"fsync {part}", f"rename {part} step-00000040", "fsync checkpoints",
    ]  # fmt: skip


def test_failed_save_leaves_no_checkpoint(run, monkeypatch):
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(write, "sync", full_disk)
        for step in (30, 40):
            with pytest.raises(OSError, match="No space left"):
                save(run, step, 1.0)
    assert saved_steps(run) == [10, 20, 30]
    assert not list(run.checkpoints.glob("*.part"))
    assert load_weights(run.step(30))["w"].tolist() == [30.0] * 3
    save(run, 40, 1.0)
    assert saved_steps(run) == [10, 20, 30, 40]


def test_state_is_replaced_without_tensors(run):
    update_state(run.step(20), TrainState(20, best_score=3.5))
    assert load_state(run.step(20)).best_score == 3.5
    assert load_weights(run.step(20))["w"].tolist() == [20.0] * 3
    run.step(20).state.write_text("{}")
    with pytest.raises(CheckpointError, match=r"state.json: damaged: its checksum"):
        update_state(run.step(20), TrainState())


def test_unsealed_checkpoint_translates_but_cannot_resume(run):
    saved = run.step(20)
    sums = {name.name: hashlib.sha256(name.read_bytes()).hexdigest() for name in (saved.weights, saved.optimizer)}
    saved.old_checksums.write_text(json.dumps(sums))
    saved.state.write_text(json.dumps({"format": 1, "step": 20}))
    assert load_weights(saved)["w"].tolist() == [20.0] * 3
    with pytest.raises(CheckpointError, match=r"step-00000020: written in format 1; it can be used to translate"):
        load_state(saved)
    saved.weights.write_bytes(saved.weights.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"weights.safetensors: damaged: its checksum"):
        load_weights(saved)


@pytest.mark.parametrize(
    ("rounds", "left", "recent", "resumable"),
    [
        ([(40, 2, 10)], [10, 30, 40], [30, 40], [30, 40]),
        ([(40, 2, 10), (50, 9, 10)], [10, 30, 40, 50], [30, 40, 50], [40, 50]),  # the best one is not counted
        # nor kept for having been the best
        ([(40, 2, 10), (50, 9, 10), (60, 9, 60)], [30, 40, 50, 60], [30, 40, 50, 60], [50, 60]),
        ([(15, 2, None)], [10, 15], [10, 15], [10, 15]),  # after a resume from step 10 the later ones are stale
    ],
)
def test_rotation_keeps_newest_and_best_checkpoints(run, rounds, left, recent, resumable):
    for step, keep_last, best_step in rounds:
        save(run, step, float(step))
        rotate(run, keep_last=keep_last, step=step, best_step=best_step)
    assert (saved_steps(run), resumable_steps(run), recent_steps(run, step)) == (left, resumable, recent)
    assert load_weights(run.step(left[0]))["w"][0] == left[0]


def test_weights_of_another_model_raise():
    model = tiny_model()
    tensors = {name: p.detach().clone() for name, p in tiny_model(seed=1).named_parameters()}
    assign(model, tensors, "here")
    assert all(torch.equal(p, tensors[name]) for name, p in model.named_parameters())
    with pytest.raises(CheckpointError, match=r"here: the weights do not match the model in config.yaml"):
        assign(tiny_model(tie_embeddings="none"), tensors, "here")
    with pytest.raises(CheckpointError, match=r"here: .* has shape .*, the model of config.yaml needs"):
        assign(tiny_model(d_ff=48), tensors, "here")


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_optimizer_round_trip(kind):
    def stepped(model: torch.nn.Module, optimizer: torch.optim.Optimizer, n: int) -> None:
        for i in range(n):
            for j, p in enumerate(model.parameters()):
                p.grad = torch.full_like(p, 0.01 * (i + j))
            optimizer.step()

    first, second = tiny_model(), tiny_model()
    names = [name for name, _ in first.named_parameters()]
    ours, theirs = kind(first.parameters(), lr=0.1, fused=True), kind(second.parameters(), lr=0.1, fused=True)
    stepped(first, ours, 3)
    assign(second, dict(first.named_parameters()), "here")
    kept = {name: tensor.clone() for name, tensor in optimizer_tensors(ours, names).items()}
    restore_optimizer(theirs, names, kept, "here")
    stepped(first, ours, 2)
    stepped(second, theirs, 2)
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))


def test_leftovers_of_killed_save_are_removed(run):
    (run.checkpoints / "step-00000035.part").mkdir()
    rotate(run, keep_last=3, step=30, best_step=None)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [f"step-000000{n}" for n in (10, 20, 30)]


def test_optimizer_of_another_model_raises_and_changes_nothing():
    model = tiny_model()
    names = [name for name, _ in model.named_parameters()]
    optimizer = torch.optim.Adam(model.parameters())
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    before = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, names).items()}
    with pytest.raises(CheckpointError, match="else/exp_avg"):
        restore_optimizer(optimizer, names, {**before, "else/exp_avg": torch.zeros(3)}, "here")
    assert all(torch.equal(tensor, before[name]) for name, tensor in optimizer_tensors(optimizer, names).items())
