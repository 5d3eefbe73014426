"""Half-precision copies of the weights of matrix products, made once per update for all its micro-batches and passes.

Autocast would make them anew in every micro-batch, one weight at a time, and turn their gradients back one at a time.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from nmt.model.precision import for_training
from nmt.model.transformer import Model


class Halves:
    """A twin of a model that computes with half-precision copies of its weights; all other weights are shared."""

    def __init__(self, model: Model, precision: str) -> None:
        self.twin = for_training(model, precision)
        pairs = zip(model.parameters(), self.twin.parameters(), strict=True)
        self._pairs = [(weight, half) for weight, half in pairs if weight is not half]

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the model's weights to the twin, and forget the gradients there."""
        torch._foreach_copy_([half for _, half in self._pairs], [weight for weight, _ in self._pairs])
        for _, half in self._pairs:
            half.grad = None

    @torch.no_grad()
    def collect(self) -> None:
        """Add the twin's gradients to the model's, in float32, and forget them there."""
        found = [(weight, half) for weight, half in self._pairs if half.grad is not None]
        if not found:  # all are frozen
            return
        grads = [torch.empty_like(weight) for weight, _ in found]
        torch._foreach_copy_(grads, [cast(Tensor, half.grad) for _, half in found])
        earlier = [
            (weight.grad, grad) for (weight, _), grad in zip(found, grads, strict=True) if weight.grad is not None
        ]
        if earlier:
            torch._foreach_add_([total for total, _ in earlier], [grad for _, grad in earlier])
        for (weight, half), grad in zip(found, grads, strict=True):
            weight.grad = grad if weight.grad is None else weight.grad
            half.grad = None
