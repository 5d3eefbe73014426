"""Layers that are computed again in the backward pass give the same gradients, and keep less for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from models import VOCAB, loss_and_gradients, model_config
from nmt.data.batching import Packing
from nmt.data.rows import AnyBatch, RowPacking
from nmt.model.device import autocast
from nmt.model.transformer import DecoderModel, EncoderModel, Model, Transformer
from nmt.training.loss import token_loss
from nmt.training.objectives.translation import one_sequence
from nmt.training.settings import TrainingConfig
from packed import pairs_of

ALL_DROPOUT = {
    "embedding_dropout": 0.2, "residual_dropout": 0.2, "attention_dropout": 0.2, "activation_dropout": 0.2,
}  # fmt: skip
SRC, TGT = [9, 4, 7, 30], [5, 8, 12, 20]


def models(**changes: object) -> dict[str, tuple[Model, AnyBatch]]:
    """Return a model of each kind with dropout, and a batch for it."""
    torch.manual_seed(0)
    config = model_config(**ALL_DROPOUT | changes)
    pairs, rows = pairs_of(SRC, TGT), np.arange(len(SRC))
    batch = RowPacking(pairs).batch(rows)
    joined = RowPacking(one_sequence(pairs, rows, 0)).batch(rows)
    lines = RowPacking(pairs_of(TGT, TGT)).batch(rows)
    return {
        "translation": (Transformer(config, VOCAB, VOCAB), batch),
        "encoder": (EncoderModel(config, VOCAB), lines),
        "decoder": (DecoderModel(config, VOCAB), lines),
        "joined": (DecoderModel(config, VOCAB, sees_source=True), joined),
    }


def learned(
    model: Model, batch: AnyBatch, settings: TrainingConfig, precision: str
) -> tuple[dict[str, torch.Tensor], int, int]:
    """Return the loss and gradients by name, the bytes kept for the backward pass, and the next random number."""
    for stack in model.stacks:
        stack.recomputes = settings.recompute
    torch.manual_seed(3)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    keeping = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with keeping, autocast(precision, torch.device("cpu")):
        loss = token_loss(model, batch, settings).loss
    loss, gradients = loss_and_gradients(model, loss)
    return {"loss": loss, **gradients}, sum(kept.values()), int(torch.randint(2**62, ()))


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("consistency", ["none", "rdrop", "simcut"])
@pytest.mark.parametrize("kind", ["translation", "encoder", "decoder", "joined"])
def test_gradients_of_recomputed_layers_are_equal_to_the_last_bit(kind, consistency, precision):
    model, batch = models()[kind]
    plain, again = (
        learned(model, batch, TrainingConfig(consistency=consistency, recompute=recompute), precision)
        for recompute in (False, True)
    )
    assert plain[0].keys() == again[0].keys() > {"loss"}
    assert all(torch.equal(tensor, again[0][name]) for name, tensor in plain[0].items())
    assert again[1] < plain[1] / 2
    assert again[2] == plain[2]  # later dropout draws the same numbers, too


def test_gradients_of_recomputed_layers_are_equal_with_post_norm_and_packed_sentences():
    changes = {"norm": "post", "activation": "gelu", "attention_dropout": 0.0}
    model, _ = models(**changes)["translation"]
    batch = Packing(pairs_of(SRC, TGT), 16).batch(np.arange(len(SRC)))
    plain, again = (learned(model, batch, TrainingConfig(recompute=way), "float32")[0] for way in (False, True))
    assert all(torch.equal(tensor, again[name]) for name, tensor in plain.items())


def test_dropout_differs_between_the_layers_that_are_recomputed():
    """Otherwise equal gradients would say nothing about random numbers."""
    model, batch = models()["translation"]
    first, second = (
        learned(model, batch, TrainingConfig(recompute=True, consistency=c), "float32")[0] for c in ("none", "rdrop")
    )
    assert not torch.equal(second["loss"], 2 * first["loss"])
