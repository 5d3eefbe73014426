"""The choice of the weights for translation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from kept_run import save, three_checkpoints
from models import tiny_model
from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.checkpoint import average, choose_weights, save_checkpoint
from nmt.runs.info import Selected, write_selected
from nmt.training.saving import rotate
from nmt.training.settings import TrainingConfig

SETTINGS = TrainingConfig(keep_last=4, average_last=3)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return three_checkpoints(tmp_path / "run")


def test_average_of_equal_checkpoints_is_equal(run):
    model = tiny_model()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    for step in (1, 2, 3):
        save_checkpoint(run.step(step), weights, None, {})
    mean = average(run, [1, 2, 3])
    torch.testing.assert_close(dict(mean), weights, rtol=0.0, atol=0.0)
    assert average(run, [10, 20, 30])["w"].tolist() == [20.0] * 3


def test_checkpoint_and_weights_options_select_weights(run):
    def chosen(*arguments: str) -> tuple[int, str, float]:
        found = choose_weights(run, SETTINGS.average_last, *arguments)
        return found.step, found.kind, float(found.tensors["w"][0])

    assert chosen() == (30, "raw", 30.0)  # nothing is validated yet
    write_selected(run, Selected(best_step=None, weights="raw", reason="its checkpoint was removed"))
    assert chosen() == (30, "raw", 30.0)
    write_selected(run, Selected(best_step=20, weights="raw", reason="because"))
    expected = {
        (): (20, "raw", 20.0), ("last",): (30, "raw", 30.0), ("10",): (10, "raw", 10.0),
        ("20", "average"): (20, "average", 15.0), ("last", "average"): (30, "average", 20.0),
    }  # fmt: skip
    assert {options: chosen(*options) for options in expected} == expected
    save_checkpoint(run.average, {"w": torch.full((3,), 25.0)}, None, {})
    write_selected(run, Selected(best_step=20, weights="average", reason="better", average_steps=[20, 30]))
    expected = {(): (30, "average", 25.0), ("best", "raw"): (20, "raw", 20.0), ("last", "auto"): (30, "raw", 30.0)}
    assert {options: chosen(*options) for options in expected} == expected
    assert choose_weights(run, SETTINGS.average_last).reason == "better"


def test_average_is_of_newest_checkpoints(run):
    for step in (40, 50):
        save(run, step, float(step))
        rotate(run, 4, step, best_step=10)  # 10 is kept as the best; the newest four are 20 to 50
    settings = TrainingConfig(keep_last=9, average_last=3)  # more than there were when 10 was set apart

    expected = {"last": 40.0, "30": 25.0, "10": 10.0}
    chosen = {step: choose_weights(run, settings.average_last, step, "average").tensors["w"] for step in expected}
    assert {step: float(weights[0]) for step, weights in chosen.items()} == expected


def test_run_without_checkpoint_raises(tmp_path):
    with pytest.raises(CheckpointError, match=r"run: no checkpoint yet; nmt train writes one every"):
        choose_weights(RunDir(tmp_path / "run"), SETTINGS.average_last)


@pytest.mark.parametrize("weights", ["raw", "average"])
def test_missing_selected_checkpoint_raises_with_way_out(weights, run):
    write_selected(run, Selected(best_step=20, weights=weights, reason="because", average_steps=[20, 30]))
    shutil.rmtree(run.step(20).path)
    with pytest.raises(CheckpointError, match=r"checkpoints/(step-00000020|average): missing; .*--checkpoint last"):
        choose_weights(run, SETTINGS.average_last)
    assert choose_weights(run, SETTINGS.average_last, "last").step == 30
    run.selected.unlink()
    assert choose_weights(run, SETTINGS.average_last).step == 30


def test_damaged_selection_raises(run):
    run.selected.write_text("{")
    with pytest.raises(CheckpointError, match=r"selected.json: damaged: .*; remove it to translate with the last"):
        choose_weights(run, SETTINGS.average_last)
