"""Half-precision copies of the weights yield the same gradients as autocast."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from models import tiny_model
from nmt.model.device import Halves, autocast
from nmt.model.transformer import Transformer
from nmt.training.loss import token_loss
from nmt.training.settings import TrainingConfig
from packed import SRC, TGT, pairs_of

MICRO_BATCHES = (np.arange(4), np.arange(4, len(SRC)))


def learn(model: Transformer, settings: TrainingConfig, halves: Halves | None) -> list[torch.Tensor | None]:
    """Return the gradients of an update of two micro-batches."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    if halves is not None:
        halves.refresh()
    for rows in MICRO_BATCHES:
        with autocast("bf16", torch.device("cpu")):
            sums = token_loss(model, pairs_of(SRC, TGT).batch(rows), settings, halves and halves.twin)
        sums.loss.backward()
        if halves is not None:
            halves.collect()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("consistency", ["none", "rdrop", "simcut"])
def test_half_precision_gradients_equal_autocast(consistency):
    model, settings = tiny_model(residual_dropout=0.1), TrainingConfig(consistency=consistency, cut_rate=0.3)
    model.encoder.layers[0].feed_forward.inner.weight.requires_grad_(False)
    halves = Halves(model, "bf16")
    for _ in range(2):
        expected, found = learn(model, settings, None), learn(model, settings, halves)
        for one, two in zip(expected, found, strict=True):
            assert (one is None) == (two is None)
            # two passes: their gradients are added in half precision, as autocast adds most
            atol = 0 if consistency == "none" else 0.02
            torch.testing.assert_close(two, one, atol=atol, rtol=atol)
        assert sum(grad is None for grad in found) == 1
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))


def test_half_precision_copies_share_other_weights():
    model = tiny_model()
    twin = Halves(model, "bf16").twin
    assert twin.decoder.norm.weight is model.decoder.norm.weight and twin.output_weight is model.output_weight
    assert twin.decoder.layers[0].cross_attention.in_weight.dtype == torch.bfloat16
    assert model.decoder.layers[0].cross_attention.in_weight.dtype == torch.float32
