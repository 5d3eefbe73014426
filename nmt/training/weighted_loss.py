"""Cross-entropy in which each token has a weight of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nmt.training.loss import block_rows


def weighted_nll(hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of the negative log-likelihoods of targets (N,), each times its weight (N,).

    Logits hidden (N, D) @ weight (V, D).T are computed a block of rows at a time, and turned into their gradient
    at once.
    """
    nll: Tensor = _WeightedNll.apply(hidden, weight, targets, weights)  # type: ignore[no-untyped-call]
    return nll


class _WeightedNll(torch.autograd.Function):
    """The gradient with respect to the logits of a row is its weight times (p - one_hot(target))."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        device = weight.device
        is_cast = torch.is_autocast_enabled(device.type)
        compute = torch.get_autocast_dtype(device.type) if is_cast else hidden.dtype
        # fp16 underflows below 6e-8, so with fp16 the products of gradients are in float32
        grad_dtype = torch.float32 if compute == torch.float16 else compute
        total, n_rows = weights.new_zeros(()), block_rows(len(weight), device)
        grad_hidden, grad_weight = torch.empty_like(hidden, dtype=grad_dtype), torch.zeros_like(weight)
        with torch.autocast(device.type, enabled=False):
            h, w = hidden.to(compute), weight.to(compute)
            for start in range(0, len(targets), n_rows):
                rows = slice(start, start + n_rows)
                log_probs = (h[rows] @ w.T).log_softmax(-1, dtype=torch.float32)  # (rows, V)
                target, scale = targets[rows, None], weights[rows, None]
                total -= (log_probs.gather(-1, target) * scale).sum()
                grad = log_probs.exp_()
                grad.scatter_add_(-1, target, torch.full_like(scale, -1.0))
                grad = grad.mul_(scale).to(grad_dtype)
                grad_hidden[rows] = grad @ w.to(grad_dtype)
                grad_weight += grad.T @ h[rows].to(grad_dtype)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.hidden_dtype = hidden.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        of_weight = grad_weight * grads[0] if ctx.needs_input_grad[1] else None
        return (grad_hidden * grads[0]).to(ctx.hidden_dtype), of_weight, None, None
