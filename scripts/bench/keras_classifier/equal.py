"""Give our encoder and head the weights of the Keras classifier, and print the difference of their probabilities.

Settings remove all other differences: positions are zeros, the output projection is the identity, biases of attention
are zeros, all places of a row count as tokens, the norm's epsilon is that of Keras, and the embedding is divided by the
square root of the width. Two logits, zero and Keras's, stand for its one.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import keras
import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.masks import Padded
from nmt.model.stacks import EncoderModel
from scripts.bench.keras_classifier.layers import PADDING, LayerNormalization, Shape, classifier

LIMIT = 1e-5
SHAPES = ((32, 80), (1, 5), (7, 23), (32, 200), (64, 12))
"""Sequences and length of the batches."""


def config_of(shape: Shape) -> ModelConfig:
    """The settings of the same model."""
    return ModelConfig(
        kind="encoder",
        d_model=shape.width,
        n_heads=shape.heads,
        d_ff=shape.ff_dim,
        encoder_layers=1,
        norm="post",
        positions="learned",
        max_positions=max(length for _, length in SHAPES),
    )


@torch.no_grad()
def copy_weights(keras_model: Any, ours: EncoderModel) -> None:
    """Give ours the weights of a Keras classifier with a block and one output."""
    embedding, layer = ours.encoder.embedding, ours.encoder.layers[0]
    block, last = keras_model.get_layer("block"), keras_model.get_layer("classes")
    ours_positions, head = embedding.positions, ours.head
    assert isinstance(ours_positions, nn.Module) and head is not None
    embedding.weight.copy_(value(keras_model.get_layer("embedding").embeddings) / embedding.scale)
    for zeros in (*ours_positions.parameters(), layer.attention.in_bias, layer.attention.output.bias):
        zeros.zero_()
    parts = (block.attention.query, block.attention.key, block.attention.value)
    layer.attention.in_weight.copy_(torch.cat([value(part).T for part in parts]))
    layer.attention.output.weight.copy_(torch.eye(layer.attention.d_model))
    for linear, dense in ((layer.feed_forward.inner, block.inner), (layer.feed_forward.outer, block.outer)):
        linear.weight.copy_(value(dense.kernel).T)
        linear.bias.copy_(value(dense.bias))
    norms = ((layer.attention_residual.norm, block.norm1), (layer.feed_forward_residual.norm, block.norm2))
    for norm, theirs in norms:
        copy_norm(norm, theirs)
    head.classes.weight.zero_()
    head.classes.bias.zero_()
    head.classes.weight[1] = value(last.kernel)[:, 0]
    head.classes.bias[1] = value(last.bias)[0]


def copy_norm(norm: nn.LayerNorm, theirs: LayerNormalization) -> None:
    """Copy gain, bias and epsilon."""
    norm.weight.copy_(value(theirs.gamma))
    norm.bias.copy_(value(theirs.beta))
    norm.eps = theirs.epsilon


def value(variable: Any) -> Tensor:
    """Return the numbers of a Keras variable."""
    tensor: Tensor = keras.ops.convert_to_tensor(variable).detach()
    return tensor


def disturb(keras_model: Any, generator: torch.Generator) -> None:
    """Move all weights away from their initial values: many of those are zeros and ones, which hide mistakes."""
    for weight in keras_model.weights:
        weight.assign(value(weight) + torch.randn(weight.shape, generator=generator) * 0.3)


@torch.no_grad()
def difference(keras_model: Any, ours: EncoderModel, ids: Tensor) -> float:
    """Return the largest difference between the probabilities of the sequences ids (B, S)."""
    assert ours.head is not None
    layout = Padded(torch.ones_like(ids, dtype=torch.bool))
    probabilities = ours.head(ours(ids, layout, ids, layout), layout).softmax(-1)[:, 1]
    return float((probabilities - value(keras_model(ids, training=False))[:, 0]).abs().max())


def batch(shape: Shape, n: int, length: int, generator: torch.Generator) -> Tensor:
    """Return random sequences (B, S) of every length up to the longest, with padding in front, as Keras has it."""
    ids = torch.randint(1, shape.vocabulary, (n, length), generator=generator)
    lengths = torch.randint(1, length + 1, (n, 1), generator=generator)
    return ids.where(torch.arange(length) >= length - lengths, torch.tensor(PADDING))


def main() -> int:
    """Compare in several batches."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    keras.utils.set_random_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    shape = Shape()
    keras_model = classifier(shape, 2)
    ours = EncoderModel(config_of(shape), shape.vocabulary, 2).eval()
    disturb(keras_model, generator)
    copy_weights(keras_model, ours)
    differences = []
    for n, length in SHAPES:
        ids = batch(shape, n, length, generator)
        differences.append(difference(keras_model, ours, ids))
        spread = float(value(keras_model(ids, training=False)).std(correction=0))
        print(f"{n} x {length}: largest difference {differences[-1]:.1e} (s.d. of the probabilities {spread:.2f})")
    print(f"largest difference {max(differences):.1e}, allowed {LIMIT:.0e}")
    return int(not max(differences) <= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
