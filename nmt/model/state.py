"""The state of incremental decoding, which search reorders and shrinks.

Legend: B sentences, S source length, M hypotheses of a sentence, H heads, E width of a head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.attention import Cache, KeyValue, capacity_for
from nmt.model.masks import AttentionMask


class DecoderState:
    """A decoder's state between steps.

    For each layer, keys and values of the source (B, H, S, E), one per sentence, and a `Cache` of all hypotheses at all
    positions; and a mask of the slots of the cache that belong to each hypothesis.
    """

    def __init__(self, memory_kv: list[KeyValue | None], src_mask: Tensor) -> None:
        """memory_kv: for each layer (B, H, S, E), or None without cross-attention; src_mask (B, S), True at tokens."""
        self.memory_kv = [kv and (kv[0].contiguous(), kv[1].contiguous()) for kv in memory_kv]
        self.src_mask = src_mask
        self.caches = [Cache() for _ in memory_kv]
        self.length = 0
        self.memory_mask = AttentionMask(src_mask[:, None, None, :])
        self._n_slots = 0
        self._ancestors = src_mask.new_empty((len(src_mask), 1, 0))  # (B, M, capacity), True = its own past

    def past_mask(self, n_hypotheses: int) -> AttentionMask:
        """Return the mask (B, 1, M, capacity) of the next step, which takes the next M slots of the cache.

        Each of the M hypotheses attends to its own past and to itself.
        """
        start = self._n_slots
        self._n_slots += n_hypotheses
        b, m, capacity = self._ancestors.shape
        past = self._ancestors.expand(b, n_hypotheses, capacity) if m == 1 else self._ancestors
        if capacity < self._n_slots:
            past = F.pad(past, (0, capacity_for(self._n_slots) - capacity))
        itself = torch.eye(n_hypotheses, dtype=torch.bool, device=past.device)
        self._ancestors = past.slice_scatter(itself.expand(b, -1, -1), 2, start, self._n_slots)
        return AttentionMask(self._ancestors[:, None])

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep `sentences` (B',), ascending, and of each the hypotheses `beams` (B', M'), repeats allowed."""
        self._ancestors = self._ancestors[sentences[:, None], beams]
        if len(sentences) == len(self.src_mask):
            return
        self.src_mask = self.src_mask[sentences]
        self.memory_mask = AttentionMask(self.src_mask[:, None, None, :])
        self.memory_kv = [kv and (kv[0][sentences], kv[1][sentences]) for kv in self.memory_kv]
        for cache in self.caches:
            cache.keep(sentences)
