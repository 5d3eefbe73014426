"""R-Drop and SimCut against their formulas, written out with PyTorch's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models import loss_and_gradients, tiny_model
from nmt.data.batching import Packing
from nmt.data.rows import RowPacking
from nmt.model.masks import Padded
from nmt.model.transformer import Transformer
from nmt.text.ids import EOS
from nmt.training import loss as loss_module
from nmt.training.loss import ConsistencyWeights, cross_entropy, fused_loss, token_loss
from nmt.training.settings import TrainingConfig
from packed import SRC, TGT, pairs_of

ROWS = np.arange(len(SRC))
WEIGHTS = [ConsistencyWeights(1.7, 0.0, 0.0), ConsistencyWeights(2.5, 2.5, 1.0), ConsistencyWeights(0.7, 1.1, 0.3)]


def by_hand(first: Tensor, second: Tensor, weight: Tensor, targets: Tensor, how: ConsistencyWeights) -> Tensor:
    """Compute the formula with nothing detached."""
    p, q = ((hidden @ weight.T).log_softmax(-1) for hidden in (first, second))
    entropy = [F.cross_entropy(each, targets, label_smoothing=0.1, reduction="sum") for each in (p, q)]
    p_to_q, q_to_p = (F.kl_div(b, a, log_target=True, reduction="sum") for a, b in ((p, q), (q, p)))
    return entropy[0] + how.second * entropy[1] + how.p_to_q * p_to_q + how.q_to_p * q_to_p


def two_passes() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    first, noise, weight = (torch.randn(n, 5, dtype=torch.float64, generator=generator) for n in (12, 12, 30))
    leaves = first, first + 0.3 * noise, weight
    first, second, weight = (each.clone().requires_grad_() for each in leaves)
    return first, second, weight, torch.randint(0, 30, (12,), generator=generator)


@pytest.mark.parametrize("how", WEIGHTS)
@pytest.mark.parametrize("rows", [1, 5, 100])
def test_consistency_loss_and_gradients_equal_formula(how, rows, monkeypatch):
    first, second, weight, targets = two_passes()
    monkeypatch.setitem(loss_module.BLOCK_ELEMENTS, "cpu", rows * len(weight))
    found = fused_loss((first, second), weight, targets, 0.1, how)
    grads = torch.autograd.grad(found.loss * 0.25, (first, second, weight))
    expected = by_hand(first, second, weight, targets, how)
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(grads, torch.autograd.grad(expected * 0.25, (first, second, weight)))


def test_consistency_loss_in_half_precision_is_close():
    first, second, weight, targets = (each.detach() for each in two_passes())
    leaves = [each.float().requires_grad_() for each in (first, second, weight)]
    for how in WEIGHTS:
        expected = by_hand(*leaves, targets, how)
        exact = torch.autograd.grad(expected, leaves)
        with torch.autocast("cpu", torch.bfloat16):
            found = fused_loss((leaves[0], leaves[1]), leaves[2], targets, 0.1, how)
        torch.testing.assert_close(found.loss, expected, rtol=2e-2, atol=0.0)
        for one, two in zip(torch.autograd.grad(found.loss, leaves), exact, strict=True):
            assert F.cosine_similarity(one.flatten(), two.flatten(), dim=0) > 0.999


def test_consistency_token_counts_come_from_first_pass():
    first, second, weight, targets = two_passes()
    found = fused_loss((first, second), weight, targets, 0.1, WEIGHTS[1])
    p, q = ((hidden @ weight.T).log_softmax(-1).detach() for hidden in (first, second))
    assert found.n_tokens == 12 and int(found.n_correct) == int((p.argmax(-1) == targets).sum())
    assert float(found.nll) == pytest.approx(float(F.nll_loss(p, targets, reduction="sum")))
    both = (p.exp() * (p - q)).sum() + (q.exp() * (q - p)).sum()
    assert float(found.divergence) == pytest.approx(float(both) / 2)


def learned(model: Transformer, batch: Any, how: TrainingConfig) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(3)
    return loss_and_gradients(model, token_loss(model, batch, how).loss)


@pytest.mark.parametrize("kind", ["rdrop", "simcut"])
def test_consistency_weight_0_is_plain_cross_entropy(kind):
    model, batch = tiny_model(residual_dropout=0.3), pairs_of(SRC, TGT).batch(ROWS)
    found = learned(model, batch, TrainingConfig(consistency=kind, consistency_weight=0.0))
    torch.testing.assert_close(found, learned(model, batch, TrainingConfig()), rtol=0.0, atol=0.0)


def test_rdrop_makes_two_passes_with_different_dropout():
    model, batch = tiny_model(residual_dropout=0.3), pairs_of(SRC, TGT).batch(ROWS)
    torch.manual_seed(3)
    layouts = Padded(batch.src_mask), Padded(batch.tgt_mask)
    hidden = [model(batch.src, layouts[0], batch.tgt_in, layouts[1]) for _ in range(2)]
    passes = [states.flatten(0, 1)[batch.token_indices] for states in hidden]
    targets = batch.tgt_out.flatten()[batch.token_indices]
    expected = by_hand(*passes, model.output_weight, targets, ConsistencyWeights(2.5, 2.5, 1.0))
    assert not torch.equal(*passes)
    found, _ = learned(model, batch, TrainingConfig(consistency="rdrop", consistency_weight=5.0))
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("is_packed", [False, True])
def test_rdrop_without_dropout_is_twice_the_cross_entropy(is_packed):
    model, pairs = tiny_model(), pairs_of(SRC, TGT)
    batch = Packing(pairs, step=4).batch(ROWS) if is_packed else pairs.batch(ROWS)
    found, _ = learned(model, batch, TrainingConfig(consistency="rdrop"))
    torch.testing.assert_close(found, 2 * cross_entropy(model, batch, 0.1).loss.detach(), rtol=1e-5, atol=0.0)


class Watch:
    """Stands for a model, and keeps what the second pass is to leave out."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.kept = model, list[tuple[Tensor | None, Tensor | None]]()

    def __call__(self, src: Any, src_layout: Any, tgt: Any, tgt_layout: Any) -> Tensor:
        self.kept.append((src_layout.kept, tgt_layout.kept))
        hidden: Tensor = self.model(src, src_layout, tgt, tgt_layout)
        return hidden


@pytest.mark.parametrize("is_packed", [False, True])
def test_simcut_cuts_tokens_of_both_sides_in_second_pass(is_packed):
    model, pairs = tiny_model(), pairs_of(SRC, TGT)
    batch = Packing(pairs, step=4).batch(ROWS) if is_packed else pairs.batch(ROWS)
    watch = Watch(model)
    found = token_loss(model, batch, TrainingConfig(consistency="simcut", cut_rate=0.3), watch)
    (none, nothing), (src_kept, tgt_kept) = watch.kept
    assert none is nothing is None and src_kept is not None and tgt_kept is not None
    assert src_kept.shape == batch.src.shape and tgt_kept.shape == batch.tgt_in.shape
    assert src_kept[batch.src == EOS].all() and not src_kept.all() and not tgt_kept.all()
    plain = cross_entropy(model, batch, 0.1)
    assert float(found.divergence) > 0 and torch.equal(found.nll, plain.nll)
    torch.testing.assert_close(found.loss.detach(), (plain.loss + 3 * found.divergence).detach(), rtol=1e-5, atol=0.0)


def test_cut_token_keeps_its_position():
    embedding = tiny_model().encoder.embedding
    ids, positions = torch.tensor([[21, 22, 23]]), torch.arange(3)
    kept = torch.tensor([[True, False, True]])
    found = embedding(ids, positions, 3, kept)[0]
    whole = embedding(ids, positions, 3)[0]
    assert torch.equal(found[[0, 2]], whole[[0, 2]])
    assert torch.equal(found[1], embedding.positions(positions, 3)[1])


def test_crossconst_translates_targets_into_themselves():
    model, batch = tiny_model(), RowPacking(pairs_of(SRC, TGT), copies=True).batch(ROWS)
    sources = batch, batch.from_target()
    hidden = [model(each.src, each.src_layout, batch.tgt_in, batch.tgt_layout) for each in sources]
    passes = [states.flatten(0, 1)[batch.token_indices] for states in hidden]
    targets = batch.tgt_out.flatten()[batch.token_indices]
    expected = by_hand(*passes, model.output_weight, targets, ConsistencyWeights(0.25, 0.0, 0.0))
    _, expected_grads = loss_and_gradients(model, expected)
    assert TrainingConfig(consistency="crossconst", consistency_weight=1.0).consistency_weight == 1
    found, grads = learned(model, batch, TrainingConfig(consistency="crossconst"))
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=0.0)
    torch.testing.assert_close(grads, expected_grads, rtol=1e-3, atol=1e-5)
