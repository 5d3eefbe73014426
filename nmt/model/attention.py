"""Multi-head attention (Vaswani et al., 2017, section 3.2).

Legend: B sentences, Q query and K key positions, D width, H heads, E = D / H, M hypotheses of a sentence.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.dropout import Dropout
from nmt.model.masks import Visible

KeyValue = tuple[Tensor, Tensor]


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention of several heads; the three input projections share one matrix (3D, D)."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.dropout = Dropout(dropout)
        self.in_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.output = nn.Linear(d_model, d_model)
        for block in self.in_weight.chunk(3):  # each projection by its own fan-in and fan-out
            nn.init.xavier_uniform_(block)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor, see: Visible) -> Tensor:
        """Self-attention: (B, Q, D) -> (B, Q, D)."""
        query, key, value = self._heads(F.linear(x, self.in_weight, self.in_bias), 3)
        return self._merge(self._attend(query, key, value, see))

    def keys_values(self, memory: Tensor) -> KeyValue:
        """Keys and values of a memory (B, K, D), each (B, H, K, E): computed once, attended to many times."""
        key, value = self._heads(F.linear(memory, self.in_weight[self.d_model :], self.in_bias[self.d_model :]), 2)
        return key, value

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

    def step(self, x: Tensor, past: KeyValue | None) -> tuple[Tensor, KeyValue]:
        """One decoding step of self-attention: each hypothesis sees its own past and itself.

        x is (B, M, D); `past` holds keys and values, each (B, M, H, t, E), or None at the first position. Returns
        (B, M, D) and the past with this position added.
        """
        b, m, _ = x.shape
        projected = F.linear(x, self.in_weight, self.in_bias).view(b, m, 3, self.n_heads, 1, -1)
        query, key, value = projected.unbind(2)  # (B, M, H, 1, E) each
        if past is not None:
            key, value = torch.cat((past[0], key), dim=3), torch.cat((past[1], value), dim=3)
        attended = F.scaled_dot_product_attention(query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1))
        return self.output(attended.reshape(b, m, self.d_model)), (key, value)

    def _query(self, x: Tensor) -> Tensor:
        (query,) = self._heads(F.linear(x, self.in_weight[: self.d_model], self.in_bias[: self.d_model]), 1)
        return query

    def _heads(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        b, length, _ = projected.shape
        return projected.view(b, length, parts, self.n_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, L, E)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, see: Visible) -> Tensor:
        """(B, H, Q, E), (B, H, K, E) twice -> (B, H, Q, E), the fastest way there is."""
        if query.device.type == "cpu" and query.dtype != torch.float32:
            # the CPU's bf16 kernel takes ten times as long in its backward pass as a plain softmax does
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
        """Equation 1 as it is written, softmax in float32; also returns the weights (B, H, Q, K), without dropout."""
        scores = query @ key.transpose(-1, -2) / query.size(-1) ** 0.5  # (B, H, Q, K)
        allowed = see.explicit(query.size(2), key.size(2), query.device)
        weights = scores.float().masked_fill(~allowed, -torch.inf).softmax(-1)
        if see.mask is not None:  # a query that may see nothing gets nothing, as in the fast kernels
            weights = weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
        dropped = self.dropout(weights)
        return dropped.to(value.dtype) @ value, weights

    def _merge(self, attended: Tensor) -> Tensor:
        b, _, length, _ = attended.shape
        output: Tensor = self.output(attended.transpose(1, 2).reshape(b, length, self.d_model))
        return output
