"""Checkpoints are whole or not there, verified before use, and chosen by a rule that can be told."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from models import tiny_model
from safetensors import SafetensorError

from nmt import checkpoint
from nmt.checkpoint import (
    TrainState,
    assign,
    average,
    choose_weights,
    load_optimizer,
    load_state,
    load_weights,
    optimizer_tensors,
    read_info,
    replace_file,
    restore_optimizer,
    rotate,
    save_checkpoint,
    saved_steps,
    write_selected,
)
from nmt.config import TrainingConfig
from nmt.errors import CheckpointError
from nmt.layout import RunDir

SETTINGS = TrainingConfig(keep_last=4, average_last=3)


def save(run: RunDir, step: int, value: float) -> None:
    save_checkpoint(run.step(step), {"w": torch.full((3,), value)}, {"w/m": torch.zeros(3)}, asdict(TrainState(step)))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir(tmp_path / "run")
    for step in (10, 20, 30):
        save(run, step, float(step))
    return run


def test_saved_and_loaded(run):
    assert load_weights(run.step(20))["w"].tolist() == [20.0] * 3
    assert load_optimizer(run.step(20))["w/m"].tolist() == [0.0] * 3
    assert TrainState(**load_state(run.step(20))) == TrainState(20)
    assert saved_steps(run) == saved_steps(run, resumable=True) == [10, 20, 30]


def test_saving_again_replaces(run):
    save(run, 20, 21.0)
    assert load_weights(run.step(20))["w"].tolist() == [21.0] * 3


def test_a_save_that_fails_leaves_nothing_that_looks_finished(run, monkeypatch):
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "sync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save(run, 40, 1.0)
    monkeypatch.undo()
    assert saved_steps(run) == [10, 20, 30]
    save(run, 40, 1.0)
    assert saved_steps(run) == [10, 20, 30, 40]
    assert not list(run.checkpoints.glob("*.part"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "gone", "pickle"])
@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_damage_is_recognised_and_named(run, damage, name):
    path = run.step(20).path / name
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[:-1])
        case "flipped":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "emptied":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
        case "pickle":
            torch.save({"w": torch.zeros(3)}, path)
    load = {"weights": load_weights, "optimizer": load_optimizer, "state": load_state}[path.stem]
    with pytest.raises(CheckpointError, match=rf"step-00000020/{name}: (damaged|missing or damaged)"):
        load(run.step(20))


def test_a_pickle_with_a_right_checksum_is_not_loaded_either(run):
    path = run.step(20).weights
    torch.save({"w": torch.zeros(3)}, path)
    sums = json.loads(run.step(20).checksums.read_text())
    sums[path.name] = checkpoint._sha256(path)
    run.step(20).checksums.write_text(json.dumps(sums))
    with pytest.raises(CheckpointError, match=r"weights.safetensors: damaged: "):
        load_weights(run.step(20))


def test_rotation_keeps_the_newest_and_the_best(run):
    save(run, 40, 40.0)
    rotate(run, keep_last=2, best_step=10)
    assert saved_steps(run) == [10, 30, 40]
    assert saved_steps(run, resumable=True) == [30, 40]
    assert load_weights(run.step(10))["w"][0] == 10.0


def test_the_average_of_identical_ones_is_identical(run):
    model = tiny_model()
    weights = dict(model.named_parameters())
    for step in (1, 2, 3):
        save_checkpoint(run.step(step), weights, None, {})
    mean = average(run, [1, 2, 3])
    assert mean.keys() == weights.keys()
    assert all(torch.equal(mean[name], weights[name]) for name in weights)
    assert average(run, [10, 20, 30])["w"].tolist() == [20.0] * 3


def test_which_weights_are_chosen(run):
    def chosen(*arguments: str) -> tuple[int, str, float]:
        found = choose_weights(run, SETTINGS, *arguments)
        return found.step, found.kind, float(found.tensors["w"][0])

    assert chosen() == (30, "raw", 30.0)  # nothing is validated yet
    write_selected(run, {"best_step": 20, "weights": "raw", "reason": "because"})
    assert chosen() == (20, "raw", 20.0)
    assert chosen("last") == (30, "raw", 30.0)
    assert chosen("10") == (10, "raw", 10.0)
    assert chosen("20", "average") == (20, "average", 15.0)
    assert chosen("last", "average") == (30, "average", 20.0)
    save_checkpoint(run.average, {"w": torch.full((3,), 25.0)}, None, {})
    write_selected(run, {"best_step": 20, "weights": "average", "reason": "better", "average_steps": [20, 30]})
    assert chosen() == (30, "average", 25.0)
    assert chosen("best", "raw") == (20, "raw", 20.0)
    assert chosen("last", "auto") == (30, "raw", 30.0)
    assert choose_weights(run, SETTINGS).reason == "better"


@pytest.mark.parametrize("wanted", ["15", "newest", "-1", ""])
def test_a_checkpoint_that_is_not_there(run, wanted):
    with pytest.raises(CheckpointError, match=rf"run: no checkpoint {wanted}; there are 10, 20, 30, best and last"):
        choose_weights(run, SETTINGS, wanted)


def test_an_average_takes_the_newest_and_not_the_lone_best(run):
    for step in (40, 50):
        save(run, step, float(step))  # 10 is kept as the best; the newest four are 20 to 50

    def mean(*arguments: str) -> float:
        return float(choose_weights(run, SETTINGS, *arguments).tensors["w"][0])

    assert mean("last", "average") == 40.0
    assert mean("30", "average") == 25.0
    assert mean("10", "average") == 10.0


def test_a_run_without_a_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"run: no checkpoint yet; nmt train writes one every"):
        choose_weights(RunDir(tmp_path / "run"), SETTINGS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not a run directory, run.json is missing"),
        ("{", "damaged"),
        ("[1]", "damaged"),
        ('{"format": 1, "corpus": "", "precision": ""}', "damaged: it lacks data_dir, tokenizer"),
        ('{"format": 99}', "written in format 99, this version of nmt reads 1"),
    ],
)
def test_a_run_directory_that_is_none(tmp_path, text, message):
    run = RunDir(tmp_path)
    if text is not None:
        run.info.write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_info(run)


def test_weights_of_another_model():
    model = tiny_model()
    tensors = {name: p.detach().clone() for name, p in tiny_model(seed=1).named_parameters()}
    assign(model, tensors, "here")
    assert all(torch.equal(p, tensors[name]) for name, p in model.named_parameters())
    with pytest.raises(CheckpointError, match=r"here: the weights are of another model than config.yaml describes"):
        assign(tiny_model(tie_embeddings="none"), tensors, "here")
    with pytest.raises(CheckpointError, match=r"here: .* has shape .*, the model of config.yaml needs"):
        assign(tiny_model(d_ff=48), tensors, "here")


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_the_optimizer_comes_back_bit_for_bit(kind):
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
    restore_optimizer(theirs, names, kept)
    stepped(first, ours, 2)
    stepped(second, theirs, 2)
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))


def test_a_full_disk_is_one_line_and_leaves_nothing(run, monkeypatch):
    def full(*_: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(CheckpointError, match=r"step-00000040: cannot be written: No space left on device"):
        save(run, 40, 1.0)
    assert saved_steps(run) == [10, 20, 30]
    assert not list(run.checkpoints.glob("*.part"))


def test_a_damaged_selection_is_one_line(run):
    run.selected.write_text("{")
    with pytest.raises(CheckpointError, match=r"selected.json: damaged: .*; remove it to translate with the last"):
        choose_weights(run, SETTINGS)


def test_a_small_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "f").write_text("before")
    monkeypatch.setattr(checkpoint, "sync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "f", "after")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("f", "before")]


def test_a_checkpoint_of_another_format(run):
    state = run.step(20).state
    state.write_text(state.read_text().replace('"format": 1', '"format": 2'))
    sums = json.loads(run.step(20).checksums.read_text())
    run.step(20).checksums.write_text(json.dumps({**sums, state.name: checkpoint._sha256(state)}))
    with pytest.raises(CheckpointError, match=r"step-00000020: written in another format than 1"):
        load_state(run.step(20))


def test_what_a_save_that_died_left_is_removed(run):
    (run.checkpoints / "step-00000035.part").mkdir()
    rotate(run, keep_last=3, best_step=None)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [f"step-000000{n}" for n in (10, 20, 30)]


def test_an_average_before_any_validation_is_of_the_newest(run):
    found = choose_weights(run, SETTINGS, "best", "average")
    assert (found.step, found.tensors["w"].tolist()) == (30, [20.0] * 3)
