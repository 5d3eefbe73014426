"""Multi-head attention (Vaswani et al., 2017, section 3.2).

Legend: B sentences, Q query and K key positions, D width, H heads, E = D / H.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.dropout import Dropout
from nmt.model.masks import AttentionMask, Packed, Padded, attention_mask
from nmt.model.settings import ModelConfig

KeyValue = tuple[Tensor, Tensor]
"""Keys and values, (B, H, K, E) each."""


class MultiHeadAttention(nn.Module):
    """Multi-head scaled dot-product attention, with one matrix (3D, D) for the query, key and value projections."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d_model = self.d_model = config.d_model
        self.n_heads = config.n_heads
        self.dropout = Dropout(config.attention_dropout)
        self.in_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.output = nn.Linear(d_model, d_model)
        # initialized as one matrix: attention starts closer to uniform and learns faster than with each projection's
        # own fan-out
        nn.init.xavier_uniform_(self.in_weight)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def extra_repr(self) -> str:
        d = self.d_model
        return f"n_heads={self.n_heads}, query=({d}, {d}), key=({d}, {d}), value=({d}, {d})"

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """Apply self-attention: (B, Q, D) -> (B, Q, D)."""
        query, key, value = self._heads(F.linear(x, self.in_weight, self.in_bias), 3)
        return self._merge(attend(query, key, value, mask, self.dropout))

    def cross(self, x: Tensor, memory: KeyValue, mask: AttentionMask, weights: list[Tensor] | None = None) -> Tensor:
        """Apply cross-attention of x (B, Q, D) to the keys and values of a memory -> (B, Q, D).

        The attention weights (B, H, Q, K), which the fast kernels do not provide, are appended to `weights`.
        """
        (query,) = self._heads(F.linear(x, self.in_weight[: self.d_model], self.in_bias[: self.d_model]), 1)
        return self._merge(attend(query, *memory, mask, self.dropout, weights))

    def _heads(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        b, length, _ = projected.shape
        return projected.view(b, length, parts, self.n_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, L, E)

    def _merge(self, attended: Tensor) -> Tensor:
        b, _, length, _ = attended.shape
        output: Tensor = self.output(attended.transpose(1, 2).reshape(b, length, self.d_model))
        return output


def keys_values_of(layers: Sequence[MultiHeadAttention], memory: Tensor) -> list[KeyValue]:
    """Return the keys and values of a memory (B, K, D) for each of one or more layers, computed in a single product."""
    d = layers[0].d_model
    weight = torch.cat([layer.in_weight[d:] for layer in layers])
    bias = torch.cat([layer.in_bias[d:] for layer in layers])
    heads = layers[0]._heads(F.linear(memory, weight, bias), 2 * len(layers))
    return list(zip(heads[::2], heads[1::2], strict=True))


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: AttentionMask,
    dropout: Dropout | None = None,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """Attend from (B, H, Q, E) to keys and values (B, H, K, E) with the fastest kernel -> (B, H, Q, E).

    Training and search share this function. The attention weights (B, H, Q, K) before dropout, which the fast kernels
    do not provide, are appended to `weights`.
    """
    p = dropout.p if dropout is not None and dropout.training else 0.0
    match mask.layouts:
        case Packed() as queries, Packed() as keys:
            assert not p, "the kernel for packed sentences drops no weights"
            query, key, value = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))  # (N, H, E)
            return attend_packed(query, key, value, queries, keys, mask.causal).transpose(0, 1)[None]
    query = query.to(value.dtype)
    if query.device.type != "cpu" and weights is None:
        bias = None if mask.causal else mask.bias(query.dtype)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=p, is_causal=mask.causal)
    # at sentence lengths, two products and a softmax take as long as the CPU's fused kernel in float32, and a sixth of
    # its time in bf16, where its backward pass is slow
    bias = mask.bias_by_head(query)
    b, h, n_queries, e = query.shape
    query, key, value = (x.reshape(b * h, -1, e) for x in (query, key, value))
    scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=e**-0.5)  # (BH, Q, K)
    # without gradients, the same values are computed faster in float32
    probs = scores.softmax(-1, dtype=None if torch.is_grad_enabled() else torch.float32)
    if weights is not None:
        weights.append(probs.view(b, h, n_queries, -1))
    probs = probs.to(value.dtype)
    return torch.bmm(probs if dropout is None else dropout(probs), value).view(b, h, n_queries, e)


KERNEL_DEVICES = {"cuda"}


def attend_packed(query: Tensor, key: Tensor, value: Tensor, queries: Packed, keys: Packed, causal: bool) -> Tensor:
    """Attend from query (N, H, E) to key and value (K, H, E) within each packed sentence -> (N, H, E)."""
    if query.device.type not in KERNEL_DEVICES:
        return _attend_plainly(query, key, value, queries, keys, causal)
    # the operator that torch.nn.attention.varlen.varlen_attn calls; its wrappers in Python add a quarter to the host's
    # time
    attended, *_ = torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        queries.bounds,
        keys.bounds,
        queries.max_len,
        keys.max_len,
        0.0,  # dropout
        causal,
        False,  # no mask for debugging
    )
    return cast(Tensor, attended)


def _attend_plainly(query: Tensor, key: Tensor, value: Tensor, queries: Packed, keys: Packed, causal: bool) -> Tensor:
    """Compute `attend_packed` with the sentences unpacked into padded rows."""
    of_queries, of_keys = (
        Padded(torch.arange(x.max_len, device=query.device) < x.bounds.diff()[:, None]) for x in (queries, keys)
    )
    mask = attention_mask(of_queries, of_keys, causal)
    attended = attend(_rows(query, queries), _rows(key, keys), _rows(value, keys), mask)
    return attended.transpose(1, 2).flatten(0, 1)[_token_indices(queries)]


def _rows(x: Tensor, layout: Packed) -> Tensor:
    """Unpack tokens (N, H, E) into sentences (B, H, L, E), padded with zeros."""
    n_sentences = layout.bounds.numel() - 1
    rows = x.new_zeros(n_sentences * layout.max_len, *x.shape[1:]).index_copy(0, _token_indices(layout), x)
    return rows.view(n_sentences, layout.max_len, *x.shape[1:]).transpose(1, 2)


def _token_indices(layout: Packed) -> Tensor:
    """Return the index (N,) of each packed token in flattened padded sentences (B * L)."""
    return layout.numbers[0] * layout.max_len + layout.positions
