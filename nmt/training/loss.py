"""Label-smoothed cross-entropy and divergence, as sums: the one division, by the target tokens of the update, is later.

Legend: N target tokens, D width, V vocabulary; p and q the probabilities that two passes give the next token.
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
class Divergence:
    """How two passes are held together: the weights of KL(p||q), KL(q||p) and the second pass's cross-entropy."""

    p_to_q: float
    q_to_p: float
    second: float


@dataclass(frozen=True)
class LossSums:
    """Sums over target tokens; they add up over micro-batches and ranks.

    `loss` is what is minimised, `nll` the negative log-likelihood without smoothing, `divergence` that of two passes,
    without its weight (all nats); `n_correct` counts tokens whose most probable prediction was right. Of two passes,
    `nll`, `n_correct` and `n_tokens` are those of the first. All are tensors without dimensions but `n_tokens`.
    """

    loss: Tensor
    nll: Tensor
    divergence: Tensor
    n_correct: Tensor
    n_tokens: int

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums(
            self.loss + other.loss,
            self.nll + other.nll,
            self.divergence + other.divergence,
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
    return _sums((hidden,), weight, targets, smoothing, None)


def plain_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """`label_smoothed_cross_entropy(...).loss` as the formula has it: for reading, and for the test of the fused one.

    Its gradient with respect to the logits is softmax(logits) - wanted, which is what `_ChunkedLoss` makes at once.
    """
    log_probs = (hidden @ weight.T).log_softmax(-1)  # (N, V)
    n, v = log_probs.shape
    wanted = torch.full_like(log_probs, smoothing / v)  # the distribution that is to be predicted: a little for all,
    wanted[torch.arange(n), targets] += 1 - smoothing  # and most of it for the target
    return -(wanted * log_probs).sum()


def consistency_loss(
    first: Tensor, second: Tensor, weight: Tensor, targets: Tensor, smoothing: float, divergence: Divergence
) -> LossSums:
    """The same for two passes, first and second (N, D): cross-entropy of the first, weighted cross-entropy of the
    second, and weighted divergences between both, none of which is detached from the gradient."""
    return _sums((first, second), weight, targets, smoothing, divergence)


def _sums(
    passes: tuple[Tensor, ...], weight: Tensor, targets: Tensor, smoothing: float, divergence: Divergence | None
) -> LossSums:
    device = weight.device.type
    needs_grad = torch.is_grad_enabled() and (weight.requires_grad or any(hidden.requires_grad for hidden in passes))
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    loss, nll, kl, n_correct = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        weight, targets, smoothing, dtype, needs_grad, divergence, *passes
    )
    return LossSums(loss, nll, kl, n_correct, targets.numel())


class _ChunkedLoss(torch.autograd.Function):
    """Loss and gradient in one pass over blocks of rows.

    The cross-entropy's gradient of a row's logits is p - (1 - smoothing) * one_hot(target) - smoothing / V. The last
    term is the same for every logit, so its share of the products with weight and hidden is added afterwards.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        dtype: torch.dtype | None,
        needs_grad: bool,
        divergence: Divergence | None,
        *passes: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        compute, device = dtype or passes[0].dtype, weight.device
        # probabilities below 6e-8 vanish in fp16, so its gradients are multiplied in float32
        grad_dtype = torch.float32 if compute == torch.float16 else compute
        # how much of each pass's cross-entropy is learned
        shares = [1.0] if divergence is None else [1.0, divergence.second]
        with torch.autocast(device.type, enabled=False):
            w, hidden = weight.to(compute), [each.to(compute) for each in passes]
            w_grad, hidden_grad = w.to(grad_dtype), [each.to(grad_dtype) for each in hidden]
            grads = [torch.empty_like(each if needs_grad else each[:0]) for each in hidden_grad]
            learns_weight = needs_grad and ctx.needs_input_grad[0]  # not if it is frozen
            grad_weight = torch.zeros_like(weight if learns_weight else weight[:0])
            found = _Found(len(passes), len(targets), weight)
            block_rows = max(1, BLOCK_ELEMENTS[device.type] // len(w))
            for start in range(0, len(targets), block_rows):
                rows = slice(start, start + block_rows)
                target = targets[rows, None]
                logits = [each[rows] @ w.T for each in hidden]  # (rows, V) each
                probs = [each.softmax(-1, dtype=grad_dtype) for each in logits]  # calculates in float32
                found.note(rows, target, logits, probs)
                if divergence is not None:
                    found.diverge(rows, divergence, logits, probs)
                if not needs_grad:
                    continue
                for grad, h, logit_grad, share in zip(grads, hidden_grad, probs, shares, strict=True):
                    if share:
                        at = torch.arange(len(target), device=device)
                        logit_grad[at, target[:, 0]] -= share * (1 - smoothing)
                    grad[rows] = logit_grad @ w_grad
                    if learns_weight:
                        grad_weight += logit_grad.T @ h[rows]
            mean_weight = w.to(weight.dtype).mean(0)  # (D,): hidden @ mean_weight is the mean of a row's logits
            nll = (found.log_z - found.at_target).sum(-1)  # (passes,)
            kl, weighted_kl = found.divergences(divergence)
            loss = weighted_kl
            for i, (share, h) in enumerate(zip(shares, hidden, strict=True)):
                if not share:
                    continue
                mean_logit = h.to(weight.dtype) @ mean_weight
                loss = loss + share * ((1 - smoothing) * nll[i] - smoothing * (mean_logit - found.log_z[i]).sum())
                if needs_grad and smoothing:
                    grads[i] -= (share * smoothing * mean_weight).to(grad_dtype)
                    if learns_weight:
                        grad_weight -= share * smoothing / len(w) * h.sum(0, dtype=weight.dtype)
        ctx.save_for_backward(grad_weight, *grads)
        ctx.hidden_dtype = passes[0].dtype
        counted = nll[0], kl, found.n_correct
        ctx.mark_non_differentiable(*counted)
        return loss, *counted

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_weight, *grad_hidden = ctx.saved_tensors
        of_passes = [(each * grads[0]).to(ctx.hidden_dtype) for each in grad_hidden]
        of_weight = grad_weight * grads[0] if ctx.needs_input_grad[0] else None
        return of_weight, None, None, None, None, None, *of_passes


class _Found:
    """What the blocks of rows add up to, row by row."""

    def __init__(self, n_passes: int, n_rows: int, weight: Tensor) -> None:
        # of every row of each pass: the target's logit, the largest logit and its probability
        shape = (n_passes, n_rows)
        self.at_target, self._largest, self._most = torch.empty(3, *shape, dtype=weight.dtype, device=weight.device)
        self._cross = torch.zeros(2, n_rows, dtype=weight.dtype, device=weight.device)

    def note(self, rows: slice, target: Tensor, logits: list[Tensor], probs: list[Tensor]) -> None:
        """Take in a block of rows, logits and probs (rows, V) of each pass."""
        for i, (logit, prob) in enumerate(zip(logits, probs, strict=True)):
            self.at_target[i, rows] = logit.gather(-1, target)[:, 0]
            self._largest[i, rows], self._most[i, rows] = logit.amax(-1), prob.amax(-1)

    def diverge(self, rows: slice, divergence: Divergence, logits: list[Tensor], probs: list[Tensor]) -> None:
        """Turn the probabilities of a block, in place, into the gradient of the logits, but for the targets' part.

        With d the difference of the logits, a = sum(p d) and b = sum(q d), KL(p||q) has the gradients p (d - a) with
        respect to the first pass's logits and q - p to the second's, KL(q||p) has p - q and q (b - d).
        """
        p, q = probs
        there, back = divergence.p_to_q, divergence.q_to_p
        d = logits[0].to(p.dtype) - logits[1].to(p.dtype)
        dq = d * q if back else None
        dp = d.mul_(p)
        a = self._cross[0, rows, None] = dp.sum(-1, keepdim=True, dtype=self._cross.dtype)
        b = torch.zeros_like(a) if dq is None else dq.sum(-1, keepdim=True, dtype=self._cross.dtype)
        self._cross[1, rows, None] = b
        if dq is not None:
            dp.sub_(q, alpha=back / there)
        q.mul_((divergence.second + there + back * b).to(q.dtype)).sub_(p, alpha=there)
        if dq is not None:
            q.sub_(dq, alpha=back)
        p.mul_((1 + back - there * a).to(p.dtype)).add_(dp, alpha=there)

    @property
    def log_z(self) -> Tensor:
        """(passes, N) logarithm of what the exponentials of each row's logits add up to."""
        log_z: Tensor = self._largest - self._most.log()
        return log_z

    @property
    def n_correct(self) -> Tensor:
        """Rows of the first pass whose largest logit is the target's."""
        n_correct: Tensor = (self.at_target[0] >= self._largest[0]).sum()
        return n_correct

    def divergences(self, weights: Divergence | None) -> tuple[Tensor, Tensor]:
        """The divergence of all rows as a mean of both directions by their weights, and times these."""
        if weights is None:
            return (nothing := self._cross.new_zeros(())), nothing
        log_z = self.log_z
        constant = log_z[0] - log_z[1]
        p_to_q, q_to_p = (self._cross[0] - constant).sum(), (constant - self._cross[1]).sum()
        weighted = weights.p_to_q * p_to_q + weights.q_to_p * q_to_p
        return weighted / (weights.p_to_q + weights.q_to_p), weighted
