"""The state of incremental decoding, which search reorders and shrinks.

Legend: B sentences, S source length, M hypotheses of a sentence, H heads, E width of a head, C capacity, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

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
        self._prefix_lengths: Tensor | None = None
        self._longest_prefix = 0

    @property
    def prefix_lengths(self) -> Tensor:
        """(B, 1) the numbers of tokens of the prefixes; there are some."""
        assert self._prefix_lengths is not None
        return self._prefix_lengths

    def prefix_slots(self) -> Slots:
        """Take slots for the source as a prefix, all of whose tokens attend to all others."""
        self._prefix_lengths = self._src_mask.sum(1, keepdim=True)
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
        if self._prefix_lengths is None:
            return torch.full((1,), self.length, device=self._src_mask.device), self.length + 1
        positions, end = self._prefix_lengths + self.length, self._longest_prefix + self.length + 1
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
        if self._prefix_lengths is not None:
            self._prefix_lengths = self._prefix_lengths[sentences]
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
