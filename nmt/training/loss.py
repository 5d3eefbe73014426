"""Label-smoothed cross-entropy, as sums: the one division, by the target tokens of the whole update, comes later.

Legend: N target tokens, D width, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK_ELEMENTS = 2**21  # logits that are alive at once: small enough to stay in a CPU's cache, large enough for a GPU


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

    def detach(self) -> LossSums:
        """The same sums without their history."""
        return LossSums(self.loss.detach(), self.nll, self.n_correct, self.n_tokens)

    @property
    def loss_per_token(self) -> float:
        """The smoothed loss of a token (nats)."""
        return float(self.loss) / max(self.n_tokens, 1)

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
            n, v = h.size(0), w.size(0)
            sums = torch.zeros(
                3, dtype=torch.float32 if hidden.dtype != torch.float64 else hidden.dtype, device=h.device
            )
            grad_hidden = torch.empty(h.shape, dtype=grad_dtype, device=h.device) if needs_grad else None
            grad_weight = torch.zeros_like(w, dtype=sums.dtype) if needs_grad else None
            rows = max(1, CHUNK_ELEMENTS // v)
            for start in range(0, n, rows):
                part = slice(start, start + rows)
                target = targets[part, None]
                logits = (h[part] @ w.T).to(sums.dtype)  # (rows, V)
                log_z = logits.logsumexp(-1, keepdim=True)
                at_target = logits.gather(-1, target)
                nll = log_z - at_target
                uniform = log_z - logits.mean(-1, keepdim=True)
                sums[0] += ((1 - smoothing) * nll + smoothing * uniform).sum()
                sums[1] += nll.sum()
                sums[2] += (logits.argmax(-1, keepdim=True) == target).sum()
                if grad_hidden is not None and grad_weight is not None:
                    grad = logits.sub_(log_z).exp_().sub_(smoothing / v)
                    grad.scatter_add_(-1, target, torch.full_like(at_target, smoothing - 1))
                    grad = grad.to(grad_dtype)
                    grad_hidden[part] = grad @ w.to(grad_dtype)
                    grad_weight += grad.T @ h[part].to(grad_dtype)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.dtypes = hidden.dtype, weight.dtype
        loss, nll_sum, n_correct = (value.clone() for value in sums)
        ctx.mark_non_differentiable(nll_sum, n_correct)
        return loss, nll_sum, n_correct

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        hidden_dtype, weight_dtype = ctx.dtypes
        scale = grads[0]
        return (grad_hidden * scale).to(hidden_dtype), (grad_weight * scale).to(weight_dtype), None, None, None, None
