"""Dropout (Srivastava et al., 2014) that does not spend its time on random numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LOWEST = torch.iinfo(torch.int64).min


class Dropout(nn.Module):
    """Zero each unit with probability `p` while training, and scale the others up by 1 / (1 - p).

    A CPU draws random numbers one by one, so there one of 64 bits serves eight units, and `p` is rounded to the nearest
    256th (the scale goes by the rounded value).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; unchanged in evaluation or with p = 0."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        threshold = min(max(round(256 * self.p), 1), 255)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(_LOWEST, None)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= threshold
        return x * kept.to(x.dtype).mul_(256 / (256 - threshold))
