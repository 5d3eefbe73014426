"""What one update came to."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nmt.data.batching import Update


@dataclass(frozen=True)
class Outcome:
    """What an update came to: `numbers` (7,) float64 are loss, negative log-likelihood, right predictions, positions
    with padding, times out of memory, divergence, and the gradient's norm before clipping, over all processes."""

    update: Update
    numbers: torch.Tensor
