"""Checkpoints are written atomically, verified before use, and rotated."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from disk import hook
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
    assert load_weights(run.step(20))["w"].tolist() == [20.0] * 3
    assert load_optimizer(run.step(20))["w/m"].tolist() == [0.0] * 3
    assert load_state(run.step(20)) == TrainState(20)
    assert saved_steps(run) == resumable_steps(run) == [10, 20, 30]


def test_checkpoint_is_synced_before_rename(run, monkeypatch):
    steps = []

    def note(name: str, first: Any, _: Any) -> None:
        path = Path(f"/proc/self/fd/{first}").readlink() if isinstance(first, int) else Path(first)
        if name in ("fsync", "rename"):
            steps.append(f"{name} {path.relative_to(run.path)}")

    with monkeypatch.context() as patch:
        hook(patch, note)
        save(run, 40, 1.0)
    part = "checkpoints/step-00000040.part"
    files = [f"fsync {part}/{name}" for name in ("optimizer.safetensors", "state.json", "weights.safetensors")]
    assert steps == [*files, f"fsync {part}", f"rename {part}", "fsync checkpoints"]


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


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "gone", "pickle"])
@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_damaged_checkpoint_file_raises_with_its_name(run, damage, name):
    path = run.step(20).path / name
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[:-2])
        case "flipped":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "emptied":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
        case "pickle":
            torch.save({"w": torch.zeros(3)}, path)
    load = {"weights": load_weights, "optimizer": load_optimizer, "state": load_state}[path.stem]
    with pytest.raises(CheckpointError, match=rf"step-00000020/{name}: (damaged|missing)"):
        load(run.step(20))


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


def test_rotation_keeps_newest_and_best_checkpoints(run):
    save(run, 40, 40.0)
    rotate(run, keep_last=2, step=40, best_step=10)
    assert saved_steps(run) == [10, 30, 40]
    assert resumable_steps(run) == [30, 40]
    assert load_weights(run.step(10))["w"][0] == 10.0


def test_best_checkpoint_is_not_counted_in_keep_last(run):
    """This also holds with a larger keep_last, and if another checkpoint becomes the best."""
    save(run, 40, 40.0)
    rotate(run, keep_last=2, step=40, best_step=10)
    save(run, 50, 50.0)
    rotate(run, keep_last=9, step=50, best_step=10)
    assert saved_steps(run) == [10, 30, 40, 50] and recent_steps(run, 50) == [30, 40, 50]
    save(run, 60, 60.0)
    rotate(run, keep_last=9, step=60, best_step=60)
    assert saved_steps(run) == [30, 40, 50, 60]


def test_rotation_removes_stale_checkpoints(run):
    """After a resume from step 10, later checkpoints of the earlier process are stale."""
    save(run, 15, 15.0)
    rotate(run, keep_last=2, step=15, best_step=None)
    assert saved_steps(run) == [10, 15]


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
