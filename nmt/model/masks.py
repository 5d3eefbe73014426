"""Attention masks, and the three layouts of sentences in a tensor.

Masks are boolean and True means "may be attended to", as in `scaled_dot_product_attention`. For two sentences of three
and two tokens

    padding of [3, 2]     T T T        causal_mask(3)  T . .
                          T T .                        T T .
                                                       T T T

`attention_mask` chooses between them; the self-attention of a decoder is causal.

Legend: B sentences, L longest, N real tokens, Q query and K key positions, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from nmt.model.settings import ModelConfig


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Return the mask (L, L), True where position i (row) may attend to position j (column): j <= i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


@dataclass(frozen=True)
class Padded:
    """The padded layout: tensors are (B, L, ...), padding is on the right, and `mask` (B, L) is True at tokens.

    Where `kept` (B, L) bool is False, the embedding of a token is dropped.
    """

    mask: Tensor
    kept: Tensor | None = None

    @property
    def max_len(self) -> int:
        """The length L of a padded sentence."""
        return self.mask.size(1)

    @property
    def positions(self) -> Tensor:
        """The positions (L,) of the columns in their sentences."""
        return torch.arange(self.max_len, device=self.mask.device)

    @property
    def numbers(self) -> Tensor:
        """The numbers (B, L) of the sentences, as in `Rows`, at padding, too."""
        return torch.arange(len(self.mask), device=self.mask.device)[:, None].expand(self.mask.shape)


@dataclass(frozen=True)
class Packed:
    """The packed layout: sentences follow each other without padding, and tensors are (1, N, ...).

    Sentence i extends from `bounds[i]` to `bounds[i + 1]`, (B + 1,) int32. `positions` (N,) int64 are the positions of
    the tokens in their sentences, none of which is longer than `max_len`. `bounds` implies both, but deriving them
    would synchronize with the GPU. Where `kept` (1, N) bool is False, the embedding of a token is dropped.
    """

    bounds: Tensor
    positions: Tensor
    max_len: int
    kept: Tensor | None = None

    @property
    def numbers(self) -> Tensor:
        """The numbers (1, N) of the sentences in the batch; the tail belongs to sentences that follow."""
        indices = torch.arange(self.positions.numel(), dtype=torch.int32, device=self.bounds.device)
        return torch.searchsorted(self.bounds[1:], indices[None], right=True)


def packing_obstacle(device: torch.device, precision: str, model: ModelConfig) -> str | None:
    """Return the reason why the sentences of a model cannot be packed, or None if they can."""
    head_width = model.d_model // model.n_heads
    if model.attention_dropout:
        return "model.attention_dropout has to be 0"
    if device.type == "cpu":
        return None
    if precision == "float32":
        return "training.precision has to be bf16 or fp16"
    if head_width % 8 or head_width > 256:
        return f"the head width {head_width} (model.d_model / model.n_heads) is not a multiple of 8 up to 256"
    if torch.cuda.get_device_capability(device) < (8, 0) or not torch.backends.cuda.is_flash_attention_available():
        return "this GPU or this PyTorch has no flash attention"
    return None


NO_SENTENCE = -1
"""The number of padding, which belongs to no sentence."""


@dataclass(frozen=True)
class Rows:
    """The layout of rows with several sentences each: tensors are (B, L, ...), and B counts rows.

    `numbers` (B, L) int64 are the numbers of the sentences in the batch, and `NO_SENTENCE` at padding, which is on the
    right; `positions` (B, L) int64 are the positions of the tokens in their sentences, none of which is longer than
    `max_len`. Where `kept` (B, L) bool is False, the embedding of a token is dropped.
    """

    numbers: Tensor
    positions: Tensor
    max_len: int
    kept: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        """The lengths (B * L,) of the sentences by number, followed by zeros."""
        return self.sums(torch.ones_like(self.numbers))

    def sums(self, x: Tensor) -> Tensor:
        """Return the sums (B * L, ...) of x (B, L, ...) over the tokens of each sentence, followed by zeros."""
        numbers = self.numbers.flatten() + 1  # of padding: 0
        return x.new_zeros(len(numbers) + 1, *x.shape[2:]).index_add(0, numbers, x.flatten(0, 1))[1:]


Layout = Padded | Packed | Rows


@dataclass(frozen=True)
class AttentionMask:
    """The keys that each query may attend to, in training and in search, for all kernels.

    `allowed` is bool, True where a key may be attended to, (B or 1, 1, Q or 1, K). `causal` is True if it
    is the mask that `causal_mask` returns, for the kernels that need no mask then. `layouts` has the layouts of the
    queries and the keys in training; if they are packed, `allowed` is None, and the kernel confines each query to its
    own sentence.
    """

    allowed: Tensor | None
    causal: bool = False
    layouts: tuple[Layout, Layout] | None = None
    _biases: dict[torch.dtype, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)
    _by_head: dict[torch.dtype, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def bias(self, dtype: torch.dtype) -> Tensor:
        """Return the numbers to add to attention scores, (B or 1, 1, Q or 1, K): 0, or one far below any score.

        It is not minus infinity, so that a query without keys stays finite. Computed once for all layers. Rows begin at
        a multiple of 8 numbers, always with a gap between them: code without a gap would be compiled separately.
        """
        if dtype not in self._biases:
            assert self.allowed is not None, "packed sentences have no mask"
            *rows, n_keys = self.allowed.shape
            zeros = torch.zeros(*rows, (n_keys // 8 + 1) * 8, dtype=dtype, device=self.allowed.device)[..., :n_keys]
            self._biases[dtype] = zeros.masked_fill_(~self.allowed, torch.finfo(dtype).min / 2)
        return self._biases[dtype]

    def bias_by_head(self, query: Tensor) -> Tensor:
        """Return `bias` for queries (B, H, Q, E) with all heads in one dimension, (B * H or 1, Q or 1, K)."""
        dtype = query.dtype
        if dtype not in self._by_head:
            bias = self.bias(dtype)
            if bias.shape[:2] != (1, 1):
                bias = bias.expand(*query.shape[:2], -1, -1)
            self._by_head[dtype] = bias.flatten(0, 1)
        return self._by_head[dtype]


def prefix_mask(queries: Layout, is_prefix: Tensor) -> AttentionMask:
    """Return a causal mask in which all tokens of a sentence may also attend to its prefix, where `is_prefix` (B, L) is
    True. For one sentence of four tokens, the prefix being two

        T T . .
        T T . .
        T T T .
        T T T T
    """
    within = attention_mask(queries, queries)
    assert within.allowed is not None, "the kernel for packed sentences has no mask for prefixes"
    visible = causal_mask(is_prefix.size(1), is_prefix.device) | is_prefix[:, None, None]
    return replace(within, allowed=within.allowed & visible)


def source_prefix(sources: Layout, sequences: Layout) -> Tensor:
    """Return (B, L) bool, True in each sequence of a source and its target up to the separator between them.

    That is one token more than the source has, as the sequence begins with `<s>`.
    """
    if isinstance(sources, Padded):
        return sequences.positions <= sources.mask.sum(1, keepdim=True)
    assert isinstance(sources, Rows) and isinstance(sequences, Rows), "packed sequences have no prefixes"
    # padding, numbered -1, gets some length, which has no effect: no token attends to padding
    return sequences.positions <= sources.lengths[sequences.numbers]


def attention_mask(queries: Layout, keys: Layout, causal: bool = False) -> AttentionMask:
    """Return the mask for attention within sentences, which excludes padding and, with `causal`, later tokens.

    Padded sentences with `causal` need no padding mask: padding is to the right of every token, and the outputs at
    padding are never used. Padding of rows attends to the first sentence of its row, and in rows without sentences to
    padding, so that every query has keys.
    Queries and keys have the same kind of layout.
    """
    layouts = queries, keys
    match queries, keys:
        case Padded(), Padded() if causal:
            allowed = causal_mask(queries.max_len, queries.mask.device)
            return AttentionMask(allowed[None, None], causal=True, layouts=layouts)
        case Padded(), Padded(mask=mask):
            return AttentionMask(mask[:, None, None, :], layouts=layouts)
        case Rows(), Rows():
            numbers = queries.numbers
            numbers = numbers.where(numbers != NO_SENTENCE, numbers[:, :1])
            allowed = numbers[:, :, None] == keys.numbers[:, None, :]
            if causal:
                allowed &= causal_mask(numbers.size(1), allowed.device)
            return AttentionMask(allowed[:, None], layouts=layouts)
        case Packed(), Packed():
            return AttentionMask(None, causal, layouts)
    raise AssertionError("queries and keys must have the same kind of layout")
