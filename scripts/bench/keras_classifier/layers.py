"""The classifier of the tutorial: tokens without positions, one block, the mean over all places including padding.

Legend: B sequences, S length, D width, H heads, E size per head, K size per head of queries and keys, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

PADDING = 0


@dataclass(frozen=True)
class Shape:
    """Sizes and dropout. The default ones are those of the tutorial."""

    vocabulary: int = 20_000
    width: int = 128
    heads: int = 8
    size_per_head: int = 16
    ff_dim: int = 128
    rate: float = 0.1
    head_rate: float = 0.5


class MultiHeadAttention(keras.layers.Layer):  # type: ignore[misc]
    """Self-attention: query, key and value without bias, no output projection, no mask."""

    def __init__(self, heads: int, size_per_head: int, key_size: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.heads, self.size_per_head, self.key_size = heads, size_per_head, key_size or size_per_head

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the weights for inputs (B, S, D)."""
        for name, size in (("query", self.key_size), ("key", self.key_size), ("value", self.size_per_head)):
            weight = self.add_weight(
                name=name, shape=(shape[-1], self.heads * size), initializer="glorot_uniform", trainable=True
            )
            setattr(self, name, weight)

    def call(self, x: Any) -> Any:
        """Attend: (B, S, D) -> (B, S, H * E)."""
        query, key, value = (self.split(ops.matmul(x, weight)) for weight in (self.query, self.key, self.value))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) / self.key_size**0.5  # (B, H, S, S)
        attended = ops.transpose(ops.matmul(ops.softmax(scores, axis=-1), value), (0, 2, 1, 3))
        return ops.reshape(attended, (-1, ops.shape(x)[1], self.heads * self.size_per_head))

    def split(self, projected: Any) -> Any:
        """Return the heads of (B, S, H * E) apart: (B, H, S, E)."""
        _, length, size = ops.shape(projected)
        return ops.transpose(ops.reshape(projected, (-1, length, self.heads, size // self.heads)), (0, 2, 1, 3))


class LayerNormalization(keras.layers.Layer):  # type: ignore[misc]
    """Layer norm over the last axis."""

    def __init__(self, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(**options)
        self.epsilon = epsilon

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make gain and bias for inputs (..., D)."""
        self.gamma = self.add_weight(name="gamma", shape=shape[-1:], initializer="ones", trainable=True)
        self.beta = self.add_weight(name="beta", shape=shape[-1:], initializer="zeros", trainable=True)

    def call(self, x: Any) -> Any:
        """Normalize: (..., D) -> (..., D)."""
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        return centred * ops.rsqrt(variance + self.epsilon) * self.gamma + self.beta


class TransformerBlock(keras.layers.Layer):  # type: ignore[misc]
    """Attention and a feed-forward layer with ReLU, each with dropout, residual connection and norm (post-norm)."""

    def __init__(self, heads: int, size_per_head: int, ff_dim: int, rate: float = 0.1, **options: Any) -> None:
        super().__init__(**options)
        self.attention = MultiHeadAttention(heads, size_per_head)
        self.inner = keras.layers.Dense(ff_dim, activation="relu")
        self.outer = keras.layers.Dense(heads * size_per_head)
        self.norm1, self.norm2 = LayerNormalization(), LayerNormalization()
        self.dropout1, self.dropout2 = keras.layers.Dropout(rate), keras.layers.Dropout(rate)

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the weights of the parts for inputs (B, S, D)."""
        for part in (self.attention, self.inner, self.norm1, self.norm2):
            part.build(shape)
        self.outer.build((*shape[:-1], self.inner.units))

    def call(self, x: Any, training: bool = False) -> Any:
        """Apply the block: (B, S, D) -> (B, S, D)."""
        x = self.norm1(x + self.dropout1(self.attention(x), training=training))
        return self.norm2(x + self.dropout2(self.outer(self.inner(x)), training=training))


def classifier(shape: Shape, n_classes: int) -> Any:
    """Return a model of ids (B, S): the probability (B, 1) of the second of two classes, or those (B, C) of more."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(shape.vocabulary, shape.width, name="embedding")(ids)
    x = TransformerBlock(shape.heads, shape.size_per_head, shape.ff_dim, shape.rate, name="block")(x)
    x = keras.layers.Dropout(shape.head_rate)(keras.layers.GlobalAveragePooling1D()(x))
    last = {"units": 1, "activation": "sigmoid"} if n_classes == 2 else {"units": n_classes, "activation": "softmax"}
    return keras.Model(ids, keras.layers.Dense(name="classes", **last)(x))
