"""A trained model prepared for search: the same function as `Transformer` or `DecoderModel`, in fewer and larger
operations.

Weights are cast, joined and laid out once, nothing is recorded for a backward pass, and one decoding step takes one
position of every hypothesis. Hidden states stay float32; matrix products are in the precision chosen.

Legend: B sentences, S source length, M hypotheses of a sentence, L = S or M, D width, V vocabulary, H heads, E = D / H,
K keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.attention import MultiHeadAttention
from nmt.model.embedding import Embedding
from nmt.model.products import DTYPES, Product, product
from nmt.model.stacks import DecodingModel
from nmt.model.state import Cache, DecoderState, KeyValue, Slots, attention_bias
from nmt.model.transformer import DecoderLayer, Encoder, EncoderLayer, FeedForward, SubLayer, Transformer

_READ = re.compile(
    r"output|(encoder|decoder)\.(embedding\.(weight|positions\.weight)|norm\.\w+|layers\.\d+\."
    r"((cross_)?attention\.(in_weight|in_bias|output\.\w+)|feed_forward\.(inner|outer)\.\w+|\w+_residual\.norm\.\w+))"
)
"""The parameters that search computes with."""


class InferenceModel:
    """Encodes sentences, if the model has an encoder, and decodes step by step."""

    def __init__(self, model: DecodingModel, precision: str) -> None:
        """Prepare the weights of a model as they are now, in float32, bf16 or fp16, where they are.

        Raises NotImplementedError if the model has parameters that are not used here: search, and the exports after it,
        would compute another model than was trained.
        """
        if unread := [name for name, _ in model.named_parameters() if not _READ.fullmatch(name)]:
            raise NotImplementedError(f"nmt/model/inference.py does not compute with {', '.join(unread)}")
        decoder = model.decoder
        weight = model.output_weight
        self.max_positions, self.sees_source = model.max_positions, model.sees_source
        self._encoder = _Encoder(model.encoder, precision) if isinstance(model, Transformer) else None
        self._embedding = decoder.embedding
        self._decoder = [_DecoderLayer(layer, precision) for layer in decoder.layers]
        self._norm = _norm(decoder.norm)
        self._attention_layer = decoder.attention_layer
        self._output = product(weight, None, precision)
        self.vocab_size = len(weight)
        self._n_heads = decoder.layers[0].attention.n_heads
        cross = [layer.cross_attention for layer in decoder.layers if layer.cross_attention is not None]
        self._memory = _memory_product(cross, precision) if cross else None
        # at the few queries of a step, a CPU multiplies float32 faster than bf16
        self._cache_dtype = torch.float32 if weight.device.type == "cpu" else DTYPES[precision]

    def start(self, src: Tensor, mask: Tensor) -> DecoderState:
        """Read src (B, S) int64 and return the state before the first step. mask: (B, S), True at tokens.

        An encoder encodes src, each sentence ending in `</s>`. A decoder with `sees_source` takes it as the beginning
        of its own sequence: `<s>`, the source and a separator. A language model reads only B.
        """
        memories: list[KeyValue | None] = [None] * len(self._decoder)
        if self._encoder is not None and self._memory is not None:
            b, s = src.shape
            projected = self._memory(self._encoder(src, mask)).to(self._cache_dtype)
            parts = projected.view(b, s, len(memories), 2, self._n_heads, -1)
            keys = parts[:, :, :, 0].permute(2, 0, 3, 4, 1).contiguous()  # (layers, B, H, E, S)
            values = parts[:, :, :, 1].permute(2, 0, 3, 1, 4).contiguous()  # (layers, B, H, S, E)
            memories = list(zip(keys, values, strict=True))
        state = DecoderState(memories, mask, self._n_heads, self._cache_dtype)
        if self.sees_source:
            x = _embed(self._embedding, src, torch.arange(src.size(1), device=src.device), src.size(1))
            x = self._layers(x, state.prefix_slots(), state)
            state.after_prefix = self._norm(x.take_along_dim(state.prefix_lengths[..., None] - 1, 1))
        return state

    def step(self, tokens: Tensor, state: DecoderState, weights: list[Tensor] | None = None) -> Tensor:
        """Decode the next position of every hypothesis: tokens (B, M) int64 -> hidden states (B, M, D) float32.

        Updates `state` in place. The cross-attention of `Decoder.attention_layer`, (B, H, M, S) float32, is appended to
        `weights`. After a prefix, the tokens of the first step are not read: the prefix has them, `<s>`, already.
        """
        if state.after_prefix is not None:
            return state.begin(tokens.size(1))
        positions, end = state.positions(self.max_positions)
        x = _embed(self._embedding, tokens, positions, end)
        x = self._layers(x, state.next_slots(tokens.size(1)), state, weights)
        state.length += 1
        return self._norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (..., V), in the dtype of the product, of hidden states (..., D)."""
        return self._output(hidden)

    def _layers(self, x: Tensor, slots: Slots, state: DecoderState, weights: list[Tensor] | None = None) -> Tensor:
        """Apply the decoder's layers: (B, M, D) -> (B, M, D)."""
        for i, layer in enumerate(self._decoder):
            x = layer.step(x, slots, state, i, weights if i == self._attention_layer else None)
        return x


def _embed(embedding: Embedding, ids: Tensor, positions: Tensor, end: int) -> Tensor:
    """Embed ids (B, L) at positions (L,), (1,) or (B, 1), all below `end` -> (B, L, D)."""
    tokens = F.embedding(ids, embedding.weight) * embedding.scale
    embedded: Tensor = tokens.add_(embedding.positions(positions, end))
    return embedded


class _Residual:
    """The residual connection and layer norm around a sub-layer; see `SubLayer`."""

    def __init__(self, sub_layer: SubLayer) -> None:
        self._pre, self._norm = sub_layer.pre, _norm(sub_layer.norm)

    def before(self, x: Tensor) -> Tensor:
        """Return the input of the sub-layer (B, L, D)."""
        return self._norm(x) if self._pre else x

    def after(self, x: Tensor, output: Tensor) -> Tensor:
        """Add the sub-layer's output to x, in place if the norm is before."""
        return x.add_(output) if self._pre else self._norm(x + output)


def _norm(norm: nn.Module) -> Product:
    """Return the function of a norm; for layer norm the operator, as the module's own checks take as long as a row."""
    if type(norm) is nn.LayerNorm:
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return norm.forward


class _FeedForward:
    """Both layers and the non-linearity between them."""

    def __init__(self, layer: FeedForward, precision: str) -> None:
        self._inner = product(layer.inner.weight, layer.inner.bias, precision, layer.activation)
        self._outer = product(layer.outer.weight, layer.outer.bias, precision)

    def __call__(self, x: Tensor) -> Tensor:
        return self._outer(self._inner(x))


class _SelfAttention:
    """Attention to the same sequence, whole or step by step."""

    def __init__(self, layer: MultiHeadAttention, precision: str) -> None:
        self._n_heads = layer.n_heads
        self._projections = product(layer.in_weight, layer.in_bias, precision)
        self._output = product(layer.output.weight, layer.output.bias, precision)

    def __call__(self, x: Tensor, bias: Tensor) -> Tensor:
        """Attend to all of x (B, S, D) with a bias (B * H, 1, S) -> (B, S, D)."""
        query, key, value = _heads(self._projections(x), 3, self._n_heads)
        return self._output(_merged(attend(query, key.transpose(2, 3), value, bias)[0]))

    def step(self, x: Tensor, cache: Cache, slots: Slots) -> Tensor:
        """Append x (B, M, D) to the cache and attend to it -> (B, M, D)."""
        query, *keys_values = _heads(self._projections(x), 3, self._n_heads)
        return self._output(_merged(attend(query, *cache.append(slots, keys_values), slots.bias)[0]))


class _CrossAttention:
    """Attention to the memory."""

    def __init__(self, layer: MultiHeadAttention, precision: str) -> None:
        self._n_heads = layer.n_heads
        self._query = product(layer.in_weight[: layer.d_model], layer.in_bias[: layer.d_model], precision)
        self._output = product(layer.output.weight, layer.output.bias, precision)

    def __call__(self, x: Tensor, memory: KeyValue, bias: Tensor, weights: list[Tensor] | None) -> Tensor:
        """Attend from x (B, M, D) -> (B, M, D); the attention (B, H, M, S) is appended to `weights`."""
        (query,) = _heads(self._query(x), 1, self._n_heads)
        attended, attention = attend(query, *memory, bias, explicitly=weights is not None)
        if weights is not None and attention is not None:
            weights.append(attention)
        return self._output(_merged(attended))


class _EncoderLayer:
    """Self-attention and feed-forward."""

    def __init__(self, layer: EncoderLayer, precision: str) -> None:
        self._attention = _SelfAttention(layer.attention, precision)
        self._attention_residual = _Residual(layer.attention_residual)
        self._feed_forward = _FeedForward(layer.feed_forward, precision)
        self._feed_forward_residual = _Residual(layer.feed_forward_residual)

    def __call__(self, x: Tensor, bias: Tensor) -> Tensor:
        residual = self._attention_residual
        x = residual.after(x, self._attention(residual.before(x), bias))
        residual = self._feed_forward_residual
        return residual.after(x, self._feed_forward(residual.before(x)))


class _Encoder:
    """A stack of layers."""

    def __init__(self, encoder: Encoder, precision: str) -> None:
        self._embedding = encoder.embedding
        self._layers = [_EncoderLayer(layer, precision) for layer in encoder.layers]
        self._norm = _norm(encoder.norm)
        self._n_heads = encoder.layers[0].attention.n_heads

    def __call__(self, src: Tensor, mask: Tensor) -> Tensor:
        """Return the memory (B, S, D) float32 of src (B, S)."""
        x = _embed(self._embedding, src, torch.arange(src.size(1), device=src.device), src.size(1))
        bias = attention_bias(~mask[:, None], self._n_heads)
        for layer in self._layers:
            x = layer(x, bias)
        return self._norm(x)


class _DecoderLayer:
    """One position of each hypothesis, or a prefix, through self-attention, attention to a memory, and feed-forward."""

    def __init__(self, layer: DecoderLayer, precision: str) -> None:
        self._attention = _SelfAttention(layer.attention, precision)
        self._attention_residual = _Residual(layer.attention_residual)
        self._cross_attention: _CrossAttention | None = None
        if layer.cross_attention is not None:
            self._cross_attention = _CrossAttention(layer.cross_attention, precision)
            self._cross_attention_residual = _Residual(layer.cross_attention_residual)
        self._feed_forward = _FeedForward(layer.feed_forward, precision)
        self._feed_forward_residual = _Residual(layer.feed_forward_residual)

    def step(self, x: Tensor, slots: Slots, state: DecoderState, index: int, weights: list[Tensor] | None) -> Tensor:
        """Apply the layer, number `index`: (B, M, D) -> (B, M, D)."""
        residual = self._attention_residual
        x = residual.after(x, self._attention.step(residual.before(x), state.caches[index], slots))
        memory = state.memories[index]
        if self._cross_attention is not None and memory is not None:
            residual = self._cross_attention_residual
            x = residual.after(x, self._cross_attention(residual.before(x), memory, state.memory_bias, weights))
        residual = self._feed_forward_residual
        return residual.after(x, self._feed_forward(residual.before(x)))


def attend(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor, explicitly: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Attend from (B, H, M, E) to transposed keys (B, H, E, K) and values (B, H, K, E) with a bias (B * H, M or 1, K).

    Returns the result (B, H, M, E), and the weights (B, H, M, K) float32 where they are computed: on a CPU always,
    elsewhere `explicitly`.
    """
    b, h, m, e = query.shape
    query = query.to(values.dtype)
    if query.device.type != "cpu" and not explicitly:
        mask = bias.to(query.dtype)
        mask = mask[None] if len(mask) == 1 else mask.view(b, h, -1, bias.size(2))
        return F.scaled_dot_product_attention(query, keys.transpose(2, 3), values, attn_mask=mask), None
    scores = torch.baddbmm(bias.to(query.dtype), query.reshape(b * h, m, e), keys.flatten(0, 1), alpha=e**-0.5)
    weights = scores.softmax(-1, dtype=torch.float32)
    attended = torch.bmm(weights.to(values.dtype), values.flatten(0, 1))
    return attended.view(b, h, m, e), weights.view(b, h, m, -1)


def _heads(projected: Tensor, n_parts: int, n_heads: int) -> tuple[Tensor, ...]:
    """Divide (B, L, n_parts * D) into parts (B, H, L, E)."""
    b, length, _ = projected.shape
    return projected.view(b, length, n_parts, n_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)


def _merged(attended: Tensor) -> Tensor:
    """Join the heads: (B, H, L, E) -> (B, L, D)."""
    return attended.transpose(1, 2).flatten(2)


def _memory_product(layers: Sequence[MultiHeadAttention], precision: str) -> Product:
    """Return the product of a memory (B, S, D) that gives all layers' keys and values, (B, S, layers * 2 * D)."""
    d = layers[0].d_model
    weight = torch.cat([layer.in_weight[d:] for layer in layers])
    return product(weight, torch.cat([layer.in_bias[d:] for layer in layers]), precision)
