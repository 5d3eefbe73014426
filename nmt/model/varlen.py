"""Attention of packed sentences: PyTorch's kernel for them on a GPU, and the same plainly elsewhere.

Legend: N query and K key tokens of all sentences, B sentences, L longest, H heads, E = D / H.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.masks import Packed, subsequent_mask

KERNEL_DEVICES = {"cuda"}
WINDOWS = {True: (-1, 0), False: (-1, -1)}  # how far back and ahead a query sees: without end, or not at all


def why_not(device: torch.device, precision: str, head_width: int, attention_dropout: float) -> str | None:
    """What keeps sentences from being packed; None if nothing does."""
    if attention_dropout:
        return "model.attention_dropout has to be 0"
    if device.type == "cpu":
        return None
    if precision == "float32":
        return "training.precision has to be bf16 or fp16"
    if head_width % 8 or head_width > 256:
        return f"heads of {head_width} have to be of a multiple of 8, at most 256 (model.d_model / model.n_heads)"
    if torch.cuda.get_device_capability(device) < (8, 0) or not torch.backends.cuda.is_flash_attention_available():
        return "this GPU or this PyTorch has no flash attention"
    return None


def attend(query: Tensor, key: Tensor, value: Tensor, queries: Packed, keys: Packed, causal: bool) -> Tensor:
    """query (N, H, E) to key and value (K, H, E), each sentence to its own -> (N, H, E)."""
    if query.device.type not in KERNEL_DEVICES:
        return _attend_plainly(query, key, value, queries, keys, causal)
    from torch.nn.attention.varlen import varlen_attn  # takes seconds, which a run without it need not wait for

    attended = varlen_attn(
        query,
        key,
        value,
        queries.bounds,
        keys.bounds,
        queries.max_len,
        keys.max_len,
        window_size=WINDOWS[causal],
    )
    return cast(Tensor, attended)


def _attend_plainly(query: Tensor, key: Tensor, value: Tensor, queries: Packed, keys: Packed, causal: bool) -> Tensor:
    """The same: put each sentence into a row of its own, attend under a mask, and take the tokens out again."""
    query, key, value = _rows(query, queries), _rows(key, keys), _rows(value, keys)  # (B, H, L, E)
    lengths = keys.bounds.diff()[:, None, None, None]
    mask = torch.arange(keys.max_len, device=query.device) < lengths.clamp(min=1)  # (B, 1, 1, L)
    if causal:
        mask = mask & subsequent_mask(keys.max_len, query.device)
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return attended.transpose(1, 2).flatten(0, 1)[_places(queries)]


def _rows(x: Tensor, layout: Packed) -> Tensor:
    """Tokens (N, H, E) -> (B, H, L, E), zeros after the end of each sentence."""
    n_sentences = layout.bounds.numel() - 1
    rows = x.new_zeros(n_sentences * layout.max_len, *x.shape[1:]).index_copy(0, _places(layout), x)
    return rows.view(n_sentences, layout.max_len, *x.shape[1:]).transpose(1, 2)


def _places(layout: Packed) -> Tensor:
    """(N,) where each token stands if every sentence has a row of L places."""
    numbers = torch.arange(layout.positions.numel(), dtype=torch.int32, device=layout.bounds.device)
    sentence = torch.searchsorted(layout.bounds[1:], numbers, right=True)
    return sentence * layout.max_len + layout.positions
