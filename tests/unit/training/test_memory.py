"""The memory of training, by counting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from models import VOCAB, model_config
from nmt.data.rows import RowPacking
from nmt.model.transformer import Transformer
from nmt.training import memory
from nmt.training.loss import Forward, token_loss
from nmt.training.memory import activations, count_memory
from nmt.training.settings import TrainingConfig
from nmt.training.setup.inputs import freeze
from packed import pairs_of

CPU = torch.device("cpu")


@dataclass
class Counted:
    """The parts of the memory of a tiny model."""

    weights: float
    gradients: float
    optimizer: float
    in_pass: float


def counted(vocabulary: int = VOCAB, n_tokens: int = 1000, precision: str = "float32", **training: object) -> Counted:
    settings = TrainingConfig.model_validate(training)
    with torch.device("meta"):
        model = Transformer(model_config(), vocabulary, vocabulary)
    freeze(model, settings.freeze)
    return Counted(*count_memory(model_config(), settings, model, CPU, precision, n_tokens).values())


def test_weights_gradients_and_moments_are_counted_by_parameter():
    found = counted()
    n_bytes = 4 * Transformer(model_config(), VOCAB, VOCAB).n_parameters
    assert (found.weights, found.gradients, found.optimizer) == (n_bytes, n_bytes, 2 * n_bytes)
    assert counted(ema=0.9).weights == 3 * n_bytes  # with the average, and the model that validates it


def test_frozen_embeddings_have_neither_gradients_nor_moments():
    trained, frozen = counted(vocabulary=1000), counted(vocabulary=1000, freeze=["embeddings"])
    table = 4 * 1000 * 16
    assert trained.gradients - frozen.gradients == table
    assert trained.optimizer - frozen.optimizer == 2 * table
    assert trained.weights == frozen.weights
    assert trained.in_pass - frozen.in_pass == 2 * table


def test_activations_grow_linearly_with_tokens_and_passes():
    one, two, three = (counted(n_tokens=1000 * n).in_pass for n in (1, 2, 3))
    assert three - two == pytest.approx(two - one) and two > 1.8 * one
    both = counted(consistency="rdrop").in_pass
    fixed = 2 * 4 * VOCAB * 16  # gradient of the output layer
    assert both - fixed == pytest.approx(2 * (one - fixed))


def test_recomputation_and_half_precision_take_less():
    plain = counted()
    assert counted(recompute=True).in_pass < plain.in_pass / 2
    assert counted(precision="bf16").in_pass < 0.7 * plain.in_pass


def test_each_piece_of_the_vocabulary_takes_a_row_of_weights_gradients_and_moments():
    few, many = counted(vocabulary=100), counted(vocabulary=300)
    assert many.weights - few.weights == 4 * 200 * 16 and many.optimizer - few.optimizer == 2 * 4 * 200 * 16
    assert many.in_pass > few.in_pass


@pytest.mark.parametrize(
    "changes",
    [
        {"residual_dropout": 0.1, "embedding_dropout": 0.1},
        {
            "norm": "post",
            "activation": "gelu",
            "residual_dropout": 0.1,
            "attention_dropout": 0.1,
            "activation_dropout": 0.1,
        },
    ],
)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_counted_activations_are_those_that_autograd_keeps(changes, precision):
    config = model_config(**{"d_model": 64, "d_ff": 256, **changes})
    model = Transformer(config, VOCAB, VOCAB)
    batch = RowPacking(pairs_of([60] * 20, [60] * 20)).batch(np.arange(20))
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor  # whose address is not given to another
        return tensor

    def forward(*inputs: object) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            hidden: torch.Tensor = model(*inputs)
        return hidden

    run: Forward = forward
    with torch.autocast("cpu", enabled=precision == "bf16"):
        token_loss(model, batch, TrainingConfig(), run)
    n_bytes = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    width = {"float32": 4, "bf16": 2}[precision]
    assert activations(config, False, width, is_cpu=True) * batch.src.numel() == pytest.approx(n_bytes, rel=0.2)


def test_gpus_keep_no_attention_weights():
    on_cpu, on_gpu = (activations(model_config(), False, 4, is_cpu) for is_cpu in (True, False))
    n_attentions = 2 + 4
    assert on_cpu - on_gpu == n_attentions * 4 * 2 * memory.ROW_LENGTH
