"""Attention of packed sentences: PyTorch's variable-length kernel on a GPU, a plain implementation elsewhere.

Legend: N query and K key tokens of all sentences, B sentences, L longest, H heads, E = D / H.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.masks import Packed, causal_mask

KERNEL_DEVICES = {"cuda"}
WINDOWS = {True: (-1, 0), False: (-1, -1)}  # by `causal`: keys before and after a query; -1 is without limit


def packing_obstacle(device: torch.device, precision: str, head_width: int, attention_dropout: float) -> str | None:
    """Return the reason why sentences cannot be packed; None if they can."""
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
    """Attend from query (N, H, E) to key and value (K, H, E), each sentence to its own -> (N, H, E)."""
    if query.device.type not in KERNEL_DEVICES:
        return _attend_plainly(query, key, value, queries, keys, causal)
    from torch.nn.attention.varlen import varlen_attn  # takes seconds to import

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
    """Like `attend`, with the sentences unpacked into padded rows."""
    query, key, value = _rows(query, queries), _rows(key, keys), _rows(value, keys)  # (B, H, L, E)
    lengths = keys.bounds.diff()[:, None, None, None]
    mask = torch.arange(keys.max_len, device=query.device) < lengths.clamp(min=1)  # (B, 1, 1, L)
    if causal:
        mask = mask & causal_mask(keys.max_len, query.device)
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return attended.transpose(1, 2).flatten(0, 1)[_token_indices(queries)]


def _rows(x: Tensor, layout: Packed) -> Tensor:
    """Unpack tokens (N, H, E) -> (B, H, L, E), padded with zeros."""
    n_sentences = layout.bounds.numel() - 1
    rows = x.new_zeros(n_sentences * layout.max_len, *x.shape[1:]).index_copy(0, _token_indices(layout), x)
    return rows.view(n_sentences, layout.max_len, *x.shape[1:]).transpose(1, 2)


def _token_indices(layout: Packed) -> Tensor:
    """Return the index (N,) of each token in the flattened padded rows (B * L)."""
    numbers = torch.arange(layout.positions.numel(), dtype=torch.int32, device=layout.bounds.device)
    sentence = torch.searchsorted(layout.bounds[1:], numbers, right=True)
    return sentence * layout.max_len + layout.positions
