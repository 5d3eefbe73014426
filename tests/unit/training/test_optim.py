"""Learning rate schedules, the parameters of the optimizer, and weight decay."""

import math

import pytest
import torch

from models import tiny_model
from nmt.training.optim import Muon, learning_rate, make_optimizer, orthogonal
from nmt.training.settings import TrainingConfig


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
    expected = {1: 0.0001, 99: 0.0099, 100: 0.01, 300: at_300, 500: last}
    assert {step: lr(step, **settings) for step in expected} == pytest.approx(expected)
    assert lr(101, **settings) <= 0.01 and last > 0  # the last update learns too


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


@pytest.mark.parametrize("shape", [(3, 40, 16), (2, 16, 40), (1, 8, 8)])
def test_orthogonal_matrices_have_singular_values_near_one(shape):
    values = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=torch.Generator().manual_seed(1))))
    assert values.min() > 0.3 and values.max() < 1.3


def test_muon_equals_torch_for_each_projection_and_adamw_for_the_rest():
    settings = TrainingConfig(optimizer="muon", weight_decay=0.1)
    model = tiny_model()
    optimizer = make_optimizer(model, settings, "bf16")
    assert isinstance(optimizer, Muon) and optimizer.dtype == torch.bfloat16
    one, three, matrices, vectors = optimizer.param_groups
    assert (one["blocks"], three["blocks"], matrices["weight_decay"], vectors["weight_decay"]) == (1, 3, 0.1, 0.0)
    hidden = {name: p for name, p in model.named_parameters() if ".layers." in name and p.dim() == 2}
    assert {id(p) for group in (one, three) for p in group["params"]} == {id(p) for p in hidden.values()}
    assert {id(p) for p in three["params"]} == {id(p) for name, p in hidden.items() if name.endswith("in_weight")}
    blocks = {
        name: [torch.nn.Parameter(block.clone()) for block in p.detach().chunk(3 if name.endswith("in_weight") else 1)]
        for name, p in hidden.items()
    }
    adam_of = {
        name: torch.nn.Parameter(p.detach().clone()) for name, p in model.named_parameters() if name not in hidden
    }
    decayed, spared = ([p for p in adam_of.values() if (p.dim() > 1) == is_matrix] for is_matrix in (True, False))
    theirs = (
        torch.optim.Muon(
            [block for found in blocks.values() for block in found], weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.1}, {"params": spared, "weight_decay": 0.0}],
            betas=(0.9, 0.98), eps=1e-9, fused=True,
        ),
    )  # fmt: skip
    for step in range(3):
        torch.manual_seed(step)
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn_like(parameter)
            for block, grad in zip(
                blocks.get(name, ()), parameter.grad.chunk(len(blocks.get(name, " "))), strict=False
            ):
                block.grad = grad.clone()
            if name in adam_of:
                adam_of[name].grad = parameter.grad.clone()
        for each in (optimizer, *theirs):
            for group in each.param_groups:
                group["lr"] = 0.01
            each.step()
    for name, parameter in model.named_parameters():
        if name in hidden:
            torch.testing.assert_close(parameter, torch.cat(blocks[name]), atol=2e-4, rtol=0.0)
        else:
            assert torch.equal(parameter, adam_of[name])


def test_muon_changes_nothing_where_gradients_are_not_finite():
    model = tiny_model()
    optimizer = make_optimizer(model, TrainingConfig(optimizer="muon", weight_decay=0.1))
    states = []
    for is_bad in (False, True):
        optimizer.found_inf, optimizer.grad_scale = torch.tensor(float(is_bad)), None  # type: ignore[attr-defined]
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan) if is_bad else torch.randn_like(parameter)
        optimizer.step()
        momenta = [values["momentum"] for values in optimizer.state.values() if "momentum" in values]
        states.append([x.detach().clone() for x in (*model.parameters(), *momenta)])
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))


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
