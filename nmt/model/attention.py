"""Multi-head attention (Vaswani et al., 2017, section 3.2).

Legend: B sentences, Q query and K key positions, D width, H heads, E = D / H, M hypotheses of a sentence.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.masks import Visible

KeyValue = tuple[Tensor, Tensor]


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention of several heads; the three input projections share one matrix (3D, D)."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
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
        """The same by an explicit softmax, with the weights (B, H, Q, K) that the fast kernels do not give."""
        query, (key, value) = self._query(x), memory
        scores = query @ key.transpose(-1, -2) / query.size(-1) ** 0.5  # (B, H, Q, K)
        allowed = see.explicit(query.size(2), key.size(2), x.device)
        weights = scores.float().masked_fill(~allowed, -torch.inf).softmax(-1)
        weights = weights.nan_to_num(0.0)  # a query that may see nothing gets nothing, as in the fast kernels
        dropped = F.dropout(weights, self.dropout, self.training)
        return self._merge(dropped.to(value.dtype) @ value), weights

    def self_weights(self, x: Tensor, see: Visible) -> tuple[Tensor, Tensor]:
        """Self-attention by an explicit softmax: (B, Q, D) and the weights (B, H, Q, Q)."""
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
        if query.device.type == "cpu" and torch.is_grad_enabled():
            # the CPU's bf16 attention kernel has a backward pass several times slower than its float32 twin
            query, key, value = query.float(), key.float(), value.float()
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=see.mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=see.causal,
        )

    def _merge(self, attended: Tensor) -> Tensor:
        b, _, length, _ = attended.shape
        output: Tensor = self.output(attended.transpose(1, 2).reshape(b, length, self.d_model))
        return output
