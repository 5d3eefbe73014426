"""Conversion to CTranslate2's format: the same weights under other names, optionally quantized."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.engine.bindings import library
from nmt.model.attention import MultiHeadAttention
from nmt.model.embedding import Embedding
from nmt.model.transformer import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward, SubLayer, Transformer
from nmt.runs.folder import Quantization

if TYPE_CHECKING:
    from ctranslate2.specs import attention_spec, common_spec, transformer_spec


def save_ctranslate2(
    model: Transformer,
    config: ModelConfig,
    n_positions: int,
    vocabularies: tuple[Sequence[str], Sequence[str]],
    quantization: Quantization,
    directory: Path,
) -> None:
    """Write model.bin and the files that CTranslate2 reads with it.

    n_positions: the longest sequence, with sinusoidal positions. vocabularies: the pieces of source and target.
    CTranslate2 adds `</s>` to sources itself. Raises ConfigError if the package is not installed, and OSError.
    """
    library()
    from ctranslate2.specs import common_spec, transformer_spec

    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.n_heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation[ACTIVATIONS[config.activation].ctranslate2],
    )
    encoder, decoder = model.encoder, model.decoder
    _embedding(spec.encoder.embeddings[0], spec.encoder.position_encodings, encoder.embedding, n_positions)
    _embedding(spec.decoder.embeddings, spec.decoder.position_encodings, decoder.embedding, n_positions)
    for of_spec, encoder_layer in zip(spec.encoder.layer, encoder.layers, strict=True):
        _layer(of_spec, encoder_layer)
    for of_spec, layer in zip(spec.decoder.layer, decoder.layers, strict=True):
        _layer(of_spec, layer)
        assert layer.cross_attention is not None, "a translator attends to its source"
        _attention(of_spec.attention, layer.cross_attention, layer.cross_attention_residual)
    if config.norm == "pre":
        _norm(spec.encoder.layer_norm, encoder.last_norm)
        _norm(spec.decoder.layer_norm, decoder.last_norm)
    spec.decoder.projection.weight = _array(model.output_weight)
    source, target = vocabularies
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = encoder.layers[0].attention_residual.norm.eps
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(directory))


def _embedding(
    spec: common_spec.EmbeddingsSpec,
    positions: transformer_spec.PositionEncoderSpec,
    embedding: Embedding,
    n_positions: int,
) -> None:
    """Set embeddings and positions: both engines scale by sqrt(D), but their sinusoidal positions differ."""
    spec.weight = _array(embedding.weight)
    positions.encodings = _array(embedding.positions.first(n_positions))


def _layer(
    spec: transformer_spec.TransformerEncoderLayerSpec | transformer_spec.TransformerDecoderLayerSpec,
    layer: EncoderLayer | DecoderLayer,
) -> None:
    """Set the parts that layers of encoder and decoder share."""
    _attention(spec.self_attention, layer.attention, layer.attention_residual)
    _feed_forward(spec.ffn, layer.feed_forward, layer.feed_forward_residual)


def _attention(spec: attention_spec.MultiHeadAttentionSpec, attention: MultiHeadAttention, residual: SubLayer) -> None:
    """Set attention: query, key and value share one projection, but in cross-attention the query has its own."""
    d = attention.d_model
    parts = [slice(None)] if len(spec.linear) == 2 else [slice(d), slice(d, None)]
    for linear, part in zip(spec.linear, parts, strict=False):
        linear.weight, linear.bias = _array(attention.in_weight[part]), _array(attention.in_bias[part])
    _linear(spec.linear[-1], attention.output)
    _norm(spec.layer_norm, residual.norm)


def _feed_forward(spec: transformer_spec.FeedForwardSpec, feed_forward: FeedForward, residual: SubLayer) -> None:
    _linear(spec.linear_0, feed_forward.inner)
    _linear(spec.linear_1, feed_forward.outer)
    _norm(spec.layer_norm, residual.norm)


def _linear(spec: common_spec.LinearSpec, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _norm(spec: common_spec.LayerNormSpec, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    """Return a float32 copy, which quantization may overwrite."""
    return np.array(tensor.detach().float().cpu().numpy())
