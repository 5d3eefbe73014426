"""Schedule-free AdamW: the package's own updates, left out where they are not finite, and resumed bit for bit."""

from __future__ import annotations

import subprocess
import sys
import weakref
from itertools import pairwise

import pytest
import torch
from schedulefree import AdamWScheduleFree
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from models import tiny_model
from nmt.config import TrainingConfig
from nmt.errors import ConfigError
from nmt.layout import RunDir
from nmt.runs.checkpoint import load_optimizer, load_weights, optimizer_tensors, restore_optimizer
from nmt.training import optim, schedule_free
from nmt.training.loop import fit
from nmt.training.optim import learning_rate, make_optimizer, weights_to_keep
from nmt.training.validate import Validation, Validator
from tiny_corpus import tiny_settings

SETTINGS = TrainingConfig(
    optimizer="schedule_free", schedule="constant", peak_lr=0.02, warmup_steps=8,
    beta1=0.8, beta2=0.95, eps=1e-7, weight_decay=0.1,
)  # fmt: skip


class Learner:
    """A tiny model that learns from random gradients, which are those of the step."""

    def __init__(self, settings: TrainingConfig = SETTINGS) -> None:
        self.model, self.settings = tiny_model(), settings
        self.optimizer = make_optimizer(self.model, settings)

    @property
    def names(self) -> list[str]:
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    def learn(self, first: int, last: int, bad: tuple[int, ...] = ()) -> None:
        """The updates from `first` to `last`, of which the gradients of `bad` are not finite."""
        for step in range(first, last + 1):
            give_gradients(self.model, step, spoilt=step in bad)
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(step, self.settings, d_model=16)
            self.optimizer.found_inf = torch.tensor(float(step in bad))  # type: ignore[attr-defined]
            self.optimizer.step()
            self.optimizer.zero_grad()

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Weights and optimizer as a checkpoint holds them."""
        tensors = weights_to_keep(self.model, self.optimizer), optimizer_tensors(self.optimizer, self.names)
        weights, moments = ({name: tensor.detach().clone() for name, tensor in each.items()} for each in tensors)
        return weights, moments

    def everything(self) -> dict[str, Tensor]:
        weights, moments = self.saved()
        return {**{f"x of {name}": tensor for name, tensor in weights.items()}, **moments}


def give_gradients(model: nn.Module, step: int, spoilt: bool = False) -> None:
    torch.manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan) if spoilt else torch.randn_like(parameter)


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def theirs(warmup_steps: int) -> tuple[nn.Module, AdamWScheduleFree]:
    """The same model with the package's own optimizer."""
    model = tiny_model()
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = AdamWScheduleFree(groups, lr=0.02, betas=(0.8, 0.95), eps=1e-7, warmup_steps=warmup_steps)
    optimizer.train()
    return model, optimizer


def test_twenty_updates_are_those_of_the_package():
    ours, (model, optimizer) = Learner(), theirs(warmup_steps=0)
    ours.learn(1, 20)
    for step in range(1, 21):
        give_gradients(model, step)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, SETTINGS, d_model=16)
        optimizer.step()
    trained = dict(model.named_parameters())
    assert same(dict(ours.model.named_parameters()), trained)
    y = {name: parameter.detach().clone() for name, parameter in trained.items()}
    optimizer.eval()  # in place: y becomes x
    averages = weights_to_keep(ours.model, ours.optimizer)
    assert same(averages, trained) and not same(averages, y)


def test_our_warm_up_does_what_that_of_the_package_does():
    ours, (model, optimizer) = Learner(), theirs(warmup_steps=8)
    ours.learn(1, 20)
    for step in range(1, 21):
        give_gradients(model, step)
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(dict(ours.model.named_parameters())[name], parameter)
    for one, other in zip(ours.optimizer.param_groups, optimizer.param_groups, strict=True):
        assert one["weight_sum"] == pytest.approx(other["weight_sum"]) and one["k"] == other["k"] == 20


def test_making_the_averages_changes_nothing():
    one, other = Learner(), Learner()
    for step in range(1, 8):
        one.learn(step, step)
        one.everything()
    other.learn(1, 7)
    assert same(one.everything(), other.everything())


def test_before_the_first_update_the_average_is_the_weight():
    learner = Learner()
    assert same(weights_to_keep(learner.model, learner.optimizer), dict(learner.model.named_parameters()))
    assert optimizer_tensors(learner.optimizer, learner.names) == {}


@pytest.mark.parametrize("bad", [1, 5])
def test_an_update_that_is_not_finite_changes_nothing(bad):
    learner = Learner()
    learner.learn(1, bad - 1)
    before = learner.everything()
    learner.learn(bad, bad, bad=(bad,))
    after = learner.everything()
    if bad == 1:  # nothing was there: all moments are as at the start, and there is all that a checkpoint needs
        assert {name.rpartition("/")[0] for name in after} - {""} == set(learner.names)
        assert all(not tensor.any() for name, tensor in after.items() if name.endswith(("exp_avg_sq", "k", "_sum")))
        assert same({name: after[f"x of {name}"] for name in learner.names}, dict(tiny_model().named_parameters()))
    else:
        assert same(before, after)
        assert [group["k"] for group in learner.optimizer.param_groups] == [4, 4]
    learner.learn(bad + 1, bad + 2)
    assert not same(after, learner.everything())


@pytest.mark.parametrize("stops", [[], [1, 5], [2, 6, 9]])
def test_a_gpu_takes_back_what_a_cpu_leaves_out(stops, monkeypatch):
    bad, plain = (1, 5, 6, 9), Learner()
    plain.learn(1, 12, bad)
    monkeypatch.setattr(schedule_free, "SYNCHRONOUS", set())
    learner = Learner()
    for first, last in pairwise([0, *stops, 12]):
        learner.learn(first + 1, last, bad)
        _, moments = learner.saved()
        before, learner = learner, Learner()
        learner.model.load_state_dict(before.model.state_dict())
        restore_optimizer(learner.optimizer, learner.names, moments, "here")
        assert same(learner.everything(), before.everything())
    assert same(learner.everything(), plain.everything())
    learner.learn(13, 14)
    plain.learn(13, 14)
    assert same(learner.everything(), plain.everything())
    assert [group["k"] for group in learner.optimizer.param_groups] == [10, 10]


@pytest.mark.parametrize("part", [1, 100, 2**22])
def test_by_whatever_parts_a_gpu_goes_it_learns_the_same(part, monkeypatch):
    plain, learner = Learner(), Learner()
    plain.learn(1, 6, bad=(1, 4))
    monkeypatch.setattr(schedule_free, "SYNCHRONOUS", set())
    monkeypatch.setattr(schedule_free, "CHUNK", part)
    learner.learn(1, 6, bad=(1, 4))
    found, expected = learner.everything(), plain.everything()
    assert found.keys() == expected.keys()
    for name, tensor in found.items():  # a CPU rounds the ends of tensors in another way
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-7)
    assert [group["k"] for group in learner.optimizer.param_groups] == [4, 4]


class Most(TorchDispatchMode):
    """The most numbers that new tensors held at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.most, self._made = 0, list[weakref.ref[Tensor]]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        given = {each.untyped_storage().data_ptr() for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        new = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        self._made += [weakref.ref(each) for each in new if each.untyped_storage().data_ptr() not in given]
        self._made = [each for each in self._made if each() is not None]
        self.most = max(self.most, sum(tensor.numel() for each in self._made if (tensor := each()) is not None))
        return result


def test_an_update_that_may_be_taken_back_takes_little_memory(monkeypatch):
    monkeypatch.setattr(schedule_free, "SYNCHRONOUS", set())
    monkeypatch.setattr(schedule_free, "CHUNK", part := 500)
    learner = Learner()
    learner.learn(1, 1)
    give_gradients(learner.model, 2)
    with Most() as found:
        learner.optimizer.step()
    n_parameters = sum(p.numel() for p in learner.model.parameters())
    assert 3 * part < found.most < 5 * 2 * part < n_parameters


@pytest.mark.parametrize("stops", [[3], [1, 7], [1, 2, 5, 9, 11]])
def test_resumed_equals_never_stopped(stops):
    whole, bad = Learner(), (1, 6)
    whole.learn(1, 13, bad)
    learner, step = Learner(), 0
    for stop in [*stops, 13]:
        learner.learn(step + 1, stop, bad)
        weights, moments = learner.saved()
        learner, step = Learner(), stop
        with torch.no_grad():
            for name, parameter in learner.model.named_parameters():
                parameter.copy_(weights[name])
        restore_optimizer(learner.optimizer, learner.names, dict(sorted(moments.items(), reverse=True)), "here")
    assert same(learner.everything(), whole.everything())
    assert same(dict(learner.model.named_parameters()), dict(whole.model.named_parameters()))
    for group, wanted in zip(learner.optimizer.param_groups, whole.optimizer.param_groups, strict=True):
        for name in ("k", "weight_sum", "lr_max"):
            assert group[name] == wanted[name] and type(group[name]) is type(wanted[name]), name
    for each in (learner, whole):
        each.learn(14, 16)
    assert same(learner.everything(), whole.everything())


def test_frozen_weights_are_kept_as_they_are():
    model = tiny_model()
    model.encoder.requires_grad_(False)
    optimizer = make_optimizer(model, SETTINGS)
    give_gradients(model, 1)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for _ in range(2):
        optimizer.step()
    after = weights_to_keep(model, optimizer)
    assert before.keys() == after.keys()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert {name for name in before if torch.equal(before[name], after[name])} == frozen


# --- a run of it --------------------------------------------------------------------------------

RUN = {"optimizer": "schedule_free", "schedule": "constant", "peak_lr": 0.01}


def test_the_averages_are_saved_and_validated(tiny_data, tmp_path, monkeypatch):
    validated = []

    def validate(self: Validator, model: nn.Module, *rest: object) -> Validation:
        validated.append({name: parameter.detach().clone() for name, parameter in model.named_parameters()})
        return real(self, model, *rest)  # type: ignore[arg-type]

    real = Validator.validate
    monkeypatch.setattr(Validator, "validate", validate)
    config, run = tiny_settings(tiny_data.parent / "text", training=RUN), RunDir(tmp_path / "run")
    fit(config, tiny_data, run.path)
    for step, seen in zip((6, 12), validated[:2], strict=True):
        weights = load_weights(run.step(step))
        assert same(weights, seen)
    moments = load_optimizer(run.step(12))
    for name, x in weights.items():
        y, z = moments[f"{name}/y"], moments[f"{name}/z"]
        assert torch.equal(x, y.lerp(z, 1 - 1 / 0.9)) and not torch.equal(x, y)


def test_settings_that_make_no_sense_with_it_are_refused(tmp_path):
    with pytest.raises(ConfigError) as found:
        tiny_settings(tmp_path, training={**RUN, "schedule": "noam", "cooldown": 0.2, "ema": 0.9, "beta1": 0.0})
    named = [problem.split(": ")[1].removeprefix("training.") for problem in found.value.problems]
    assert named == ["schedule", "cooldown", "ema", "beta1"]


def test_without_the_package_nothing_is_written(tiny_data, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "nmt.training.schedule_free", raising=False)
    monkeypatch.setitem(sys.modules, "schedulefree", None)
    with pytest.raises(ConfigError, match="needs the package schedulefree; install it with pip install schedulefree"):
        fit(tiny_settings(tiny_data.parent / "text", training=RUN), tiny_data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- the package is an extra --------------------------------------------------------------------


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "nmt.training.schedule_free", raising=False)
    monkeypatch.setitem(sys.modules, "schedulefree", None)  # as if it were not installed
    with pytest.raises(ConfigError) as found:
        make_optimizer(tiny_model(), SETTINGS)
    assert found.value.problems == [optim.INSTALL] and "nmt's extra schedule-free" in optim.INSTALL
    make_optimizer(tiny_model(), TrainingConfig())


def test_who_does_not_ask_for_it_does_not_import_it():
    program = "import sys, nmt.cli, nmt.training.loop; assert 'schedulefree' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
