"""Label-smoothed cross-entropy against PyTorch's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models import VOCAB, loss_and_gradients, model_config
from nmt.data.batching import Packing, Pairs
from nmt.data.lines import Lines
from nmt.model.transformer import DecoderModel, EncoderModel
from nmt.training import loss as loss_module
from nmt.training.loss import (
    ConsistencyWeights,
    class_logits,
    class_loss,
    fused_loss,
    plain_cross_entropy,
)


def example(n: int = 12, d: int = 5, v: int = 30) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(n, d, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(v, d, dtype=torch.float64, generator=generator, requires_grad=True)
    return hidden, weight, torch.randint(0, v, (n,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("rows", [1, 5, 100])
def test_cross_entropy_and_gradients_equal_torch(smoothing, rows, monkeypatch):
    hidden, weight, targets = example()
    monkeypatch.setitem(loss_module.BLOCK_ELEMENTS, "cpu", rows * len(weight))
    found = fused_loss((hidden,), weight, targets, smoothing)
    grads = torch.autograd.grad(found.loss * 0.25, (hidden, weight))
    logits = hidden @ weight.T
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(found.nll, F.cross_entropy(logits.detach(), targets, reduction="sum"))
    assert (int(found.n_correct), found.n_tokens) == (int((logits.argmax(-1) == targets).sum()), len(targets))
    torch.testing.assert_close(grads, torch.autograd.grad(expected * 0.25, (hidden, weight)))
    plain = plain_cross_entropy(hidden, weight, targets, smoothing)
    torch.testing.assert_close(plain, expected.detach())
    torch.testing.assert_close(grads, torch.autograd.grad(plain * 0.25, (hidden, weight)))


def test_output_bias_is_part_of_the_loss_and_fixed_rows_learn_nothing():
    hidden, weight, targets = example()
    bias = torch.linspace(-1, 1, len(weight), dtype=torch.float64, requires_grad=True)
    other = (hidden.detach() + 0.1).requires_grad_()
    plain = plain_cross_entropy(hidden, weight, targets, 0.1, bias)
    second = plain_cross_entropy(other, weight, targets, 0.1, bias)
    p, q = (F.linear(states, weight, bias).log_softmax(-1) for states in (hidden, other))
    divergence = 0.5 * ((p.exp() * (p - q)).sum() + (q.exp() * (q - p)).sum())
    both = ConsistencyWeights(p_to_q=0.5, q_to_p=0.5, second=1.0)
    cases = [(plain, (hidden,), None), (plain + second + divergence, (hidden, other), both)]
    for expected, passes, weights in cases:
        found = fused_loss(passes, weight, targets, 0.1, weights, bias, fixed_rows=(2,)).loss
        torch.testing.assert_close(found, expected)
        learners = (weight, bias, *passes)
        wanted = torch.autograd.grad(expected, learners, retain_graph=True)
        for table in wanted[:2]:
            table[2] = 0
        torch.testing.assert_close(torch.autograd.grad(found, learners), wanted)


def test_frozen_output_weight_gets_no_gradient():
    hidden, weight, targets = example()
    expected = torch.autograd.grad(fused_loss((hidden,), weight, targets, 0.1).loss, hidden)
    frozen = weight.detach()
    loss = fused_loss((hidden,), frozen, targets, 0.1).loss
    loss.backward()
    assert frozen.grad is None
    torch.testing.assert_close(hidden.grad, *expected)


def test_loss_sums_add_up():
    hidden, weight, targets = example()
    whole = fused_loss((hidden,), weight, targets, 0.1)
    parts = [fused_loss((hidden[i],), weight, targets[i], 0.1) for i in (slice(5), slice(5, 12))]
    both = parts[0] + parts[1]
    assert both.n_tokens == whole.n_tokens
    assert both.loss_per_token == pytest.approx(whole.loss_per_token)
    assert both.perplexity == pytest.approx(whole.perplexity)
    assert both.accuracy == pytest.approx(whole.accuracy)


def test_loss_of_no_tokens_is_zero():
    hidden, weight, targets = example()
    found = fused_loss((hidden[:0],), weight, targets[:0], 0.1)
    found.loss.backward()
    assert float(found.loss.detach()) == 0.0 and found.loss_per_token == 0.0
    assert weight.grad.abs().max() == 0.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_cross_entropy_in_low_precision_is_close(dtype):
    hidden, weight, targets = (x.detach().float().requires_grad_() if x.is_floating_point() else x for x in example())
    with torch.autocast("cpu", dtype=dtype):
        found = fused_loss((hidden,), weight, targets, 0.1)
    grads = torch.autograd.grad(found.loss, (hidden, weight))
    exact = fused_loss((hidden,), weight, targets, 0.1)
    assert found.loss.dtype == torch.float32
    torch.testing.assert_close(found.loss, exact.loss, rtol=0.01, atol=0.01)
    torch.testing.assert_close(grads, torch.autograd.grad(exact.loss, (hidden, weight)), rtol=0.05, atol=0.05)


def test_loss_of_improbable_target_is_finite():
    hidden, weight = torch.tensor([[1000.0]], requires_grad=True), torch.tensor([[1.0], [-1.0]])
    found = fused_loss((hidden,), weight, torch.tensor([1]), 0.1)
    assert float(found.nll) == pytest.approx(2000.0)
    assert found.perplexity < math.inf


# --- The loss of classifiers: what it is made of, and that neither padding nor packing change ---


LENGTHS = [6, 1, 3, 9, 1, 12]
LABELS = np.array([2, 0, 1, 1, 0, 2])


def texts() -> Pairs:
    rng = np.random.default_rng(0)
    lines = Lines.of([rng.integers(20, VOCAB, n) for n in LENGTHS])
    return Pairs(lines, lines, labels=LABELS)


def make(kind: str, **changes: object) -> Any:
    torch.manual_seed(0)
    config = model_config(**changes)
    model = EncoderModel(config, VOCAB, 3) if kind == "encoder" else DecoderModel(config, VOCAB, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def learned(model: Any, batches: list[Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return loss and gradients, summed over batches."""
    sums = [class_loss(model, batch, 0.1) for batch in batches]
    assert sum(each.n_tokens for each in sums) == len(LENGTHS)
    return loss_and_gradients(model, sum((each.loss for each in sums), torch.zeros(())))


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_class_logits_of_padded_packed_and_single_texts_are_equal(kind: str, calls: list[object]) -> None:
    model, pairs, rows = make(kind), texts(), np.arange(len(LENGTHS))
    padded = class_logits(model, pairs.batch(rows))
    packed = class_logits(model, Packing(pairs, step=16).batch(rows))
    single = torch.cat([class_logits(model, pairs.batch(rows[i : i + 1])) for i in rows])
    assert padded.shape == (6, 3) and padded.std() > 0.01 and calls
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(single, padded, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_class_loss_is_independent_of_batching_and_packing(kind: str, calls: list[object]) -> None:
    model, pairs, rows = make(kind), texts(), np.arange(len(LENGTHS))
    expected = learned(model, [pairs.batch(rows)])
    parts = [pairs.batch(rows[:2]), pairs.batch(rows[2:])]
    for batches in (parts, [Packing(pairs, step=16).batch(rows)]):
        torch.testing.assert_close(learned(model, batches), expected, atol=1e-4, rtol=1e-4)
    assert calls


def test_class_loss_is_smoothed_cross_entropy() -> None:
    model, batch = make("decoder"), texts().batch(np.arange(len(LENGTHS)))
    logits = class_logits(model, batch)
    expected = F.cross_entropy(logits, torch.from_numpy(LABELS), label_smoothing=0.1, reduction="sum")
    sums = class_loss(model, batch, 0.1)
    torch.testing.assert_close(sums.loss, expected)
    assert sums.n_correct == (logits.argmax(-1).numpy() == LABELS).sum() and sums.n_tokens == len(LENGTHS)
