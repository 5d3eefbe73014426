"""Token embeddings with positions: what encoder and decoder read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.dropout import Dropout
from nmt.model.positions import LearnedPositions, SinusoidalPositions


class Embedding(nn.Module):
    """Token embeddings, scaled by the square root of the width, plus positions, with dropout."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.scale = config.d_model**0.5
        self.weight = nn.Parameter(torch.randn(vocab_size, config.d_model) * config.d_model**-0.5)
        self.positions = (
            SinusoidalPositions(config.d_model)
            if config.positions == "sinusoidal"
            else LearnedPositions(config.d_model, config.max_positions)
        )
        self.dropout = Dropout(config.embedding_dropout)

    def forward(self, ids: Tensor, positions: Tensor, end: int, kept: Tensor | None = None) -> Tensor:
        """ids (B, L) int64 at `positions` (L,), all below `end` -> (B, L, D).

        Of tokens that are not `kept` (B, L) bool only the position is left.
        """
        tokens = F.embedding(ids, self.weight) * self.scale
        if kept is not None:
            tokens = tokens * kept[..., None]
        embedded: Tensor = self.dropout(tokens + self.positions(positions, end))
        return embedded
