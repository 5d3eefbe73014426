"""Learning rate schedules, the parameters of the optimizer, and weight decay."""

import math

import pytest
import torch

from models import tiny_model
from nmt.config import TrainingConfig
from nmt.training.optim import learning_rate, make_optimizer


def lr(step: int, **settings: object) -> float:
    return learning_rate(step, TrainingConfig(**settings), d_model=512)  # type: ignore[arg-type]


def test_noam_peaks_at_warmup_and_halves_at_four_times_warmup():
    peak = (512 * 4000) ** -0.5
    table = {1: peak / 4000, 3999: peak * 3999 / 4000, 4000: peak, 4001: peak * (4000 / 4001) ** 0.5, 16_000: peak / 2}
    for step, expected in table.items():
        assert lr(step, schedule="noam", warmup_steps=4000) == pytest.approx(expected)
    assert lr(4000, schedule="noam", warmup_steps=4000, factor=2.0) == pytest.approx(2 * peak)


@pytest.mark.parametrize(
    ("schedule", "at_300", "last"),
    [
        ("inverse_sqrt", 0.01 * (100 / 300) ** 0.5, 0.01 * (100 / 500) ** 0.5),
        ("linear", 0.01 * (1 - 200 / 401), 0.01 / 401),
        ("cosine", 0.005 * (1 + math.cos(math.pi * 200 / 401)), 0.005 * (1 + math.cos(math.pi * 400 / 401))),
        ("constant", 0.01, 0.01),
    ],
)
def test_schedules_warm_up_linearly_to_peak_lr(schedule, at_300, last):
    settings = {"schedule": schedule, "peak_lr": 0.01, "warmup_steps": 100, "max_steps": 500}
    assert lr(1, **settings) == pytest.approx(0.0001)
    assert lr(99, **settings) == pytest.approx(0.0099)
    assert lr(100, **settings) == pytest.approx(0.01)
    assert lr(101, **settings) <= 0.01
    assert lr(300, **settings) == pytest.approx(at_300)
    assert lr(500, **settings) == pytest.approx(last)
    assert lr(500, **settings) > 0  # the last update learns too


NAMES = ["adam", "adamw"]
KINDS = [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_optimizer_steps_equal_torch(name, kind):
    settings = TrainingConfig(optimizer=name, weight_decay=0.1, betas=[0.8, 0.9], eps=1e-7)
    ours, theirs = tiny_model(), tiny_model()
    theirs.load_state_dict(ours.state_dict())
    groups = [{**group, "params": []} for group in make_optimizer(theirs, settings).param_groups]
    for parameter in theirs.parameters():
        groups[parameter.dim() <= 1]["params"].append(parameter)
    optimizers = make_optimizer(ours, settings), kind(groups, lr=0.0, fused=True)
    for step in range(3):
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            torch.manual_seed(step)
            for group in optimizer.param_groups:
                group["lr"] = 0.1
            for parameter in model.parameters():
                parameter.grad = torch.randn_like(parameter)
            optimizer.step()
            optimizer.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    for a, b in zip(*(optimizer.state_dict()["state"].values() for optimizer in optimizers), strict=True):
        assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("name", NAMES)
def test_weight_decay_applies_to_matrices_only(name):
    model = tiny_model()
    settings = TrainingConfig(optimizer=name, schedule="constant", weight_decay=0.5, betas=[0.8, 0.9], eps=1e-7)
    optimizer = make_optimizer(model, settings)
    decayed, spared = optimizer.param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.5, 0.0)
    assert all(p.dim() == 2 for p in decayed["params"]) and all(p.dim() == 1 for p in spared["params"])
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    assert (decayed["betas"], decayed["eps"]) == ((0.8, 0.9), 1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_optimizer_excludes_frozen_parameters(name):
    model = tiny_model()
    model.encoder.requires_grad_(False)
    settings = TrainingConfig(optimizer=name, schedule="constant", weight_decay=0.5)
    groups = make_optimizer(model, settings).param_groups
    found = {id(parameter) for group in groups for parameter in group["params"]}
    assert found == {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.dim() <= 1)
    (group,) = make_optimizer(model, settings).param_groups
    assert group["weight_decay"] == 0.0 and all(p.dim() == 1 for p in group["params"])
