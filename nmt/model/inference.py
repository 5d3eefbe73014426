"""A trained model prepared for search: the same function as `Transformer` or `DecoderModel`, in fewer and larger
operations.

Weights are cast, joined and laid out once, nothing is recorded for a backward pass, and one decoding step takes one
position of every hypothesis. Hidden states stay float32; matrix products are in the precision chosen.

Legend: B sentences, S source length, M hypotheses of a sentence, L = S or M, D width, V vocabulary, H heads, E = D / H,
K keys.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.attention import MultiHeadAttention
from nmt.model.embedding import Embedding
from nmt.model.stacks import DecodingModel
from nmt.model.transformer import (
    ACTIVATIONS,
    Activation,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    SubLayer,
    Transformer,
)

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
            state.after_prefix = self._norm(x.take_along_dim(mask.sum(1)[:, None, None] - 1, 1))
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

    def __call__(self, x: Tensor, sub_layer: Product) -> Tensor:
        """Apply the sub-layer to x (B, L, D), in place if the norm is before it -> (B, L, D)."""
        return x.add_(sub_layer(self._norm(x))) if self._pre else self._norm(x + sub_layer(x))


def _norm(norm: nn.Module) -> Product:
    """Return the function of a norm; for layer norm the operator, as the module's own checks take as long as a row."""
    if type(norm) is nn.LayerNorm:
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return norm.forward


def _feed_forward(layer: FeedForward, precision: str) -> Product:
    """Return both layers and the non-linearity between them as one function."""
    inner = product(layer.inner.weight, layer.inner.bias, precision, layer.activation)
    outer = product(layer.outer.weight, layer.outer.bias, precision)
    return lambda x: outer(inner(x))


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


class _Layer:
    """Self-attention and feed-forward."""

    def __init__(self, layer: EncoderLayer | DecoderLayer, precision: str) -> None:
        self._attention = _SelfAttention(layer.attention, precision)
        self._attention_residual = _Residual(layer.attention_residual)
        self._feed_forward = _feed_forward(layer.feed_forward, precision)
        self._feed_forward_residual = _Residual(layer.feed_forward_residual)

    def __call__(self, x: Tensor, bias: Tensor) -> Tensor:
        x = self._attention_residual(x, lambda x: self._attention(x, bias))
        return self._feed_forward_residual(x, self._feed_forward)


class _Encoder:
    """A stack of layers."""

    def __init__(self, encoder: Encoder, precision: str) -> None:
        self._embedding = encoder.embedding
        self._layers = [_Layer(layer, precision) for layer in encoder.layers]
        self._norm = _norm(encoder.norm)
        self._n_heads = encoder.layers[0].attention.n_heads

    def __call__(self, src: Tensor, mask: Tensor) -> Tensor:
        """Return the memory (B, S, D) float32 of src (B, S)."""
        x = _embed(self._embedding, src, torch.arange(src.size(1), device=src.device), src.size(1))
        bias = attention_bias(~mask[:, None], self._n_heads)
        for layer in self._layers:
            x = layer(x, bias)
        return self._norm(x)


class _DecoderLayer(_Layer):
    """One position of each hypothesis, or a prefix, through self-attention, attention to a memory, and feed-forward."""

    def __init__(self, layer: DecoderLayer, precision: str) -> None:
        super().__init__(layer, precision)
        self._cross_attention: _CrossAttention | None = None
        if layer.cross_attention is not None:
            self._cross_attention = _CrossAttention(layer.cross_attention, precision)
            self._cross_attention_residual = _Residual(layer.cross_attention_residual)

    def step(self, x: Tensor, slots: Slots, state: DecoderState, index: int, weights: list[Tensor] | None) -> Tensor:
        """Apply the layer, number `index`: (B, M, D) -> (B, M, D)."""
        x = self._attention_residual(x, lambda x: self._attention.step(x, state.caches[index], slots))
        cross, memory = self._cross_attention, state.memories[index]
        if cross is not None and memory is not None:
            x = self._cross_attention_residual(x, lambda x: cross(x, memory, state.memory_bias, weights))
        return self._feed_forward_residual(x, self._feed_forward)


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


KeyValue = tuple[Tensor, Tensor]
"""Keys, transposed, and values: (B, H, E, K) and (B, H, K, E)."""

BLOCK = 16
"""The capacity of a cache is a multiple of this, and on a GPU so is the number of slots attended to: few sizes."""


@dataclass(frozen=True)
class Slots:
    """The slots of a step in the caches of all layers."""

    start: int
    """The first of the M slots that the step takes."""
    n_keys: int
    """Number of slots to attend to, from the first of the cache on."""
    capacity: int
    bias: Tensor
    """Broadcastable to (B * H, M, n_keys); each hypothesis attends to its own past and to itself."""


class Cache:
    """Keys and values of all hypotheses of a sentence at all positions so far, in the order in which they came.

    Nothing is moved when hypotheses are dropped or continued twice: a bias says which slots a hypothesis may attend to.
    Tensors are (B, H, C, E); copies are needed only as the cache grows.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._keys_values: list[Tensor] = []

    def append(self, slots: Slots, keys_values: Sequence[Tensor]) -> KeyValue:
        """Put keys and values, (B, H, M, E) each, into their slots, and return those to attend to."""
        b, h, m, e = keys_values[0].shape
        if not self._keys_values or self._keys_values[0].size(2) < slots.capacity:
            # free slots, which only a GPU attends to, with weight 0, must not be NaN
            allocate = torch.empty if keys_values[0].device.type == "cpu" else torch.zeros
            shape, device = (b, h, slots.capacity, e), keys_values[0].device
            larger = [allocate(shape, dtype=self._dtype, device=device) for _ in keys_values]
            for new, old in zip(larger, self._keys_values, strict=False):
                new[:, :, : slots.start] = old[:, :, : slots.start]
            self._keys_values = larger
        for cached, new in zip(self._keys_values, keys_values, strict=True):
            cached[:, :, slots.start : slots.start + m] = new
        keys, values = (cached[:, :, : slots.n_keys] for cached in self._keys_values)
        return keys.transpose(2, 3), values

    def keep(self, sentences: Tensor) -> None:
        """Keep only `sentences` (B',)."""
        self._keys_values = [x[sentences] for x in self._keys_values]


class DecoderState:
    """A decoder's state between steps.

    For each layer, keys and values of the source, one per sentence, and a `Cache` of all hypotheses at all positions;
    and which slots of the caches belong to each hypothesis. Where the decoder reads the source itself, the first slots
    of a sentence hold it, as a prefix that all its hypotheses share.
    """

    length: int
    """Number of steps so far."""
    after_prefix: Tensor | None
    """(B, 1, D) the hidden states after the prefix, which the first step returns; None without a prefix and later."""

    def __init__(self, memories: Sequence[KeyValue | None], src_mask: Tensor, n_heads: int, dtype: torch.dtype) -> None:
        """memories: each layer's keys and values of the source, None without cross-attention; src_mask (B, S), True at
        tokens; dtype: that of keys and values.
        """
        self.memories = list(memories)
        self.caches = [Cache(dtype) for _ in memories]
        self.length = 0
        self._n_heads, self._dtype = n_heads, dtype
        self._src_mask = src_mask
        self.memory_bias = attention_bias(~src_mask[:, None], n_heads).to(dtype)
        self._n_slots = self._capacity = 0
        self._foreign: Tensor | None = None  # (B, M, slots) bool, True = not its own; None: a sentence has had only one
        self.after_prefix = None
        self.prefix_lengths: Tensor | None = None
        """(B, 1) the numbers of tokens of the prefixes, if there are any."""
        self._longest_prefix = 0

    def prefix_slots(self) -> Slots:
        """Take slots for the source as a prefix, all of whose tokens attend to all others."""
        self.prefix_lengths = self._src_mask.sum(1, keepdim=True)
        self._foreign = ~self._src_mask[:, None]
        self._n_slots = self._longest_prefix = self._src_mask.size(1)
        self._capacity = _rounded(self._n_slots + 1)
        n_keys = self._n_slots if self._src_mask.device.type == "cpu" else _rounded(self._n_slots)
        masked = F.pad(self._foreign, (0, n_keys - self._n_slots), value=True)
        return Slots(0, n_keys, self._capacity, attention_bias(masked, self._n_heads).to(self._dtype))

    def begin(self, n_hypotheses: int) -> Tensor:
        """Start M hypotheses of each sentence after its prefix; return their hidden states (B, M, D)."""
        assert self.after_prefix is not None and self._foreign is not None
        hidden, self.after_prefix = self.after_prefix.expand(-1, n_hypotheses, -1), None
        self._foreign = self._foreign.expand(-1, n_hypotheses, -1)
        return hidden

    def positions(self, max_positions: int | None) -> tuple[Tensor, int]:
        """Return the positions of the next step, (1,) or (B, 1), and a bound above all of them."""
        if self.prefix_lengths is None:
            return torch.full((1,), self.length, device=self._src_mask.device), self.length + 1
        positions, end = self.prefix_lengths + self.length, self._longest_prefix + self.length + 1
        if max_positions is not None and end > max_positions:
            # a sentence that is done may wait for others beyond the last position; the rules of search end it before
            return positions.clamp(max=max_positions - 1), max_positions
        return positions, end

    def next_slots(self, n_hypotheses: int) -> Slots:
        """Take M slots for the next step."""
        start, self._n_slots = self._n_slots, self._n_slots + n_hypotheses
        if self._n_slots > self._capacity:
            # for many steps, since all is copied each time
            self._capacity = _rounded(max(self._n_slots + (BLOCK - 1) * n_hypotheses, 2 * self._capacity))
        n_keys = self._n_slots if self._src_mask.device.type == "cpu" else _rounded(self._n_slots)
        b = len(self._src_mask)
        if n_hypotheses > 1 or self._foreign is not None:
            past = self._src_mask.new_zeros(b, 1, start) if self._foreign is None else self._foreign
            others = ~torch.eye(n_hypotheses, dtype=torch.bool, device=past.device)
            self._foreign = torch.cat((past.expand(b, n_hypotheses, -1), others.expand(b, -1, -1)), 2)
            masked = F.pad(self._foreign, (0, n_keys - self._n_slots), value=True)
        else:
            masked = torch.arange(n_keys, device=self._src_mask.device)[None, None] >= self._n_slots
        bias = attention_bias(masked, self._n_heads).to(self._dtype)
        return Slots(start, n_keys, self._capacity, bias)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep `sentences` (B',), ascending, and of each the hypotheses `beams` (B', M'), repeats allowed."""
        if self._foreign is not None:
            self._foreign = self._foreign[sentences[:, None], beams]
        if len(sentences) == len(self._src_mask):
            return
        self._src_mask = self._src_mask[sentences]
        if self.prefix_lengths is not None:
            self.prefix_lengths = self.prefix_lengths[sentences]
        self.memory_bias = attention_bias(~self._src_mask[:, None], self._n_heads).to(self._dtype)
        self.memories = [kv and (kv[0][sentences], kv[1][sentences]) for kv in self.memories]
        for cache in self.caches:
            cache.keep(sentences)


def attention_bias(masked: Tensor, n_heads: int) -> Tensor:
    """Return what to add to attention scores, (B * H, M, K) or (1, M, K) float32, for masked (B, M, K) bool."""
    bias = torch.zeros(masked.shape, device=masked.device).masked_fill_(masked, -float("inf"))
    return bias if len(bias) == 1 else bias.repeat_interleave(n_heads, 0)


def _rounded(n_slots: int) -> int:
    return -(-n_slots // BLOCK) * BLOCK


DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

Product = Callable[[Tensor], Tensor]
"""x (..., K) in any dtype -> x @ weight.T + bias, (..., N) in a dtype of the product's choice."""

FEW = 2**20
"""On a CPU, up to this number of multiplications float32 is faster than bf16: nothing is cast or looked up."""

MAX_UNPADDED = 8
"""Up to this number of rows, padding takes longer than the product."""


def product(weight: Tensor, bias: Tensor | None, precision: str, activation: Activation | None = None) -> Product:
    """Return the product with `weight` (N, K) float32, followed by an activation; precision: float32, bf16 or fp16."""
    dtype = DTYPES[precision]
    if dtype == torch.bfloat16 and weight.device.type == "cpu" and packs():
        return _Packed(weight, bias, activation)
    return _Plain(weight.to(dtype), None if bias is None else bias.to(dtype), activation)


class _Plain:
    """PyTorch's linear layer."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation | None) -> None:
        self._weight, self._bias, self._activation = weight, bias, activation

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x.to(self._weight.dtype), self._weight, self._bias)
        return y if self._activation is None else self._activation.function(y)


class _Packed:
    """A product in bf16 on a CPU, whose weight lies in memory as oneDNN's kernels read it.

    `F.linear` rearranges the weight in each call, which takes as long as a product with some 64 rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation | None) -> None:
        self._few = _Plain(weight, bias, activation)
        self._few_inputs = FEW // len(weight)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(torch.bfloat16), None)
        self._bias = None if bias is None else bias.to(torch.bfloat16)
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        if x.numel() <= self._few_inputs:
            return self._few(x)
        rows = x.reshape(-1, x.size(-1))
        if (size := padded_size(len(rows))) == len(rows):
            padded = rows.to(torch.bfloat16)
        else:
            padded = torch.empty(size, x.size(-1), dtype=torch.bfloat16)  # whose last rows are left as they are
            padded[: len(rows)] = rows
        output = _pointwise(padded, self._packed, self._bias, self._activation)
        return output[: len(rows)].view(*x.shape[:-1], -1)


def padded_size(n_rows: int) -> int:
    """Return `n_rows` rounded up to a multiple of 16 with at most 3 significant bits.

    oneDNN compiles code for each size, which takes as long as many products. The hypotheses of a single sentence are
    not padded: their number stays the same.
    """
    if n_rows <= MAX_UNPADDED:
        return n_rows
    step = max(16, 1 << max(0, (n_rows - 1).bit_length() - 3))
    return -(-n_rows // step) * step


def _pointwise(x: Tensor, packed: Tensor, bias: Tensor | None, activation: Activation | None) -> Tensor:
    output: Tensor = torch.ops.mkldnn._linear_pointwise(
        x, packed, bias, "none" if activation is None else activation.onednn, [], "none"
    )
    return output


@functools.cache
def packs() -> bool:
    """Return whether PyTorch has the operators of `_Packed`, which are not documented, and this CPU runs them."""
    weight, x = torch.eye(64), torch.linspace(-1, 1, 2 * 64).view(2, 64)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(torch.bfloat16), None)
        found = _pointwise(x.to(torch.bfloat16), packed, None, ACTIVATIONS["relu"])
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(found.float(), x.relu(), atol=0.01)
