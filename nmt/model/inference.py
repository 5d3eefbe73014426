"""A trained model prepared for search: `Transformer` or `DecoderModel`, computed in fewer and larger operations.

Weights are cast, joined and laid out once, nothing is recorded for a backward pass, and one decoding step takes one
position of every hypothesis. Hidden states stay float32; matrix products are in the precision chosen.

Legend: B sentences, S source length, M hypotheses of a sentence, L = S or M, D width, V vocabulary, H heads, E = D / H,
K keys.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.attention import KeyValue, MultiHeadAttention, attend
from nmt.model.device import DTYPES
from nmt.model.masks import AttentionMask, Padded, attention_mask
from nmt.model.transformer import (
    ACTIVATIONS,
    Activation,
    Decoder,
    DecoderLayer,
    DecodingModel,
    Encoder,
    EncoderLayer,
    SubLayer,
    Transformer,
)


class InferenceModel:
    """A model that encodes sentences, if it has an encoder, and decodes step by step."""

    def __init__(self, model: DecodingModel, precision: str) -> None:
        """Prepare the current weights of a model in float32, bf16 or fp16, on their device.

        A change of the model in training must be made here, too; `nmt.search.forced.check_inference` compares the two.
        """
        decoder = model.decoder
        weight = model.output_weight
        self.max_positions = model.max_positions
        self.sees_source = model.sees_source
        self._encoder = _Stack(model.encoder, precision) if isinstance(model, Transformer) else None
        self._decoder = _Stack(decoder, precision)
        self._attention_layer = decoder.attention_layer
        self._output = product(weight, model.output_bias, precision)
        self.vocab_size = len(weight)
        self._n_heads = decoder.layers[0].attention.n_heads
        self._memory: Product | None = None  # the keys and values of all layers, (B, S, D) -> (B, S, layers * 2 * D)
        if cross := [layer.cross_attention for layer in decoder.layers if layer.cross_attention is not None]:
            d = cross[0].d_model
            weights, biases = zip(*((layer.in_weight[d:], layer.in_bias[d:]) for layer in cross), strict=True)
            self._memory = product(torch.cat(weights), torch.cat(biases), precision)
        # at the few queries of a step, a CPU multiplies float32 faster than bf16
        self._cache_dtype = torch.float32 if weight.device.type == "cpu" else DTYPES[precision]

    def start(
        self, src: Tensor, mask: Tensor, prefix: Prefix | None = None, weights: list[Tensor] | None = None
    ) -> DecoderState:
        """Return the state before the first step, after the decoder has read `prefix`, if there is one.

        src (B, S) int64, in which each sentence ends in `</s>`, is encoded; `mask` (B, S) is True at tokens. A decoder
        without encoder reads only B. The total cross-attention of the prefix, (B, H, 1, S) float32, is appended to
        `weights`.
        """
        memories: list[KeyValue | None] = [None] * len(self._decoder.layers)
        if self._encoder is not None and self._memory is not None:
            b, s = src.shape
            layout = Padded(mask)
            queries = Queries(layout.positions, s, attention_mask(layout, layout))
            x = self._encoder.embed(src, queries)
            for layer in self._encoder.layers:
                x = layer(x, queries)
            projected = self._memory(self._encoder.norm(x)).to(self._cache_dtype)
            parts = projected.view(b, s, len(memories), 2, self._n_heads, -1)
            # (layers, B, H, S, E) both; keys are laid out transposed, which is faster at few queries
            keys = parts[:, :, :, 0].permute(2, 0, 3, 4, 1).contiguous().mT
            values = parts[:, :, :, 1].permute(2, 0, 3, 1, 4).contiguous()
            memories = list(zip(keys, values, strict=True))
        state = DecoderState(memories, mask, self._cache_dtype)
        if prefix is not None:
            self._read(prefix, state, weights)
        return state

    def _read(self, prefix: Prefix, state: DecoderState, weights: list[Tensor] | None) -> None:
        queries = state.prefix_queries(prefix)
        of_all: list[Tensor] | None = None if weights is None else []
        x = self._decode(prefix.tokens, queries, state, of_all)
        state.after_prefix = self._decoder.norm(x.take_along_dim(prefix.lengths[..., None] - 1, 1))
        if weights is not None and of_all:
            is_padding = (queries.positions >= prefix.lengths)[:, None, :, None]
            weights.append(of_all[0].masked_fill(is_padding, 0).sum(2, keepdim=True))

    def step(self, tokens: Tensor, state: DecoderState, weights: list[Tensor] | None = None) -> Tensor:
        """Decode the next position of every hypothesis: tokens (B, M) int64 -> hidden states (B, M, D) float32.

        Updates `state` in place. The cross-attention of `Decoder.attention_layer`, (B, H, M, S) float32, is appended to
        `weights`. After a prefix, the first step reads no tokens, since the prefix includes their `<s>`, and appends
        nothing.
        """
        if state.after_prefix is not None:
            return state.begin(tokens.size(1))
        x = self._decode(tokens, state.next_queries(tokens.size(1), self.max_positions), state, weights)
        state.length += 1
        return self._decoder.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (..., V), in the dtype of the product, of hidden states (..., D)."""
        return self._output(hidden)

    def _decode(self, tokens: Tensor, queries: Queries, state: DecoderState, weights: list[Tensor] | None) -> Tensor:
        """Apply the embedding and the layers of the decoder: tokens (B, L) int64 -> (B, L, D)."""
        x = self._decoder.embed(tokens, queries)
        for i, layer in enumerate(self._decoder.layers):
            of_layer = weights if i == self._attention_layer else None
            x = layer(x, queries, state.caches[i], state.memories[i], state.memory_mask, of_layer)
        return x


class _Stack:
    """The embedding, layers and norm of an encoder or decoder."""

    def __init__(self, stack: Encoder | Decoder, precision: str) -> None:
        self._embedding = stack.embedding
        self.layers = [_Layer(layer, precision) for layer in stack.layers]
        self.norm = _norm(stack.norm)

    def embed(self, ids: Tensor, queries: Queries) -> Tensor:
        """Embed ids (B, L) -> (B, L, D)."""
        tokens = F.embedding(self._embedding.rows(ids), self._embedding.weight) * self._embedding.scale
        embedded: Tensor = tokens.add_(self._embedding.positions(queries.positions, queries.end))
        return embedded


class _Residual:
    """The residual connection and layer norm around a sub-layer, as in `SubLayer`."""

    def __init__(self, sub_layer: SubLayer) -> None:
        self._pre = sub_layer.pre
        self._norm = _norm(sub_layer.norm)

    def __call__(self, x: Tensor, sub_layer: Product) -> Tensor:
        """Apply the sub-layer: x (B, L, D) -> (B, L, D). With pre-norm, x is changed in place."""
        return x.add_(sub_layer(self._norm(x))) if self._pre else self._norm(x + sub_layer(x))


def _norm(norm: nn.Module) -> Product:
    """Return a norm as a function; layer norm skips the checks of the module, which take as long as normalizing a
    row."""
    if type(norm) is nn.LayerNorm:
        shape = norm.normalized_shape
        weight = norm.weight
        bias = norm.bias
        eps = norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return norm.forward


class _Attention:
    """Self-attention or cross-attention, with one matrix product for all its inputs."""

    def __init__(self, layer: MultiHeadAttention, precision: str, is_cross: bool) -> None:
        self._n_heads = layer.n_heads
        self._n_parts = 1 if is_cross else 3
        rows = self._n_parts * layer.d_model
        self._inputs = product(layer.in_weight[:rows], layer.in_bias[:rows], precision)
        self._output = product(layer.output.weight, layer.output.bias, precision)

    def __call__(self, x: Tensor, queries: Queries, cache: Cache | None = None) -> Tensor:
        """Apply self-attention to x (B, L, D), and to all that the cache has -> (B, L, D)."""
        query, key, value = self._heads(x)
        if cache is not None:
            key, value = cache.append(queries, key, value)
        return self._merge(attend(query, key, value, queries.mask))

    def cross(self, x: Tensor, memory: KeyValue, mask: AttentionMask, weights: list[Tensor] | None) -> Tensor:
        """Apply cross-attention to x (B, L, D) -> (B, L, D); the weights (B, H, L, S) are appended to `weights`."""
        (query,) = self._heads(x)
        return self._merge(attend(query, *memory, mask, weights=weights))

    def _heads(self, x: Tensor) -> tuple[Tensor, ...]:
        b, length, _ = x.shape
        parts = self._inputs(x).view(b, length, self._n_parts, self._n_heads, -1)
        return parts.permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, L, E) each

    def _merge(self, attended: Tensor) -> Tensor:
        return self._output(attended.transpose(1, 2).flatten(2))


class _Layer:
    """Self-attention, cross-attention if the layer has it, and feed-forward."""

    def __init__(self, layer: EncoderLayer | DecoderLayer, precision: str) -> None:
        self._attention = _Attention(layer.attention, precision, is_cross=False)
        self._attention_residual = _Residual(layer.attention_residual)
        self._cross: _Attention | None = None
        if isinstance(layer, DecoderLayer) and layer.cross_attention is not None:
            self._cross = _Attention(layer.cross_attention, precision, is_cross=True)
            self._cross_residual = _Residual(layer.cross_attention_residual)
        inner = layer.feed_forward.inner
        outer = layer.feed_forward.outer
        self._inner = product(inner.weight, inner.bias, precision, layer.feed_forward.activation)
        self._outer = product(outer.weight, outer.bias, precision)
        self._feed_forward_residual = _Residual(layer.feed_forward_residual)

    def __call__(
        self,
        x: Tensor,
        queries: Queries,
        cache: Cache | None = None,
        memory: KeyValue | None = None,
        memory_mask: AttentionMask | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Apply the layer: (B, L, D) -> (B, L, D). For `cache` and `weights` see `_Attention`."""
        x = self._attention_residual(x, lambda x: self._attention(x, queries, cache))
        cross = self._cross
        if cross is not None and memory is not None and memory_mask is not None:
            x = self._cross_residual(x, lambda x: cross.cross(x, memory, memory_mask, weights))
        return self._feed_forward_residual(x, lambda x: self._outer(self._inner(x)))


CACHE_BLOCK = 16
"""The capacity of a cache is a multiple of this, and so is the number of keys on a GPU, so that there are few sizes."""


@dataclass(frozen=True)
class Queries:
    """The tokens that all layers of a stack compute in one step, L of each sentence."""

    positions: Tensor
    """(L,), (1,) or (B, 1)."""
    end: int
    """An exclusive upper bound of the positions."""
    mask: AttentionMask
    """The keys that they attend to in self-attention: their past and themselves, or in an encoder the whole source."""
    start: int = 0
    """The first of the L slots in the caches that take their keys and values."""
    n_keys: int = 0
    """The number of slots to attend to, from the first slot of the cache on."""
    capacity: int = 0


class Cache:
    """The keys and values of all hypotheses of a sentence at all positions so far, in the order of decoding.

    Nothing is moved when hypotheses are dropped or continued twice; instead, a bias says which slots a hypothesis may
    attend to. Tensors are (B, H, C, E) and are copied only when the cache grows.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._keys_values: list[Tensor] = []

    def append(self, queries: Queries, *keys_values: Tensor) -> KeyValue:
        """Store keys and values (B, H, M, E) in their slots, and return all keys and values to attend to."""
        b, h, m, e = keys_values[0].shape
        if not self._keys_values or self._keys_values[0].size(2) < queries.capacity:
            # a GPU attends to free slots with weight 0, so they must not be NaN
            device = keys_values[0].device
            allocate = torch.empty if device.type == "cpu" else torch.zeros
            shape = (b, h, queries.capacity, e)
            larger = [allocate(shape, dtype=self._dtype, device=device) for _ in keys_values]
            for new, old in zip(larger, self._keys_values, strict=False):
                new[:, :, : queries.start] = old[:, :, : queries.start]
            self._keys_values = larger
        for cached, new in zip(self._keys_values, keys_values, strict=True):
            cached[:, :, queries.start : queries.start + m] = new
        keys, values = (cached[:, :, : queries.n_keys] for cached in self._keys_values)
        return keys, values

    def keep(self, sentences: Tensor) -> None:
        """Keep only the sentences with indices `sentences` (B',)."""
        self._keys_values = [x[sentences] for x in self._keys_values]


@dataclass(frozen=True)
class Prefix:
    """The tokens of each sentence that the decoder reads before the first step, in one pass."""

    tokens: Tensor
    """(B, L) int64; padding on the right."""
    lengths: Tensor
    """(B, 1) number of tokens."""
    n_source: Tensor
    """(B, 1) number of first tokens that attend to each other; the others attend to those before them."""


class DecoderState:
    """The state of a decoder between two steps.

    It has the keys and values of the source and a `Cache` for each layer, and knows which slots of the caches belong to
    each hypothesis. Given tokens, and the source if the decoder reads it itself, take the first slots of a sentence, as
    a prefix that all its hypotheses share.
    """

    length: int
    """The number of steps so far."""
    after_prefix: Tensor | None
    """The hidden states (B, 1, D) after the prefix until the first step returns them; else None."""

    def __init__(self, memories: Sequence[KeyValue | None], src_mask: Tensor, dtype: torch.dtype) -> None:
        """Create the state before the first step.

        `memories` has the keys and values of the source for each layer, or None without cross-attention; `src_mask`
        (B, S) is True at tokens; `dtype` is the data type of keys and values.
        """
        self.memories = list(memories)
        self.caches = [Cache(dtype) for _ in memories]
        self.length = 0
        self._src_mask = src_mask
        self.memory_mask = AttentionMask(src_mask[:, None, None])
        self._n_slots = self._capacity = 0
        self._visible: Tensor | None = None  # (B, M, slots) bool, True = its own; None: a sentence has had only one
        self.after_prefix = None
        self.prefix_lengths: Tensor | None = None
        """The number of tokens (B, 1) of each prefix, if there are prefixes."""
        self._longest_prefix = 0

    def prefix_queries(self, prefix: Prefix) -> Queries:
        """Reserve slots for a prefix, and return its queries."""
        self.prefix_lengths = prefix.lengths
        self._longest_prefix = prefix.tokens.size(1)
        self._n_slots, self._capacity = self._longest_prefix, _rounded(self._longest_prefix + 1)
        n_keys = self._n_slots if prefix.tokens.device.type == "cpu" else _rounded(self._n_slots)
        keys = torch.arange(n_keys, device=prefix.tokens.device)
        positions = keys[: self._n_slots]
        self._visible = (positions < prefix.lengths)[:, None]
        is_earlier = (keys <= positions[:, None]) | (keys < prefix.n_source)[:, None]
        allowed = (keys < prefix.lengths)[:, None] & is_earlier  # (B, L, n_keys)
        return Queries(positions, self._n_slots, AttentionMask(allowed[:, None]), 0, n_keys, self._capacity)

    def begin(self, n_hypotheses: int) -> Tensor:
        """Start M hypotheses of each sentence after its prefix, and return their hidden states (B, M, D)."""
        assert self.after_prefix is not None and self._visible is not None
        hidden = self.after_prefix.expand(-1, n_hypotheses, -1)
        self.after_prefix = None
        self._visible = self._visible.expand(-1, n_hypotheses, -1)
        return hidden

    def _positions(self, max_positions: int | None) -> tuple[Tensor, int]:
        """Return the positions of the next step, (1,) or (B, 1), and an exclusive upper bound of them."""
        if self.prefix_lengths is None:
            return torch.full((1,), self.length, device=self._src_mask.device), self.length + 1
        positions = self.prefix_lengths + self.length
        end = self._longest_prefix + self.length + 1
        if max_positions is not None and end > max_positions:
            # only sentences that are complete and wait for others are beyond the last position
            return positions.clamp(max=max_positions - 1), max_positions
        return positions, end

    def next_queries(self, n_hypotheses: int, max_positions: int | None) -> Queries:
        """Reserve M slots for the next step, and return its queries."""
        start = self._n_slots
        self._n_slots += n_hypotheses
        if self._n_slots > self._capacity:
            # for many steps, since growing copies everything
            self._capacity = _rounded(max(self._n_slots + (CACHE_BLOCK - 1) * n_hypotheses, 2 * self._capacity))
        n_keys = self._n_slots if self._src_mask.device.type == "cpu" else _rounded(self._n_slots)
        b = len(self._src_mask)
        if n_hypotheses > 1 or self._visible is not None:
            past = self._src_mask.new_ones(b, 1, start) if self._visible is None else self._visible
            itself = torch.eye(n_hypotheses, dtype=torch.bool, device=past.device)
            visible = torch.cat((past.expand(b, n_hypotheses, -1), itself.expand(b, -1, -1)), 2)
            self._visible = visible
        else:
            visible = self._src_mask.new_ones(1, 1, self._n_slots)
        n_free = n_keys - self._n_slots
        allowed = F.pad(visible, (0, n_free), value=False) if n_free else visible
        return Queries(*self._positions(max_positions), AttentionMask(allowed[:, None]), start, n_keys, self._capacity)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep `sentences` (B',), in ascending order, and their hypotheses `beams` (B', M'), which may contain
        repeats; before the first step, `sentences` may, too."""
        if self._visible is not None:
            self._visible = self._visible[sentences[:, None], beams]
        if len(sentences) == len(self._src_mask):
            return
        self._src_mask = self._src_mask[sentences]
        if self.prefix_lengths is not None:
            self.prefix_lengths = self.prefix_lengths[sentences]
        if self.after_prefix is not None:
            self.after_prefix = self.after_prefix[sentences]
        self.memory_mask = AttentionMask(self._src_mask[:, None, None])
        self.memories = [kv and (kv[0][sentences], kv[1][sentences]) for kv in self.memories]
        for cache in self.caches:
            cache.keep(sentences)


def _rounded(n_slots: int) -> int:
    return -(-n_slots // CACHE_BLOCK) * CACHE_BLOCK


Product = Callable[[Tensor], Tensor]
"""A function that maps x (..., K) of any dtype to x @ weight.T + bias (..., N)."""

FEW_PRODUCTS = 2**20
"""Up to this number of multiplications, a plain product on a CPU is faster than a packed one."""

MAX_UNPADDED = 8
"""Up to this number of rows, padding takes longer than a product."""


def product(weight: Tensor, bias: Tensor | None, precision: str, activation: Activation | None = None) -> Product:
    """Return the product with `weight` (N, K) float32, followed by an activation, in float32, bf16 or fp16."""
    dtype = DTYPES[precision]
    cast_weight = weight.to(dtype)
    cast_bias = bias if bias is None else bias.to(dtype)

    def plain(x: Tensor) -> Tensor:
        y = F.linear(x.to(dtype), cast_weight, cast_bias)
        return y if activation is None else activation.function(y)

    if dtype != torch.bfloat16 or weight.device.type != "cpu" or not packs():
        return plain
    # F.linear would rearrange the weight for oneDNN's kernels in each call, which takes as long as a product of 64 rows
    reordered = torch.ops.mkldnn._reorder_linear_weight(cast_weight, None)
    few_inputs = FEW_PRODUCTS // len(weight)

    def packed(x: Tensor) -> Tensor:
        if x.numel() <= few_inputs:
            return plain(x)
        rows = x.reshape(-1, x.size(-1))
        if (size := padded_size(len(rows))) == len(rows):
            padded = rows.to(torch.bfloat16)
        else:
            padded = torch.empty(size, x.size(-1), dtype=torch.bfloat16)  # the last rows are not used
            padded[: len(rows)] = rows
        output = _pointwise(padded, reordered, cast_bias, activation)
        return output[: len(rows)].view(*x.shape[:-1], -1)

    return packed


def padded_size(n_rows: int) -> int:
    """Return `n_rows` rounded up to a multiple of 16 with at most 3 significant bits.

    oneDNN compiles code for each size, which takes as long as many products. The few hypotheses of a single sentence
    are not padded, since their number does not change.
    """
    if n_rows <= MAX_UNPADDED:
        return n_rows
    step = max(16, 1 << max(0, (n_rows - 1).bit_length() - 3))
    return -(-n_rows // step) * step


def _pointwise(x: Tensor, packed: Tensor, bias: Tensor | None, activation: Activation | None) -> Tensor:
    name = "none" if activation is None else activation.onednn
    output: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, name, [], "none")
    return output


@functools.cache
def packs() -> bool:
    """Return whether PyTorch has oneDNN's undocumented operators for packed products, and this CPU supports them."""
    weight = torch.eye(64)
    x = torch.linspace(-1, 1, 2 * 64).view(2, 64)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(torch.bfloat16), None)
        product = _pointwise(x.to(torch.bfloat16), packed, None, ACTIVATIONS["relu"])
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(product.float(), x.relu(), atol=0.01)
