"""Label-smoothed cross-entropy, as sums: the one division, by the target tokens of the whole update, comes later.

Legend: N target tokens, D width, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# logits that are alive at once: few enough to stay in a CPU's cache, enough to keep a GPU busy
CHUNK_ELEMENTS = {"cpu": 2**20, "cuda": 2**27}


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
    Logits are made a chunk of rows at a time and turned into their gradient at once, so they never exist together.
    """
    needs_grad = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    dtype = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else None
    loss, nll, n_correct = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, smoothing, dtype, needs_grad
    )
    return LossSums(loss, nll, n_correct, targets.numel())


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Loss and gradient in one pass over chunks of rows.

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
        with torch.autocast(hidden.device.type, enabled=False):
            h, w = hidden.to(compute), weight.to(compute)
            w_grad = w.to(grad_dtype)
            full = weight.dtype
            sums = torch.zeros(3, dtype=full, device=h.device)
            grad_hidden = torch.empty_like(h if needs_grad else h[:0], dtype=grad_dtype)
            grad_weight = torch.zeros_like(weight if needs_grad else weight[:0])
            mean_weight = w.to(full).mean(0)  # (D,): hidden @ mean_weight is the mean of a row's logits
            rows = max(1, CHUNK_ELEMENTS[h.device.type] // len(w))
            for start in range(0, len(h), rows):
                part = slice(start, start + rows)
                target = targets[part, None]
                logits = h[part] @ w.T  # (rows, V)
                log_probs = logits.log_softmax(-1, dtype=full)
                at_target = log_probs.gather(-1, target)  # (rows, 1)
                log_z = logits.gather(-1, target).to(full) - at_target
                mean_log_prob = (h[part].to(full) @ mean_weight)[:, None] - log_z
                sums[0] -= ((1 - smoothing) * at_target + smoothing * mean_log_prob).sum()
                sums[1] -= at_target.sum()
                sums[2] += (at_target >= log_probs.amax(-1, keepdim=True)).sum()
                if needs_grad:
                    grad = log_probs.exp_().to(grad_dtype)
                    grad.scatter_add_(-1, target, grad.new_full(target.shape, smoothing - 1))
                    grad_hidden[part] = grad @ w_grad
                    grad_weight += grad.T @ h[part].to(grad_dtype)
            if needs_grad and smoothing:
                grad_hidden -= (smoothing * mean_weight).to(grad_dtype)
                grad_weight -= smoothing / len(w) * h.sum(0, dtype=full)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.hidden_dtype = hidden.dtype
        loss, nll, n_correct = (value.clone() for value in sums)
        ctx.mark_non_differentiable(nll, n_correct)
        return loss, nll, n_correct

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return (grad_hidden * grads[0]).to(ctx.hidden_dtype), grad_weight * grads[0], None, None, None, None
