"""Dropout (Srivastava et al., 2014) with random numbers that are cheap on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout that zeroes each unit with probability `p` in training and scales the others by 1 / (1 - p).

    On a CPU, `torch.nn.Dropout` takes longer than the matrix product before it. Here each unit takes one random byte,
    so `p` is rounded to the nearest 256th, and the scale uses the rounded value. Compiled code and other devices use
    PyTorch's own dropout.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout: (...) -> (...). In evaluation or with p = 0, x is returned unchanged."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        dropped: Tensor = _BytewiseDropout.apply(x, min(max(round(256 * self.p), 1), 255))  # type: ignore[no-untyped-call]
        return dropped


class _BytewiseDropout(torch.autograd.Function):
    """An autograd function that keeps a unit if its random byte is at least `threshold`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        seed = int(torch.randint(2**62, ()))  # follows torch.manual_seed
        words = np.random.SFC64(seed).random_raw(-(-x.numel() // 8))
        random_bytes = torch.from_numpy(words.view(np.uint8))[: x.numel()].view(x.shape)
        mask = torch.ge(
            random_bytes, threshold, out=torch.empty(x.shape, dtype=x.dtype)
        )  # 0 and 1 without a bool tensor in between
        ctx.save_for_backward(mask)
        ctx.scale = 256 / (256 - threshold)
        return _scaled_product(x, mask, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _scaled_product(grad, mask, ctx.scale), None


def _scaled_product(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return x * mask * scale in one pass, without rounding `scale` to bf16."""
    return torch.addcmul(x.new_zeros(()), x, mask, value=scale)
