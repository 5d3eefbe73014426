"""Packed batches: their content, and training equal to padded batches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models import loss_and_gradients, model_config, tiny_model
from nmt.data.batching import Packing
from nmt.data.rows import RowPacking
from nmt.model.masks import packing_obstacle
from nmt.model.transformer import Transformer
from nmt.text.ids import BOS, EOS, PAD
from nmt.training.loss import cross_entropy, scored
from packed import SRC, TGT, pairs_of

CPU = torch.device("cpu")


def learned(model: Transformer, batch: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return loss and gradients per token."""
    sums = cross_entropy(model, batch, 0.1)
    assert sums.n_tokens == sum(TGT) + len(TGT)
    return loss_and_gradients(model, sums.loss / sums.n_tokens)


def assert_equal(found: object, expected: object) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("step", [1, 4, 64])
def test_packed_batch_has_same_tokens(step):
    pairs = pairs_of(SRC, TGT)
    rows = np.array([5, 0, 3, 1])
    padded, batch = pairs.batch(rows), Packing(pairs, step).batch(rows)
    n = batch.n_tokens
    packed = batch.src[0, : int(padded.src_mask.sum())], batch.tgt_in[0, :n], batch.tgt_out[0, :n]
    sides = padded.src[padded.src_mask], padded.tgt_in[padded.tgt_mask], padded.tgt_out[padded.tgt_mask]
    assert [ids.tolist() for ids in packed] == [ids.tolist() for ids in sides]
    assert (batch.tgt_in[0] == BOS).tolist() == (batch.tgt_positions == 0).tolist()
    assert batch.src[0, batch.src_bounds[1:5].long() - 1].tolist() == [EOS] * 4
    assert not batch.src.numel() % step and not batch.tgt_out.numel() % step
    assert len(batch.src_bounds) == len(batch.tgt_bounds) and not len(batch.src_bounds) % step
    for bounds, ids in ((batch.src_bounds, batch.src), (batch.tgt_bounds, batch.tgt_in)):
        lengths = bounds.diff()
        assert bounds[0] == 0 and bounds[-1] == ids.numel() and 0 < lengths[4] <= step and lengths[5:].sum() == 0
        assert lengths.min() >= 0 and lengths.max() <= batch.max_len
        assert (ids[0, bounds[4] + 1 :] == PAD).all()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60), st.integers(1, 100))
def test_packed_split_keeps_order_and_budget(lengths, max_tokens):
    pairs = pairs_of(*map(list, zip(*lengths, strict=True)))
    rows = np.random.default_rng(0).permutation(len(lengths))
    batches = list(Packing(pairs).split(rows, max_tokens))
    assert np.concatenate(batches).tolist() == rows.tolist()

    def tokens(rows) -> int:
        return max(int(side[rows].sum()) for side in (pairs.lengths.src, pairs.lengths.tgt))

    assert all(len(batch) == 1 or tokens(batch) <= max_tokens for batch in batches)
    for batch, after in itertools.pairwise(batches):  # no batch is cut short
        assert tokens([*batch, after[0]]) > max_tokens


@pytest.mark.parametrize("step", [1, 4, 64])
@pytest.mark.parametrize(
    "variant",
    [
        {"norm": "pre", "tie_embeddings": "all"},
        {"norm": "post", "tie_embeddings": "none", "positions": "learned", "max_positions": 64},
    ],
)
def test_packed_and_padded_batches_have_equal_losses_and_gradients(variant, step):
    pairs, rows, model = pairs_of(SRC, TGT), np.arange(6), tiny_model(**variant)
    found = learned(model, Packing(pairs, step).batch(rows))
    assert_equal(found, learned(model, pairs.batch(rows)))
    assert all(grad.isfinite().all() for grad in found[1].values())


def test_packed_tail_has_no_loss():
    """The embedding of the tail may even be NaN, and gets no gradient."""
    pairs, rows, model = pairs_of(SRC, TGT), np.arange(6), tiny_model(tie_embeddings="none")
    batch = Packing(pairs).batch(rows)
    expected = learned(model, batch)
    embeddings = model.encoder.embedding.weight, model.decoder.embedding.weight
    with torch.no_grad():
        for weight in embeddings:
            weight[PAD] = 99.0
    assert_equal(learned(model, batch), expected)
    assert all(weight.grad is not None and not weight.grad[PAD].any() for weight in embeddings)
    with torch.no_grad():
        for weight in embeddings:
            weight[PAD] = torch.nan
    assert float(cross_entropy(model, batch, 0.1).loss.detach()) / batch.n_tokens == pytest.approx(float(expected[0]))


@pytest.mark.parametrize("layout", [lambda pairs: pairs, lambda pairs: Packing(pairs, 4), RowPacking])
def test_tokens_in_the_loss_have_the_numbers_of_their_sentences(layout):
    pairs, rows = pairs_of(SRC, TGT), np.array([5, 0, 3, 1])
    batch = layout(pairs).batch(rows)
    numbers, targets = scored(batch, batch.tgt_layout.numbers), scored(batch, batch.tgt_out)
    assert [targets[numbers == i].tolist() for i in range(4)] == [[*ids, EOS] for ids in pairs.lines(rows)[1]]
    assert len(numbers) == batch.n_tokens


# --- Attention kernel, replaced by a plain implementation ---


def test_attention_kernel_receives_expected_arguments(calls):
    pairs, rows, model = pairs_of(SRC, TGT), np.arange(6), tiny_model()
    batch = Packing(pairs, step=4).batch(rows)
    found = learned(model, batch)
    both_ways = {"causal": False, "dtype": torch.float32}
    back = {"causal": True, "dtype": torch.float32}
    assert calls == [both_ways, both_ways, *[back, both_ways] * 2]  # two layers of the encoder, two of the decoder
    assert_equal(found, learned(model, pairs.batch(rows)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = cross_entropy(model, batch, 0.1).loss.detach() / batch.n_tokens
    assert calls[-1]["dtype"] == torch.bfloat16 and abs(float(rough) - float(found[0])) < 0.1


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ((CPU, "bf16", 128, 0.0), None),
        ((CPU, "float32", 5, 0.0), None),
        ((CPU, "bf16", 128, 0.1), "attention_dropout has to be 0"),
        ((torch.device("cuda"), "float32", 128, 0.0), "precision has to be bf16 or fp16"),
        ((torch.device("cuda"), "bf16", 20, 0.0), "head width 20"),
        ((torch.device("cuda"), "bf16", 512, 0.0), "head width 512"),
        ((torch.device("cuda"), "fp16", 64, 0.0), "no flash attention"),
    ],
)
def test_unmet_packing_requirements_are_reported(monkeypatch, where, reason):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    device, precision, head_width, dropout = where
    model = model_config(d_model=2 * head_width, n_heads=2, attention_dropout=dropout)
    found = packing_obstacle(device, precision, model)
    assert (found is None) == (reason is None) and (reason or "") in (found or "")
