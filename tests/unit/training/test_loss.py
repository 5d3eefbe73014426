"""Label-smoothed cross-entropy against PyTorch's own and against a loop."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models import VOCAB, model_config
from nmt.config.training import ClassificationConfig, TrainingConfig
from nmt.data.batching import Batch, Packing, Pairs
from nmt.data.corpus import Lines
from nmt.model.masks import Padded
from nmt.model.stacks import DecoderModel, EncoderModel, pooled
from nmt.training import loss as loss_module
from nmt.training.loss import label_smoothed_cross_entropy, plain_cross_entropy, weighted_nll
from nmt.training.objective import class_logits, classes_loss, cross_entropy, objective


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
    found = label_smoothed_cross_entropy(hidden, weight, targets, smoothing)
    grads = torch.autograd.grad(found.loss * 0.25, (hidden, weight))
    expected = torch.nn.functional.cross_entropy(hidden @ weight.T, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found.loss, expected)
    for one, two in zip(grads, torch.autograd.grad(expected * 0.25, (hidden, weight)), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_fused_cross_entropy_equals_plain(smoothing):
    hidden, weight, targets = example()
    plain = plain_cross_entropy(hidden, weight, targets, smoothing)
    fused = label_smoothed_cross_entropy(hidden, weight, targets, smoothing).loss
    torch.testing.assert_close(fused, plain)
    wanted, found = (torch.autograd.grad(loss, (hidden, weight)) for loss in (plain, fused))
    torch.testing.assert_close(found, wanted)
    logits = (hidden @ weight.T).detach()
    at_target = torch.nn.functional.one_hot(targets, len(weight))
    by_logits = logits.softmax(-1) - (1 - smoothing) * at_target - smoothing / len(weight)
    torch.testing.assert_close(wanted[0], by_logits @ weight)


def test_frozen_output_weight_gets_no_gradient():
    hidden, weight, targets = example()
    expected = torch.autograd.grad(label_smoothed_cross_entropy(hidden, weight, targets, 0.1).loss, hidden)
    frozen = weight.detach()
    loss = label_smoothed_cross_entropy(hidden, frozen, targets, 0.1).loss
    loss.backward()
    assert frozen.grad is None
    torch.testing.assert_close(hidden.grad, *expected)


def test_loss_sums_equal_loop_over_tokens():
    hidden, weight, targets = example()
    found = label_smoothed_cross_entropy(hidden, weight, targets, 0.1)
    loss = nll = n_correct = 0.0
    for h, target in zip(hidden, targets.tolist(), strict=True):
        probs = (weight @ h).softmax(0).detach()
        nll -= math.log(probs[target])
        loss -= sum((0.9 * (v == target) + 0.1 / 30) * math.log(probs[v]) for v in range(30))
        n_correct += int(probs.argmax()) == target
    assert float(found.loss.detach()) == pytest.approx(loss)
    assert float(found.nll) == pytest.approx(nll)
    assert float(found.n_correct) == n_correct
    assert found.n_tokens == 12


def test_loss_sums_add_up():
    hidden, weight, targets = example()
    whole = label_smoothed_cross_entropy(hidden, weight, targets, 0.1)
    parts = [label_smoothed_cross_entropy(hidden[i], weight, targets[i], 0.1) for i in (slice(5), slice(5, 12))]
    both = parts[0] + parts[1]
    assert both.n_tokens == whole.n_tokens
    assert both.loss_per_token == pytest.approx(whole.loss_per_token)
    assert both.perplexity == pytest.approx(whole.perplexity)
    assert both.accuracy == pytest.approx(whole.accuracy)


def test_loss_of_no_tokens_is_zero():
    hidden, weight, targets = example()
    found = label_smoothed_cross_entropy(hidden[:0], weight, targets[:0], 0.1)
    found.loss.backward()
    assert float(found.loss.detach()) == 0.0 and found.loss_per_token == 0.0
    assert weight.grad.abs().max() == 0.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_cross_entropy_in_low_precision_is_close(dtype):
    hidden, weight, targets = (x.detach().float().requires_grad_() if x.is_floating_point() else x for x in example())
    with torch.autocast("cpu", dtype=dtype):
        found = label_smoothed_cross_entropy(hidden, weight, targets, 0.1)
    grads = torch.autograd.grad(found.loss, (hidden, weight))
    exact = label_smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert found.loss.dtype == torch.float32
    torch.testing.assert_close(found.loss, exact.loss, rtol=0.01, atol=0.01)
    for one, two in zip(grads, torch.autograd.grad(exact.loss, (hidden, weight)), strict=True):
        torch.testing.assert_close(one, two, rtol=0.05, atol=0.05)


def test_loss_of_improbable_target_is_finite():
    hidden, weight = torch.tensor([[1000.0]], requires_grad=True), torch.tensor([[1.0], [-1.0]])
    found = label_smoothed_cross_entropy(hidden, weight, torch.tensor([1]), 0.1)
    assert float(found.nll) == pytest.approx(2000.0)
    assert found.perplexity < math.inf


# --- The loss of classifiers: what it is made of, and that neither padding nor packing change ---


LENGTHS = [6, 1, 3, 9, 1, 12]
LABELS = np.array([2, 0, 1, 1, 0, 2])


def texts() -> Pairs:
    rng = np.random.default_rng(0)
    lines = Lines.of([rng.integers(20, VOCAB, n) for n in LENGTHS])
    return Pairs.of_sides(lines, lines, labels=LABELS)


def make(kind: str, **changes: object) -> Any:
    torch.manual_seed(0)
    config = model_config(head_dropout=0.0, **changes)
    n = 2 if config.head == "sigmoid" else 3
    model = EncoderModel(config, VOCAB, n) if kind == "encoder" else DecoderModel(config, VOCAB, n)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def learned(model: Any, batches: list[Any], lm_weight: float) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients, summed over batches."""
    model.zero_grad()
    sums = [classes_loss(model, batch, 0.1, lm_weight) for batch in batches]
    loss = sum((each.loss for each in sums), torch.zeros(()))
    loss.backward()  # type: ignore[no-untyped-call]
    assert sum(each.n_tokens for each in sums) == len(LENGTHS)
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_class_logits_of_padded_packed_and_single_texts_are_equal(kind: str, pooling: str, calls: list[object]) -> None:
    model, pairs, rows = make(kind, pooling=pooling), texts(), np.arange(len(LENGTHS))
    padded = class_logits(model, pairs.batch(rows))
    packed = class_logits(model, Packing(pairs, step=16).batch(rows))
    single = torch.cat([class_logits(model, pairs.batch(rows[i : i + 1])) for i in rows])
    assert padded.shape == (6, 3) and padded.std() > 0.01 and calls
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(single, padded, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("kind", "lm_weight"), [("encoder", 0.0), ("decoder", 0.5)])
def test_classes_loss_is_independent_of_batching_and_packing(kind: str, lm_weight: float, calls: list[object]) -> None:
    model, pairs, rows = make(kind), texts(), np.arange(len(LENGTHS))
    loss, grads = learned(model, [pairs.batch(rows)], lm_weight)
    parts = [pairs.batch(rows[:2]), pairs.batch(rows[2:])]
    for batches in (parts, [Packing(pairs, step=16).batch(rows)]):
        other, other_grads = learned(model, batches, lm_weight)
        torch.testing.assert_close(other, loss, atol=1e-4, rtol=1e-5)
        assert other_grads.keys() == grads.keys()
        for name, grad in grads.items():
            torch.testing.assert_close(other_grads[name], grad, atol=1e-4, rtol=1e-4, msg=name)
    assert calls


def test_classes_loss_adds_language_model_loss() -> None:
    """L3 = L2 + λ L1; without λ it is L2."""
    model, pairs = make("decoder"), texts()
    batch = pairs.batch(np.arange(len(LENGTHS)))
    logits = class_logits(model, batch)
    plain = torch.nn.functional.cross_entropy(logits, torch.from_numpy(LABELS), label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(classes_loss(model, batch, 0.1).loss, plain)
    of_text = torch.zeros(())
    for row in range(len(LENGTHS)):
        unlabelled = replace(pairs.batch(np.array([row])), labels=None)
        sums = cross_entropy(model, unlabelled, 0.0)
        of_text = of_text + sums.loss / (LENGTHS[row] + 1)
    sums = classes_loss(model, batch, 0.1, lm_weight=0.5)
    torch.testing.assert_close(sums.loss, plain + 0.5 * of_text, atol=1e-4, rtol=1e-5)
    assert sums.n_correct == (logits.argmax(-1).numpy() == LABELS).sum() and sums.n_tokens == len(LENGTHS)
    settings = TrainingConfig(objective="classification", classification=ClassificationConfig(lm_weight=0.5))
    torch.testing.assert_close(objective(model, batch, settings).loss, sums.loss)


@pytest.mark.parametrize("lm_weight", [0.0, 0.5])
def test_sigmoid_head_computes_binary_cross_entropy(lm_weight: float) -> None:
    model, pairs = make("decoder", head="sigmoid"), texts()
    assert model.head.classes.weight.shape == (1, 16)
    batch = pairs.batch(np.arange(len(LENGTHS)))
    labels = torch.tensor([1, 0, 1, 1, 0, 0])
    batch = replace(batch, labels=labels)
    layout, hidden = Padded(batch.tgt_mask), model(batch.src, None, batch.tgt_in, Padded(batch.tgt_mask))
    output = model.head.classes(pooled(hidden, layout, "mean"))[:, 0]
    logits = class_logits(model, batch)
    torch.testing.assert_close(logits.softmax(-1), torch.stack((1 - output.sigmoid(), output.sigmoid()), -1))
    smooth = 0.05 + 0.9 * labels  # 0.1 spread over both
    of_labels = F.binary_cross_entropy_with_logits(output, smooth, reduction="sum")
    of_text = classes_loss(model, batch, 0.1, lm_weight).loss - classes_loss(model, batch, 0.1).loss
    sums = classes_loss(model, batch, 0.1, lm_weight)
    torch.testing.assert_close(sums.loss, of_labels + of_text)
    torch.testing.assert_close(sums.nll, F.binary_cross_entropy_with_logits(output, labels.float(), reduction="sum"))
    assert sums.n_correct == ((output > 0) == labels.bool()).sum() and bool(of_text > 1) == bool(lm_weight)


def test_weighted_nll_gradient_equals_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.loss.block_rows", lambda *_: 3)
    torch.manual_seed(0)
    values = [torch.randn(7, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)]
    targets, weights = torch.tensor([0, 1, 2, 3, 4, 0, 1]), torch.rand(7)
    loss = 3 * weighted_nll(values[0], values[1], targets, weights)
    found = torch.autograd.grad(loss, values)
    nll = torch.nn.functional.cross_entropy(values[0] @ values[1].T, targets, reduction="none")
    plain = 3 * (nll * weights).sum()
    torch.testing.assert_close(loss, plain)
    for grad, expected in zip(found, torch.autograd.grad(plain, values), strict=True):
        torch.testing.assert_close(grad, expected)


def test_batch_has_labels_of_its_rows() -> None:
    batch = texts().batch(np.array([3, 0]))
    assert isinstance(batch, Batch) and batch.labels is not None and batch.labels.tolist() == [1, 2]
