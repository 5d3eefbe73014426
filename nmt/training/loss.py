"""Label-smoothed cross-entropy, as sums: the one division, by the target tokens of the whole update, comes later.

Legend: N target tokens, D width, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# logits that are alive at once: few enough to stay in a CPU's cache, enough for its products to be fast
BLOCK_ELEMENTS = {"cpu": 2**23, "cuda": 2**27}


@dataclass(frozen=True)
class LossSums:
    """Sums over target tokens; they add up over micro-batches and ranks.

    `loss` is what is minimised, `nll` the negative log-likelihood without smoothing (both nats), `n_correct` counts
    tokens whose most probable prediction was right. All are tensors without dimensions but `n_tokens`.
    """

    loss: Tensor
    nll: Tensor
    n_correct: Tensor
    n_tokens: int

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums(
            self.loss + other.loss,
            self.nll + other.nll,
            self.n_correct + other.n_correct,
            self.n_tokens + other.n_tokens,
        )

    @property
    def loss_per_token(self) -> float:
        """The smoothed loss of a token (nats)."""
        return float(self.loss.detach()) / max(self.n_tokens, 1)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood, without smoothing."""
        return math.exp(min(float(self.nll) / max(self.n_tokens, 1), 700.0))

    @property
    def accuracy(self) -> float:
        """Share of tokens predicted right."""
        return float(self.n_correct) / max(self.n_tokens, 1)


def label_smoothed_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> LossSums:
    """Cross-entropy of hidden (N, D) @ weight (V, D).T against targets (N,) int64, all of them real tokens.

    The target distribution is (1 - smoothing) on the target and smoothing / V on every entry (Szegedy et al., 2016).
    Logits are made a block of rows at a time and turned into their gradient at once, so they never exist together.
    """
    needs_grad = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    dtype = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else None
    loss, nll, n_correct = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, smoothing, dtype, needs_grad
    )
    return LossSums(loss, nll, n_correct, targets.numel())


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Loss and gradient in one pass over blocks of rows.

    With p the probabilities, the gradient of a row's logits is p - (1 - smoothing) * one_hot(target) - smoothing / V.
    The last term is the same for every logit, so its share of the products with weight and hidden is added afterwards.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        dtype: torch.dtype | None,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        compute = dtype or hidden.dtype
        # probabilities below 6e-8 vanish in fp16, so its gradients are multiplied in float32
        grad_dtype = torch.float32 if compute == torch.float16 else compute
        full = weight.dtype
        with torch.autocast(hidden.device.type, enabled=False):
            h, w = hidden.to(compute), weight.to(compute)
            h_grad, w_grad = h.to(grad_dtype), w.to(grad_dtype)
            grad_hidden = torch.empty_like(h_grad if needs_grad else h_grad[:0])
            grad_weight = torch.zeros_like(weight if needs_grad else weight[:0])
            # of every row: the target's logit, the largest logit and its probability
            at_target, largest, most = torch.empty(3, len(h), dtype=full, device=h.device)
            block_rows = max(1, BLOCK_ELEMENTS[h.device.type] // len(w))
            for start in range(0, len(h), block_rows):
                rows = slice(start, start + block_rows)
                target = targets[rows, None]
                logits = h[rows] @ w.T  # (rows, V)
                grad = logits.softmax(-1, dtype=grad_dtype)  # calculates in float32
                at_target[rows] = logits.gather(-1, target)[:, 0]
                largest[rows], most[rows] = logits.amax(-1), grad.amax(-1)
                if needs_grad:
                    grad[torch.arange(len(grad), device=grad.device), target[:, 0]] -= 1 - smoothing
                    grad_hidden[rows] = grad @ w_grad
                    grad_weight += grad.T @ h_grad[rows]
            log_z = largest - most.log()
            mean_weight = w.to(full).mean(0)  # (D,): hidden @ mean_weight is the mean of a row's logits
            mean_logit = h.to(full) @ mean_weight
            log_prob = at_target - log_z
            nll = -log_prob.sum()
            loss = (1 - smoothing) * nll - smoothing * (mean_logit - log_z).sum()
            n_correct = (at_target >= largest).sum()
            if needs_grad and smoothing:
                grad_hidden -= (smoothing * mean_weight).to(grad_dtype)
                grad_weight -= smoothing / len(w) * h.sum(0, dtype=full)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.hidden_dtype = hidden.dtype
        ctx.mark_non_differentiable(nll, n_correct)
        return loss, nll, n_correct

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return (grad_hidden * grads[0]).to(ctx.hidden_dtype), grad_weight * grads[0], None, None, None, None
