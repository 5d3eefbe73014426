"""The two masks of the paper, and the two layouts in which sentences lie in a tensor.

A mask is boolean and True means "may be attended", as in `scaled_dot_product_attention`. For two sentences of three
and two tokens

    padding_mask([3, 2])  T T T        subsequent_mask(3)  T . .
                          T T .                            T T .
                                                           T T T

Legend: B sentences, L longest, N real tokens, Q query and K key positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


def padding_mask(lengths: Tensor, max_len: int | None = None) -> Tensor:
    """(B,) lengths -> (B, L) bool, True where a token stands. L is `max_len`, else the largest length."""
    longest = int(lengths.max()) if max_len is None else max_len
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def subsequent_mask(length: int, device: torch.device | None = None) -> Tensor:
    """(L, L) bool, True where position i (row) may see position j (column): j <= i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


@dataclass(frozen=True)
class Padded:
    """Sentences side by side: tensors are (B, L, ...), `mask` is (B, L) bool, tokens left, padding right."""

    mask: Tensor

    @property
    def max_len(self) -> int:
        """Positions a row has room for."""
        return self.mask.size(1)

    @property
    def positions(self) -> Tensor:
        """(L,) position of each column in its sentence."""
        return torch.arange(self.max_len, device=self.mask.device)


@dataclass(frozen=True)
class Packed:
    """Sentences one after the other without padding: tensors are (1, N, ...).

    Sentence i stands from `bounds[i]` to `bounds[i + 1]`, (B + 1,) int32; `positions` (N,) int64 are those of tokens in
    their sentences, of which none is longer than `max_len`. One could be derived from the other, but not without
    waiting for a GPU.
    """

    bounds: Tensor
    positions: Tensor
    max_len: int


Layout = Padded | Packed


@dataclass(frozen=True)
class Visible:
    """What queries may see, in the form the fast attention kernels like best.

    `mask` is bool, broadcastable to (B, H, Q, K), or None for everything. `causal` says that position i sees j <= i as
    well; it aligns the upper left corners, so it is never used with a cache. `packed`: the layouts of queries and keys,
    where these are packed; then each sees its own sentence.
    """

    mask: Tensor | None = None
    causal: bool = False
    packed: tuple[Packed, Packed] | None = None
    _biases: dict[torch.dtype, tuple[Tensor, Tensor | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def explicit(self, n_queries: int, n_keys: int, device: torch.device) -> Tensor:
        """The same as one bool mask, broadcastable to (B, H, Q, K)."""
        if self.mask is not None and not self.causal:
            return self.mask
        full = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
        if self.causal:
            full = subsequent_mask(n_queries, device)
        return full[None, None] if self.mask is None else full & self.mask

    def bias(self, query: Tensor, n_sentences: int, n_keys: int) -> tuple[Tensor, Tensor | None]:
        """What to add to the scores of query (BH, Q, E), broadcastable to (BH, Q, K): 0, or a number that no score
        comes near. If there are queries that may see nothing, also 0 for those and 1 for the others, else None.

        Made once for all layers, which have the same queries, keys and number of heads.
        """
        if query.dtype not in self._biases:
            heads = query.size(0) // n_sentences
            allowed = self.explicit(query.size(1), n_keys, query.device)  # (B or 1, 1, Q, K)
            if allowed.size(0) > 1:
                allowed = allowed.expand(-1, heads, -1, -1)
            allowed = allowed.flatten(0, 1)
            bias = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
            bias.masked_fill_(~allowed, torch.finfo(query.dtype).min / 2)
            is_seen = allowed.any(-1, keepdim=True)
            # compiled code cannot depend on numbers in tensors, and a GPU would be waited for: they multiply always
            may_look = query.device.type == "cpu" and not torch.compiler.is_compiling()
            is_one = may_look and bool(is_seen.all())
            self._biases[query.dtype] = bias, None if is_one else is_seen.to(query.dtype)
        return self._biases[query.dtype]


def visible(queries: Layout, keys: Layout, causal: bool = False) -> Visible:
    """What each position of `queries` may see of `keys`: its own sentence, no padding, with `causal` no future.

    Padded and causal needs no mask: padding lies to the right of every token, and what padding sees is never used.
    """
    match queries, keys:
        case Padded(), Padded(mask=mask):
            return Visible(causal=True) if causal else Visible(mask[:, None, None, :])
        case Packed(), Packed():
            return Visible(causal=causal, packed=(queries, keys))
    raise AssertionError("queries and keys share one kind of layout")
