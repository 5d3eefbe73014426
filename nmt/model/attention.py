"""Multi-head attention (Vaswani et al., 2017, section 3.2).

Legend: B sentences, Q query and K key positions, D width, H heads, E = D / H, M hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.dropout import Dropout
from nmt.model.masks import Visible
from nmt.model.varlen import attend

KeyValue = tuple[Tensor, Tensor]


SLOTS = 16
"""By so many slots a cache grows."""


class Cache:
    """Keys and values of all hypotheses of a sentence at all positions so far, in the order in which they came.

    Nothing is moved when hypotheses are given up or continued twice: who may see which slot is for the mask to say.
    Tensors are (B, H, room, E) with some empty slots at the end, zeros, so that they are moved once in many steps.
    """

    def __init__(self) -> None:
        self.n_slots = 0
        self._keys_values: list[Tensor] = []

    @property
    def room(self) -> int:
        """Slots that there are."""
        return self._keys_values[0].size(2) if self._keys_values else 0

    def append(self, key: Tensor, value: Tensor) -> KeyValue:
        """Add (B, H, M, E) each; returns all there are with the empty slots, (B, H, room, E) each."""
        start, self.n_slots = self.n_slots, self.n_slots + key.size(2)
        if self.n_slots > self.room:
            b, h, _, e = key.shape
            larger = [each.new_zeros(b, h, room_for(self.n_slots), e) for each in (key, value)]
            for new, old in zip(larger, self._keys_values, strict=False):
                new[:, :, :start] = old[:, :, :start]
            self._keys_values = larger
        for all_of, new in zip(self._keys_values, (key, value), strict=True):
            all_of[:, :, start : self.n_slots] = new
        return self._keys_values[0], self._keys_values[1]

    def keep(self, sentences: Tensor) -> None:
        """Only the sentences (B',)."""
        self._keys_values = [each[sentences] for each in self._keys_values]


def room_for(n_slots: int) -> int:
    """How many slots a cache of `n_slots` has, with the empty ones."""
    return -(-n_slots // SLOTS) * SLOTS


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention of several heads; the three input projections share one matrix (3D, D)."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.dropout = Dropout(dropout)
        self.in_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.output = nn.Linear(d_model, d_model)
        # as one matrix: attention begins nearer to uniform, and learns faster, than by each projection's own fan-out
        nn.init.xavier_uniform_(self.in_weight)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor, see: Visible) -> Tensor:
        """Self-attention: (B, Q, D) -> (B, Q, D)."""
        query, key, value = self._heads(F.linear(x, self.in_weight, self.in_bias), 3)
        return self._merge(self._attend(query, key, value, see))

    def keys_values(self, memory: Tensor) -> KeyValue:
        """Keys and values of a memory (B, K, D), each (B, H, K, E): computed once, attended to many times."""
        (kv,) = keys_values_of([self], memory)
        return kv

    def cross(self, x: Tensor, memory: KeyValue, see: Visible) -> Tensor:
        """Attention of x (B, Q, D) to a memory's keys and values -> (B, Q, D)."""
        return self._merge(self._attend(self._query(x), *memory, see))

    def cross_weights(self, x: Tensor, memory: KeyValue, see: Visible) -> tuple[Tensor, Tensor]:
        """The same, with the attention weights (B, H, Q, K) that the fast kernels do not give."""
        attended, weights = self._attend_explicitly(self._query(x), *memory, see)
        return self._merge(attended), weights

    def self_weights(self, x: Tensor, see: Visible) -> tuple[Tensor, Tensor]:
        """Self-attention with its weights: (B, Q, D) and (B, H, Q, Q)."""
        return self.cross_weights(x, self.keys_values(x), see)

    def step(self, x: Tensor, cache: Cache, see: Visible) -> Tensor:
        """One decoding step of self-attention: x (B, M, D) joins the cache, and sees what of it `see` allows.

        Returns (B, M, D).
        """
        query, key, value = self._heads(F.linear(x, self.in_weight, self.in_bias), 3)  # (B, H, M, E) each
        return self._merge(self._attend(query, *cache.append(key, value), see))

    def _query(self, x: Tensor) -> Tensor:
        (query,) = self._heads(F.linear(x, self.in_weight[: self.d_model], self.in_bias[: self.d_model]), 1)
        return query

    def _heads(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        b, length, _ = projected.shape
        return projected.view(b, length, parts, self.n_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, L, E)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, see: Visible) -> Tensor:
        """(B, H, Q, E), (B, H, K, E) twice -> (B, H, Q, E), the fastest way there is."""
        if see.packed is not None:
            assert not (self.training and self.dropout.p), "the kernel for packed sentences drops no weights"
            query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))  # (N, H, E)
            return attend(query, key, value, *see.packed, see.causal).transpose(0, 1)[None]
        if query.device.type == "cpu":
            # for sentences, two products and a softmax take as long as a CPU's fused kernel in float32, and a sixth of
            # its time in bf16, where it is slow in the backward pass
            return self._attend_explicitly(query, key, value, see)[0]
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=see.mask,
            dropout_p=self.dropout.p if self.training else 0.0,
            is_causal=see.causal,
        )

    def _attend_explicitly(self, query: Tensor, key: Tensor, value: Tensor, see: Visible) -> tuple[Tensor, Tensor]:
        """Equation 1 as it is written; also returns the weights (B, H, Q, K), without dropout.

        The softmax calculates in float32 and is rounded to the format of the products.
        """
        b, h, n_queries, e = query.shape
        query, key, value = (each.reshape(b * h, -1, e) for each in (query, key, value))
        bias, is_seen = see.bias(query, b, key.size(1))
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=e**-0.5)  # (BH, Q, K)
        if torch.is_grad_enabled():
            weights = scores.softmax(-1)
        else:  # the same numbers, sooner
            weights = scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
        if is_seen is not None:  # a query that may see nothing gets nothing, as in the fast kernels
            weights = weights * is_seen
        attended = torch.bmm(self.dropout(weights), value)
        return attended.view(b, h, n_queries, e), weights.view(b, h, n_queries, -1)

    def _merge(self, attended: Tensor) -> Tensor:
        b, _, length, _ = attended.shape
        output: Tensor = self.output(attended.transpose(1, 2).reshape(b, length, self.d_model))
        return output


def keys_values_of(layers: Sequence[MultiHeadAttention], memory: Tensor) -> list[KeyValue]:
    """Each layer's keys and values of one memory (B, K, D), all in one product; there is at least one layer."""
    d = layers[0].d_model
    weight = torch.cat([layer.in_weight[d:] for layer in layers])
    bias = torch.cat([layer.in_bias[d:] for layer in layers])
    heads = layers[0]._heads(F.linear(memory, weight, bias), 2 * len(layers))
    return list(zip(heads[::2], heads[1::2], strict=True))
