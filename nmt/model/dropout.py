"""Dropout (Srivastava et al., 2014) that does not spend its time on random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Zero each unit with probability `p` while training, and scale the others up by 1 / (1 - p).

    On a CPU that draws a number for every unit, dropout takes longer than the product before it. There one byte of
    random numbers serves a unit, so that `p` is rounded to the nearest 256th (the scale goes by the rounded value).
    Compiled code draws its own.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; unchanged in evaluation or with p = 0."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        dropped: Tensor = _BytewiseDropout.apply(x, min(max(round(256 * self.p), 1), 255))  # type: ignore[no-untyped-call]
        return dropped


class _BytewiseDropout(torch.autograd.Function):
    """A unit is kept if its random byte is at least `threshold`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        seed = int(torch.randint(2**62, ()))  # what torch was seeded with decides
        words = np.random.SFC64(seed).random_raw(-(-x.numel() // 8))
        random_bytes = torch.from_numpy(words.view(np.uint8))[: x.numel()].view(x.shape)
        kept = torch.ge(
            random_bytes, threshold, out=torch.empty(x.shape, dtype=x.dtype)
        )  # 0 and 1, with no bool between
        ctx.save_for_backward(kept)
        ctx.scale = 256 / (256 - threshold)
        return _scaled_product(x, kept, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _scaled_product(grad, kept, ctx.scale), None


def _scaled_product(x: Tensor, kept: Tensor, scale: float) -> Tensor:
    """x * kept * scale in one pass, in which `scale` is not rounded to the few digits of bf16."""
    return torch.addcmul(x.new_zeros(()), x, kept, value=scale)
