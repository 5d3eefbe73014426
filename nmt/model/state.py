"""The state of a decoder that goes step by step: what search keeps, reorders and cuts down.

Legend: B sentences, S source length, M hypotheses of a sentence, H heads, E width of a head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.attention import Cache, KeyValue, room_for
from nmt.model.masks import Visible


class DecoderState:
    """What a decoder remembers between steps: each layer's keys and values of the source, (B, H, S, E), one per
    sentence; and each layer's `Cache` of all hypotheses at all positions, with what each hypothesis may see of it."""

    def __init__(self, memory_kv: list[KeyValue | None], src_mask: Tensor) -> None:
        """src_mask (B, S), True = token."""
        self.memory_kv = [kv and (kv[0].contiguous(), kv[1].contiguous()) for kv in memory_kv]
        self.src_mask = src_mask
        self.caches = [Cache() for _ in memory_kv]
        self.length = 0
        self.see_memory = Visible(src_mask[:, None, None, :])
        self._n_slots = 0
        self._ancestors = src_mask.new_empty((len(src_mask), 1, 0))  # (B, M, room), True = its own past

    def see_past(self, n_hypotheses: int) -> Visible:
        """For the next step: each of M hypotheses sees its own past and itself, which takes the next slots."""
        start = self._n_slots
        self._n_slots += n_hypotheses
        b, m, room = self._ancestors.shape
        past = self._ancestors.expand(b, n_hypotheses, room) if m == 1 else self._ancestors
        if room < self._n_slots:
            past = F.pad(past, (0, room_for(self._n_slots) - room))
        itself = torch.eye(n_hypotheses, dtype=torch.bool, device=past.device)
        self._ancestors = past.slice_scatter(itself.expand(b, -1, -1), 2, start, self._n_slots)
        return Visible(self._ancestors[:, None])

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep `sentences` (B',), ascending, and of each the hypotheses `beams` (B', M'), repeats allowed."""
        self._ancestors = self._ancestors[sentences[:, None], beams]
        if len(sentences) == len(self.src_mask):
            return
        self.src_mask = self.src_mask[sentences]
        self.see_memory = Visible(self.src_mask[:, None, None, :])
        self.memory_kv = [kv and (kv[0][sentences], kv[1][sentences]) for kv in self.memory_kv]
        for cache in self.caches:
            cache.keep(sentences)
