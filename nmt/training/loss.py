"""The training loss of a batch: forward passes, cross-entropy and divergence.

Plain training makes one pass, and its cross-entropy is the loss. Consistency training makes a second pass, which should
predict the same: R-Drop (Wu et al., 2021, arXiv:2106.14448) with other dropout, SimCut (Gao et al., 2022,
arXiv:2206.02368) with the embeddings of some tokens cut, CrossConST (Gao et al., 2023, arXiv:2305.07310) from the
target sentence as the source. Dropout and cuts are drawn from PyTorch's generator, which the
loop seeds for every update. Losses are sums, which the loop divides once by the update's target tokens.

Legend: N target tokens, D width, V vocabulary; p and q are the next-token probabilities of two passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.data.rows import AnyBatch, RowBatch
from nmt.model.device import row_step
from nmt.model.masks import Layout
from nmt.model.transformer import DecoderModel, EncoderModel, Model
from nmt.text.ids import EOS, SEPARATOR
from nmt.training.settings import TrainingConfig

# elements of a block of logits: small enough for a CPU's cache, large enough for fast matrix products
BLOCK_ELEMENTS = {"cpu": 2**23, "cuda": 2**27}


@dataclass(frozen=True)
class ConsistencyWeights:
    """Weights of KL(p||q), of KL(q||p), and of the cross-entropy of the second pass; the first pass has weight 1."""

    p_to_q: float
    q_to_p: float
    second: float


@dataclass(frozen=True)
class LossSums:
    """Sums over target tokens, which add up over micro-batches and ranks. All but the counts are scalar tensors (nats).

    With two passes, `nll`, `n_correct` and `n_tokens` are from the first.
    """

    loss: Tensor
    """The training loss, including label smoothing, divergence and the weighted loss of classes."""
    nll: Tensor
    """Negative log-likelihood, without label smoothing."""
    divergence: Tensor
    """Divergence of the two passes, unweighted."""
    n_correct: Tensor
    """Number of tokens whose most probable prediction is correct."""
    n_tokens: int
    class_nll: Tensor | float = 0.0
    """Negative log-likelihood of the classes of sequences, if they have classes."""
    n_class_correct: Tensor | float = 0.0
    """Number of sequences whose most probable class is correct."""
    n_classified: int = 0
    """Number of sequences with a class."""

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums(
            *(ours + theirs for ours, theirs in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    @property
    def loss_per_token(self) -> float:
        """The mean loss per token in nats, including label smoothing."""
        return float(self.loss.detach()) / max(self.n_tokens, 1)

    @property
    def perplexity(self) -> float:
        """The exponential of the mean negative log-likelihood, without label smoothing."""
        return math.exp(min(float(self.nll) / max(self.n_tokens, 1), 700.0))

    @property
    def accuracy(self) -> float:
        """The share of tokens whose most probable prediction is correct."""
        return float(self.n_correct) / max(self.n_tokens, 1)


Forward = Callable[..., Tensor]
"""The forward pass of a model, or its compiled version."""


_PLAIN = TrainingConfig(label_smoothing=0.0)
"""Settings of the loss without label smoothing and consistency training."""


def cross_entropy(model: Model, batch: AnyBatch, label_smoothing: float, forward: Forward | None = None) -> LossSums:
    """Return the loss of a batch with one forward pass, that is, without consistency training."""
    return token_loss(model, batch, _PLAIN.model_copy(update={"label_smoothing": label_smoothing}), forward)


def token_loss(
    model: Model,
    batch: AnyBatch,
    settings: TrainingConfig,
    forward: Forward | None = None,
    first_tag: int | None = None,
) -> LossSums:
    """Return the loss of a batch, summed over target tokens, with consistency training if it is set.

    forward: replaces the model's forward pass if given. first_tag: the id from which on pieces of the source are tags,
    which SimCut keeps; None: there are none.
    """
    forward = forward or model
    states = _states(batch, forward)
    first = FirstPass(model, batch, settings, states, scored(batch, states), scored(batch, batch.tgt_out))
    passes: tuple[Tensor, ...] = (first.hidden,)
    weights = None
    if settings.has_consistency:
        second_pass = SECOND_PASSES[settings.consistency]
        second, weights = second_pass(SecondPass(model, batch, settings, forward, first_tag))
        passes = (first.hidden, scored(batch, second))
    bias = model.output_bias
    fixed = model.fixed_rows
    sums = fused_loss(passes, model.output_weight, first.targets, settings.label_smoothing, weights, bias, fixed)
    for further_loss in FURTHER_LOSSES:
        sums = further_loss(sums, first)
    return sums


@dataclass(frozen=True)
class SecondPass:
    """The inputs of a second forward pass; for the fields see `token_loss`."""

    model: Model
    batch: AnyBatch
    settings: TrainingConfig
    forward: Forward
    first_tag: int | None


def rdrop(second: SecondPass) -> tuple[Tensor, ConsistencyWeights]:
    """Repeat the pass with other dropout; both passes learn equally."""
    half = second.settings.consistency_weight / 2
    return _states(second.batch, second.forward), ConsistencyWeights(p_to_q=half, q_to_p=half, second=1.0)


def simcut(second: SecondPass) -> tuple[Tensor, ConsistencyWeights]:
    """Repeat the pass with the embeddings of some tokens cut on both sides."""
    cut_rate = second.settings.cut_rate
    sees_source = second.model.sees_source
    kept = _kept(second.batch, cut_rate, second.first_tag, sees_source)
    return _states(second.batch, second.forward, *kept), _towards_second(second)


def crossconst(second: SecondPass) -> tuple[Tensor, ConsistencyWeights]:
    """Translate the target sentences into themselves."""
    assert isinstance(second.batch, RowBatch), "only rows have targets as sources"
    return _states(second.batch.from_target(), second.forward), _towards_second(second)


def _towards_second(second: SecondPass) -> ConsistencyWeights:
    return ConsistencyWeights(p_to_q=second.settings.consistency_weight, q_to_p=0.0, second=0.0)


SECOND_PASSES = {"rdrop": rdrop, "simcut": simcut, "crossconst": crossconst}
"""The second passes of consistency training, by `training.consistency`: their hidden states and weights."""


@dataclass(frozen=True)
class FirstPass:
    """The first forward pass, from which further losses are computed."""

    model: Model
    batch: AnyBatch
    settings: TrainingConfig
    states: Tensor
    """Its hidden states (B, T, D), of all tokens."""
    hidden: Tensor
    """Those of the target tokens in the loss, (N, D)."""
    targets: Tensor
    """The target tokens in the loss, (N,)."""


def add_classes(sums: LossSums, first: FirstPass) -> LossSums:
    """Add the loss of the classes of sequences, if the sequences have classes."""
    labels = first.batch.labels
    if labels is None:
        return sums
    logits = class_logits(first.model, first.batch, first.states)
    nll = F.cross_entropy(logits, labels, reduction="sum")
    n_correct = (logits.argmax(1) == labels).sum()
    loss = sums.loss + first.batch.label_weight * nll
    return replace(sums, loss=loss, class_nll=nll.detach(), n_class_correct=n_correct, n_classified=len(labels))


FURTHER_LOSSES: Sequence[Callable[[LossSums, FirstPass], LossSums]] = [
    add_classes,
]
"""Functions that add a loss to the sums of a batch, if its settings or the batch ask for it."""


def class_loss(model: Model, batch: AnyBatch, smoothing: float, forward: Forward | None = None) -> LossSums:
    """Return the cross-entropy of a text classifier, summed over texts. `n_tokens` is the number of texts."""
    labels = batch.labels
    assert labels is not None, "each text has a label"
    logits = class_logits(model, batch, _states(batch, forward or model))
    loss = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    nll = F.cross_entropy(logits.detach(), labels, reduction="sum")
    return LossSums(loss, nll, torch.zeros_like(nll), (logits.argmax(-1) == labels).sum(), len(labels))


def class_logits(model: Model, batch: AnyBatch, states: Tensor | None = None) -> Tensor:
    """Return the logits (B, C) of the classes of sequences, in float32. `states` are their hidden states, if known.

    If a batch that is not padded has no labels, rows to be ignored may follow.
    """
    assert isinstance(model, EncoderModel | DecoderModel) and model.head is not None, "only classifiers have logits"
    layout = batch.src_layout if isinstance(model, EncoderModel) else batch.tgt_layout
    if states is None:
        states = _states(batch, model)
    logits: Tensor = model.head(states, layout)
    if batch.labels is not None:  # other rows are to be ignored
        logits = logits[: len(batch.labels)]
    return logits.float()


def _states(
    batch: AnyBatch, forward: Forward, src_kept: Tensor | None = None, tgt_kept: Tensor | None = None
) -> Tensor:
    """Return the hidden states (B, T, D) of a batch with teacher forcing; (1, T, D) if it is packed."""
    src_layout: Layout = replace(batch.src_layout, kept=src_kept)
    tgt_layout: Layout = replace(batch.tgt_layout, kept=tgt_kept)
    return forward(batch.src, src_layout, batch.tgt_in, tgt_layout)


def scored(batch: AnyBatch, values: Tensor) -> Tensor:
    """Return the values (N, ...) of the target tokens in the loss, without padding, among those of all, (B, T, ...)."""
    flat = values.flatten(0, 1)
    return flat[: batch.n_tokens] if batch.token_indices is None else flat[batch.token_indices]


def _kept(batch: AnyBatch, cut_rate: float, first_tag: int | None, sees_source: bool = False) -> tuple[Tensor, Tensor]:
    """Draw which tokens of `src` and `tgt_in` keep their embeddings; tags and the end of the source always keep
    theirs.

    sees_source: whether the model reads the source in `tgt_in`, where a separator ends it.
    """
    src, tgt = (torch.rand(ids.shape, device=ids.device) >= cut_rate for ids in (batch.src, batch.tgt_in))
    sources = [(src, batch.src, EOS)]
    if sees_source:
        sources.append((tgt, batch.tgt_in, SEPARATOR))
    for kept, ids, end in sources:
        kept |= ids == end
        if first_tag is not None:
            kept |= ids >= first_tag
    return src, tgt


def plain_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, bias: Tensor | None = None
) -> Tensor:
    """Compute the loss of `fused_loss` for one pass in the simplest way, as a reference for readers and tests.

    Its gradient with respect to the logits is softmax(logits) - target_probs, which `_ChunkedLoss` computes directly.
    """
    log_probs = F.linear(hidden, weight, bias).log_softmax(-1)  # (N, V)
    n, v = log_probs.shape
    target_probs = torch.full_like(log_probs, smoothing / v)  # smoothing spread evenly over the vocabulary,
    target_probs[torch.arange(n), targets] += 1 - smoothing  # the rest on the target
    return -(target_probs * log_probs).sum()


def fused_loss(
    passes: tuple[Tensor, ...],
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    weights: ConsistencyWeights | None = None,
    bias: Tensor | None = None,
    fixed_rows: Sequence[int] = (),
) -> LossSums:
    """Return the label-smoothed cross-entropy of one pass, or the consistency loss of two passes.

    `passes` are hidden states (N, D), `weight` (V, D) and `bias` (V,) are those of the output layer, in which
    `fixed_rows` get no gradient, and `targets` (N,) int64 have no padding.
    The target distribution is (1 - smoothing) on the target and smoothing / V on every entry (Szegedy et al., 2016).
    With two passes, the loss is the cross-entropy of the first, the weighted cross-entropy of the second, and the
    weighted divergences in both directions. No term is detached, so both passes learn from all of it.

    Logits are computed a block of rows at a time and turned into their gradient at once, so that all N rows never exist
    together.
    """
    device = weight.device.type
    learners = (weight, bias, *passes)
    learns = any(tensor is not None and tensor.requires_grad for tensor in learners)
    needs_grad = torch.is_grad_enabled() and learns
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    if step := row_step(weight.device):
        passes = tuple(F.pad(hidden, (0, 0, 0, -len(hidden) % step)) for hidden in passes)
    terms = _Terms(smoothing, weights, dtype, needs_grad, tuple(fixed_rows))
    loss, nll, kl, n_correct = _ChunkedLoss.apply(weight, bias, targets, terms, *passes)  # type: ignore[no-untyped-call]
    return LossSums(loss, nll, kl, n_correct, targets.numel())


@dataclass(frozen=True)
class _Terms:
    """The arguments of `fused_loss` that are not tensors."""

    smoothing: float
    weights: ConsistencyWeights | None
    dtype: torch.dtype | None
    """The data type of products under autocast."""
    needs_grad: bool
    fixed_rows: tuple[int, ...]


def block_rows(n_pieces: int, device: torch.device) -> int:
    """Return the number of rows of logits that are computed at a time, for a vocabulary of `n_pieces`."""
    step = row_step(device) or 1
    return max(1, BLOCK_ELEMENTS[device.type] // n_pieces // step) * step


class _ChunkedLoss(torch.autograd.Function):
    """An autograd function that computes the loss and its gradient in a single pass over blocks of rows.

    The cross-entropy has the gradient p - (1 - smoothing) * one_hot(target) - smoothing / V with respect to the logits.
    The last term is the same for every logit, so its products with weight and hidden are added once afterwards.
    Rows of passes beyond the targets are zeros and have no part in the loss.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor | None, targets: Tensor, terms: _Terms, *passes: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        smoothing, weights, needs_grad = terms.smoothing, terms.weights, terms.needs_grad
        compute = terms.dtype or passes[0].dtype
        device, n = weight.device, len(targets)
        # fp16 underflows below 6e-8, so with fp16 the products of gradients are in float32
        grad_dtype = torch.float32 if compute == torch.float16 else compute
        ce_weights = [1.0] if weights is None else [1.0, weights.second]  # of each pass's cross-entropy
        with torch.autocast(device.type, enabled=False):
            w = weight.to(compute)
            hidden = [h.to(compute) for h in passes]
            w_grad = w.to(grad_dtype)
            hidden_grad = [h.to(grad_dtype) for h in hidden]
            grads = [torch.empty_like(h if needs_grad else h[:0]) for h in hidden_grad]
            learns_weight = needs_grad and ctx.needs_input_grad[0]  # not if it is frozen
            grad_weight = torch.zeros_like(weight if learns_weight else weight[:0])
            b = None if bias is None else bias.to(compute)
            grad_bias = None if bias is None or not (needs_grad and ctx.needs_input_grad[1]) else torch.zeros_like(bias)
            stats = _RowStats(len(passes), n, weight)
            for start in range(0, n, n_rows := block_rows(len(w), device)):
                rows = slice(start, start + n_rows)
                target = targets[rows, None]
                logits = [F.linear(h[rows], w, b) for h in hidden]  # (rows, V) each
                probs = [logit.softmax(-1, dtype=grad_dtype) for logit in logits]  # computed in float32
                stats.add(rows, target, logits, probs)
                if weights is not None:
                    stats.divergence_grad(rows, weights, logits, probs)
                if not needs_grad:
                    continue
                for grad, h, logit_grad, ce_weight in zip(grads, hidden_grad, probs, ce_weights, strict=True):
                    if ce_weight:
                        at = torch.arange(len(target), device=device)
                        logit_grad[at, target[:, 0]] -= ce_weight * (1 - smoothing)
                    logit_grad[len(target) :] = 0
                    grad[rows] = logit_grad @ w_grad
                    if learns_weight:
                        grad_weight += logit_grad.T @ h[rows]
                    if grad_bias is not None:
                        grad_bias += logit_grad.sum(0, dtype=grad_bias.dtype)
            # label smoothing: the uniform part of the target distribution needs only the mean of the logits
            mean_weight = w.to(weight.dtype).mean(0)  # (D,): hidden @ mean_weight is the mean of a row's logits
            mean_bias = 0.0 if b is None else b.to(weight.dtype).mean()
            nll = (stats.log_z - stats.target_logit).sum(-1)  # (passes,)
            kl, loss = stats.divergences(weights)
            for i, (ce_weight, h) in enumerate(zip(ce_weights, hidden, strict=True)):
                if not ce_weight:
                    continue
                mean_logit = (h.to(weight.dtype) @ mean_weight)[:n] + mean_bias
                loss = loss + ce_weight * ((1 - smoothing) * nll[i] - smoothing * (mean_logit - stats.log_z[i]).sum())
                if needs_grad and smoothing:
                    grads[i] -= (ce_weight * smoothing * mean_weight).to(grad_dtype)
                    if learns_weight:
                        grad_weight -= ce_weight * smoothing / len(w) * h.sum(0, dtype=weight.dtype)
                    if grad_bias is not None:
                        grad_bias -= ce_weight * smoothing / len(w) * n
            for learned in (grad_weight if learns_weight else None, grad_bias):
                _clear(learned, terms.fixed_rows)
        ctx.save_for_backward(grad_weight, grad_bias, *grads)
        ctx.hidden_dtype = passes[0].dtype
        reported = nll[0], kl, stats.n_correct
        ctx.mark_non_differentiable(*reported)
        return loss, *reported

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_weight, grad_bias, *grad_hidden = ctx.saved_tensors
        of_passes = [(grad * grads[0]).to(ctx.hidden_dtype) for grad in grad_hidden]
        of_weight = grad_weight * grads[0] if ctx.needs_input_grad[0] else None
        of_bias = None if grad_bias is None else grad_bias * grads[0]
        return of_weight, of_bias, None, None, *of_passes


def _clear(grad: Tensor | None, rows: Sequence[int]) -> None:
    """Set rows to 0, one by one: a list of indices is copied to a GPU, which the host waits for."""
    if grad is not None:
        for row in rows:
            grad[row] = 0


class _RowStats:
    """Statistics of every row of logits, filled in block by block."""

    def __init__(self, n_passes: int, n_rows: int, weight: Tensor) -> None:
        # per pass and row: the target's logit, the largest logit and its probability
        shape = (n_passes, n_rows)
        empty = torch.empty(3, *shape, dtype=weight.dtype, device=weight.device)
        self.target_logit, self._max_logit, self._max_prob = empty
        # per row: sum(p d) and sum(q d), with d the difference of the two passes' logits
        self._expected_diff = torch.zeros(2, n_rows, dtype=weight.dtype, device=weight.device)

    def add(self, rows: slice, target: Tensor, logits: list[Tensor], probs: list[Tensor]) -> None:
        """Add a block of rows: `target` (rows, 1), and `logits` and `probs` (rows or more, V) of each pass."""
        for i, (logit, prob) in enumerate(zip(logits, probs, strict=True)):
            self.target_logit[i, rows] = logit.gather(-1, target)[:, 0]
            n = len(target)
            self._max_logit[i, rows], self._max_prob[i, rows] = logit.amax(-1)[:n], prob.amax(-1)[:n]

    def divergence_grad(
        self, rows: slice, weights: ConsistencyWeights, logits: list[Tensor], probs: list[Tensor]
    ) -> None:
        """Replace the probabilities of a block in place by the gradient of the logits, without the term of the targets.

        With d the difference of the logits, a = sum(p d) and b = sum(q d), KL(p||q) has the gradients p (d - a) with
        respect to the first pass's logits and q - p to the second's, KL(q||p) has p - q and q (b - d).
        """
        p, q = probs
        forward = weights.p_to_q
        reverse = weights.q_to_p
        d = logits[0].to(p.dtype) - logits[1].to(p.dtype)
        dq = d * q if reverse else None
        dp = d.mul_(p)
        a = dp.sum(-1, keepdim=True, dtype=self._expected_diff.dtype)
        b = torch.zeros_like(a) if dq is None else dq.sum(-1, keepdim=True, dtype=self._expected_diff.dtype)
        n_targets = self._expected_diff[0, rows].numel()
        self._expected_diff[:, rows] = torch.stack((a[:n_targets, 0], b[:n_targets, 0]))
        if dq is not None:
            dp.sub_(q, alpha=reverse / forward)
        q.mul_((weights.second + forward + reverse * b).to(q.dtype)).sub_(p, alpha=forward)
        if dq is not None:
            q.sub_(dq, alpha=reverse)
        p.mul_((1 + reverse - forward * a).to(p.dtype)).add_(dp, alpha=forward)

    @property
    def log_z(self) -> Tensor:
        """The logsumexp of the logits of each pass and row, (passes, N)."""
        log_z: Tensor = self._max_logit - self._max_prob.log()
        return log_z

    @property
    def n_correct(self) -> Tensor:
        """The number of rows of the first pass in which the target has the largest logit."""
        n_correct: Tensor = (self.target_logit[0] >= self._max_logit[0]).sum()
        return n_correct

    def divergences(self, weights: ConsistencyWeights | None) -> tuple[Tensor, Tensor]:
        """Return the divergence summed over rows, as the weighted mean and as the weighted sum of both directions."""
        if weights is None:
            return (zero := self._expected_diff.new_zeros(())), zero
        log_z = self.log_z
        constant = log_z[0] - log_z[1]
        p_to_q = (self._expected_diff[0] - constant).sum()
        q_to_p = (constant - self._expected_diff[1]).sum()
        weighted = weights.p_to_q * p_to_q + weights.q_to_p * q_to_p
        return weighted / (weights.p_to_q + weights.q_to_p), weighted
