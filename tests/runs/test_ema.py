"""The moving average of the weights: computation, checkpoints and selection."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fitting import fit
from models import tiny_model
from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.checkpoint import load_ema, load_weights
from nmt.runs.info import read_selected
from nmt.runs.model import ModelRef, open_saved
from nmt.runs.state import load_state, saved_steps
from nmt.training.optim import Ema
from tiny_corpus import tiny_settings
from trained import records

pytestmark = pytest.mark.usefixtures("quick")
EVERY_STEP = {"ema": 0.9, "save_every_steps": 1, "validate_every_steps": 4, "keep_last": 20}


@pytest.fixture(scope="module")
def run(tiny_data: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run that has kept every step."""
    path = tmp_path_factory.mktemp("ema") / "run"
    fit(tiny_settings(text, training=EVERY_STEP), tiny_data, path)
    return RunDir(path)


def test_ema_ignores_skipped_update():
    model = tiny_model()
    ema = Ema(model, 0.9)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    ema.update([*model.parameters()], 5, torch.tensor(0.0))
    assert all(torch.equal(tensor, before[name]) for name, tensor in ema.tensors.items())


def test_checkpoints_contain_ema(run):
    steps = saved_steps(run)
    assert steps == list(range(1, len(steps) + 1))
    for step in steps[1:]:
        decay = min(0.9, (1 + step) / (10 + step))
        weights, before, ema = load_weights(run.step(step)), load_ema(run.step(step - 1)), load_ema(run.step(step))
        for name, tensor in ema.items():
            assert tensor.dtype == torch.float32
            torch.testing.assert_close(tensor, decay * before[name] + (1 - decay) * weights[name])


def test_better_of_raw_and_ema_is_selected(run):
    looks = [each for each in records(run.path) if each["kind"] in ("valid", "ema")]  # as they were made
    assert [each["kind"] for each in looks] == ["valid", "ema"] * (len(looks) // 2) and looks[0]["step"] == 4
    for step in {each["step"] for each in looks}:
        assert all((run.dev / f"step-{step:08d}{end}.bb").is_file() for end in ("", "-ema"))
    best = max(looks, key=lambda each: each["bleu"])  # of equal ones the first
    kind = {"valid": "raw", "ema": "ema"}[best["kind"]]
    state = load_state(run.step(saved_steps(run)[-1]))
    assert (state.best_score, state.best_step, state.best_weights) == (best["bleu"], best["step"], kind)
    selected = read_selected(run)
    assert selected.best_step == best["step"] and selected.weights in (kind, "average")


def test_loading_missing_ema_raises(tiny_data, text, tmp_path):
    fit(tiny_settings(text, training={"max_steps": 2}), tiny_data, tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"step-00000002: trained without a moving average \(training\.ema\)"):
        open_saved(ModelRef((tmp_path / "run",), "2", "ema"))
