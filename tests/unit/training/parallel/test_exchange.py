"""The exchange of gradients, in a world of two ranks with the same gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from models import VOCAB, tiny_model
from nmt.model.masks import Padded
from nmt.training.parallel import exchange as module
from nmt.training.parallel.exchange import GradientExchange, completion_order
from nmt.training.parallel.world import World

N_LAYERS, N_PASSES = 4, 3
BATCHES = torch.linspace(-1, 1, 3 * 3 * N_PASSES).view(N_PASSES, 3, 3)


class Twins(World):
    """Two ranks that do the same."""

    def __init__(self) -> None:
        super().__init__(0, 2)
        self.sent: list[Tensor] = []
        """What was exchanged, in order."""

    def all_reduce(self, tensor: Tensor) -> None:
        tensor.mul_(2)

    def start_all_reduce(self, tensor: Tensor) -> Callable[[], Tensor]:
        self.sent.append(tensor.clone())
        return lambda: tensor.mul_(2)


class Learner:
    """A small model whose parameters are a bucket each; `fails_at`: the number of a gradient that is not computed."""

    def __init__(self, n_used: int = N_LAYERS, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(N_LAYERS))
        self.n_used, self.n_grads, self.fails_at, self.world = n_used, 0, -1, Twins()
        self.parameters = list(self.layers.parameters())
        for parameter in self.parameters:
            parameter.register_hook(self._count)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "BUCKET_BYTES", 1)
            self.exchange = GradientExchange(self.parameters[::-1], self.world, dtype)

    def _count(self, _: Tensor) -> None:
        self.n_grads += 1
        if self.n_grads == self.fails_at:
            raise MemoryError

    def learn(self, fails_at: int = -1) -> None:
        """Learn from a share of an update in micro-batches."""
        self.n_grads, self.fails_at = 0, fails_at
        for number, x in enumerate(BATCHES, start=1):
            with self.exchange.last_pass() if number == N_PASSES else nullcontext():
                for layer in self.layers[: self.n_used]:
                    x = layer(x).tanh()
                x.square().sum().backward()

    def grads(self) -> list[Tensor]:
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]


def alone(n_used: int = N_LAYERS) -> list[Tensor]:
    """The gradients of one rank."""
    learner = Learner(n_used)
    learner.exchange._buckets.clear()
    learner.learn()
    return learner.grads()


def test_buckets_are_sent_during_the_last_backward_pass_and_only_there() -> None:
    learner, sent = Learner(), []
    learner.parameters[0].register_hook(lambda _: sent.append(len(learner.world.sent)))
    learner.learn()
    assert sent[:-1] == [0] * (N_PASSES - 1) and sent[-1] >= 2 * (N_LAYERS - 1)  # those of the other layers
    assert len(learner.world.sent) == 2 * N_LAYERS
    learner.exchange.finish()
    assert len(learner.world.sent) == 2 * N_LAYERS
    assert all(torch.equal(found, 2 * own) for found, own in zip(learner.grads(), alone(), strict=True))


@given(st.lists(st.integers(1, 2 * N_LAYERS * N_PASSES), max_size=3), st.integers(1, N_LAYERS))
def test_every_bucket_is_sent_once_and_in_order_whatever_fails(failures: list[int], n_used: int) -> None:
    learner = Learner(n_used)
    for fails_at in (*failures, -1):
        learner.layers.zero_grad(set_to_none=True)
        with suppress(MemoryError):
            learner.learn(fails_at)
    learner.exchange.finish()
    own = alone(n_used)
    assert all(torch.equal(found, 2 * grad) for found, grad in zip(learner.grads(), own, strict=True))
    assert all(torch.equal(sent, grad.flatten()) for sent, grad in zip(learner.world.sent, own[::-1], strict=True))


def test_a_rank_without_a_share_sends_zeros() -> None:
    learner = Learner()
    learner.exchange.finish()
    assert len(learner.world.sent) == 2 * N_LAYERS
    assert not any(grad.any() for grad in learner.grads())


def test_bf16_is_what_is_sent_and_float32_what_is_left() -> None:
    learner = Learner(dtype=torch.bfloat16)
    learner.learn()
    learner.exchange.finish()
    assert {tensor.dtype for tensor in learner.world.sent} == {torch.bfloat16}
    for found, own in zip(learner.grads(), alone(), strict=True):
        assert found.dtype == torch.float32 and torch.equal(found, 2 * own.bfloat16().float())


def test_frozen_parameters_are_not_sent() -> None:
    parameters = [nn.Parameter(torch.ones(2), requires_grad=trained) for trained in (True, False)]
    world = Twins()
    GradientExchange(parameters, world).finish()
    assert [tensor.numel() for tensor in world.sent] == [2] and parameters[1].grad is None


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_a_backward_pass_completes_gradients_in_the_planned_order(tied: str) -> None:
    """Else a bucket would wait for one that is complete later."""
    model, completed = tiny_model(tie_embeddings=tied), []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(completed.append)
    ids = torch.randint(20, VOCAB, (2, 5))
    layout = Padded(torch.ones(2, 5, dtype=torch.bool))
    (model(ids, layout, ids, layout) @ model.output_weight.T).logsumexp(-1).sum().backward()

    def part_of(parameter: Tensor) -> str:
        """Name its layer, or the side of what is below all layers."""
        (name,) = (name for name, other in model.named_parameters() if other is parameter)
        side, kind, *_ = words = [*name.split("."), ""]
        if kind == "embedding" or ".cross_attention.in_" in name:
            return side
        return ".".join(words[: 3 if kind == "layers" else 2])

    planned = completion_order(model)
    assert len(planned) == len(completed) == len(set(planned))
    assert list(dict.fromkeys(map(part_of, planned))) == list(dict.fromkeys(map(part_of, completed)))
