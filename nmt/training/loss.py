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
    sums = fused_loss(
        passes,
        model.output_weight,
        first.targets,
        settings.label_smoothing,
        weights,
        model.output_bias,
        model.fixed_rows,
    )
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
    kept = _kept(second.batch, second.settings.cut_rate, second.first_tag, second.model.sees_source)
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
    """The hidden states of the target tokens in the loss, (N, D)."""
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
    """Return the values (N, ...) of the target tokens in the loss, without padding, out of all (B, T, ...)."""
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

    `passes` are hidden states (N, D), `weight` (V, D) and `bias` (V,) belong to the output layer, in which `fixed_rows`
    get no gradient, and `targets` (N,) int64 have no padding.
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
        n = len(targets)
        ctx.hidden_dtype = passes[0].dtype
        learns = [terms.needs_grad and needs for needs in ctx.needs_input_grad]  # frozen tensors need none
        with torch.autocast(weight.device.type, enabled=False):
            output = _OutputLayer(weight, bias, terms.dtype or passes[0].dtype, learns[0], learns[1])
            stats = weight.new_empty(3, len(passes), n)
            weights = [1.0] if terms.weights is None else [1.0, terms.weights.second]
            accumulators = [
                _Pass(hidden, ce_weight, targets, output, terms, of_pass)
                for hidden, ce_weight, of_pass in zip(passes, weights, stats.unbind(1), strict=True)
            ]
            divergence = None if terms.weights is None else _Divergence(terms.weights, weight.new_zeros(2, n))
            for start in range(0, n, n_rows := block_rows(len(weight), weight.device)):
                rows = slice(start, start + n_rows)
                for accumulator in accumulators:
                    accumulator.predict(rows)
                if divergence is not None:
                    divergence.add(rows, *accumulators)
                if terms.needs_grad:
                    for accumulator in accumulators:
                        accumulator.learn(rows)
            target_logit, max_logit, max_prob = stats
            log_z = max_logit - max_prob.log()  # (passes, N): the logsumexp of the logits
            nll = (log_z - target_logit).sum(-1)  # (passes,)
            kl = loss = stats.new_zeros(())
            if divergence is not None:
                kl, loss = divergence.sums(log_z[0] - log_z[1])
            for i, accumulator in enumerate(accumulators):
                if accumulator.ce_weight:
                    loss = loss + accumulator.cross_entropy(nll[i], log_z[i])
            output.clear(terms.fixed_rows)
        ctx.save_for_backward(output.weight_grad, output.bias_grad, *(accumulator.grad for accumulator in accumulators))
        reported = nll[0], kl, (target_logit[0] >= max_logit[0]).sum()
        ctx.mark_non_differentiable(*reported)
        return loss, *reported

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight_grad, bias_grad, *hidden_grads = ctx.saved_tensors
        of_passes = [(grad * grads[0]).to(ctx.hidden_dtype) for grad in hidden_grads]
        of_weight, of_bias = (None if grad is None else grad * grads[0] for grad in (weight_grad, bias_grad))
        return of_weight, of_bias, None, None, *of_passes


class _OutputLayer:
    """The output layer, and the gradients of its weight and bias, which add up over blocks and passes."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, learns_weight: bool, learns_bias: bool
    ) -> None:
        """`dtype` is the type of the logits."""
        self.weight = weight.to(dtype)
        self.bias = None if bias is None else bias.to(dtype)
        # fp16 underflows below 6e-8, so with fp16 the products of gradients are in float32
        self.grad_dtype = torch.float32 if dtype == torch.float16 else dtype
        self._weight_of_grad = self.weight.to(self.grad_dtype)
        self.weight_grad = torch.zeros_like(weight) if learns_weight else None
        self.bias_grad = None if bias is None or not learns_bias else torch.zeros_like(bias)
        # label smoothing: the uniform part of the target distribution needs only the mean of the logits
        self.mean_weight = self.weight.to(weight.dtype).mean(0)  # (D,): hidden @ mean_weight is the mean of a row
        self.mean_bias = 0.0 if bias is None else bias.to(dtype).to(weight.dtype).mean()

    def learn(self, logit_grad: Tensor, hidden: Tensor) -> Tensor:
        """Add the gradients of a block of rows, and return the gradient of its hidden states."""
        if self.weight_grad is not None:
            self.weight_grad += logit_grad.T @ hidden
        if self.bias_grad is not None:
            self.bias_grad += logit_grad.sum(0, dtype=self.bias_grad.dtype)
        return logit_grad @ self._weight_of_grad

    def learn_smoothing(self, share: float, hidden: Tensor, n: int) -> None:
        """Add the gradients of label smoothing in a pass with `n` targets."""
        share /= len(self.weight)
        if self.weight_grad is not None:
            self.weight_grad -= share * hidden.sum(0, dtype=self.mean_weight.dtype)
        if self.bias_grad is not None:
            self.bias_grad -= share * n

    def clear(self, rows: Sequence[int]) -> None:
        """Set rows of the gradients to 0, one by one: a list of indices is copied to a GPU, which the host waits
        for."""
        for grad in (self.weight_grad, self.bias_grad):
            if grad is not None:
                for row in rows:
                    grad[row] = 0


class _Pass:
    """The statistics of the logits of one pass, and the gradient of its hidden states, filled in block by block."""

    def __init__(
        self, hidden: Tensor, ce_weight: float, targets: Tensor, output: _OutputLayer, terms: _Terms, stats: Tensor
    ) -> None:
        """`ce_weight` is the weight of its cross-entropy. `stats` (3, N) gets the logit of the target, the largest
        logit and its probability of each row."""
        self.ce_weight = ce_weight
        self._hidden = hidden.to(output.weight.dtype)
        self._hidden_of_grad = self._hidden.to(output.grad_dtype)
        self.grad = torch.empty_like(self._hidden_of_grad if terms.needs_grad else hidden[:0])
        self._targets = targets
        self._output = output
        self._terms = terms
        self._stats = stats

    def predict(self, rows: slice) -> None:
        """Compute the logits and probabilities (rows or more, V) of a block."""
        target = self._targets[rows, None]
        n = len(target)
        self.logits = F.linear(self._hidden[rows], self._output.weight, self._output.bias)
        self.probs = self.logits.softmax(-1, dtype=self._output.grad_dtype)  # computed in float32
        of_rows = self.logits.gather(-1, target)[:, 0], self.logits.amax(-1)[:n], self.probs.amax(-1)[:n]
        for stat, of_row in zip(self._stats, of_rows, strict=True):
            stat[rows] = of_row

    def learn(self, rows: slice) -> None:
        """Turn the probabilities of a block into the gradient of its logits, and add the gradients."""
        target = self._targets[rows]
        if self.ce_weight:
            at = torch.arange(len(target), device=target.device)
            self.probs[at, target] -= self.ce_weight * (1 - self._terms.smoothing)
        self.probs[len(target) :] = 0
        self.grad[rows] = self._output.learn(self.probs, self._hidden_of_grad[rows])

    def cross_entropy(self, nll: Tensor, log_z: Tensor) -> Tensor:
        """Return the weighted cross-entropy of all rows, and add the gradients of label smoothing.

        nll: the sum of negative log-likelihoods. log_z: the logsumexp of the logits of each row, (N,).
        """
        output, smoothing, n = self._output, self._terms.smoothing, len(self._targets)
        if self._terms.needs_grad and smoothing:
            share = self.ce_weight * smoothing
            self.grad -= (share * output.mean_weight).to(self.grad.dtype)
            output.learn_smoothing(share, self._hidden, n)
        mean_logit = (self._hidden.to(output.mean_weight.dtype) @ output.mean_weight)[:n] + output.mean_bias
        return self.ce_weight * ((1 - smoothing) * nll - smoothing * (mean_logit - log_z).sum())


class _Divergence:
    """The divergences of two passes, with d the difference of their logits."""

    def __init__(self, weights: ConsistencyWeights, expected_diff: Tensor) -> None:
        """`expected_diff` (2, N), zeros, gets sum(p d) and sum(q d) of each row."""
        self._weights = weights
        self._expected_diff = expected_diff

    def add(self, rows: slice, first: _Pass, second: _Pass) -> None:
        """Replace the probabilities of a block in place by the gradient of the logits, without the term of the targets.

        With a = sum(p d) and b = sum(q d), KL(p||q) has the gradients p (d - a) with respect to the first pass's logits
        and q - p to the second's, KL(q||p) has p - q and q (b - d).
        """
        p, q = first.probs, second.probs
        forward = self._weights.p_to_q
        reverse = self._weights.q_to_p
        d = first.logits.to(p.dtype) - second.logits.to(p.dtype)
        dq = d * q if reverse else None
        dp = d.mul_(p)
        a = dp.sum(-1, keepdim=True, dtype=self._expected_diff.dtype)
        b = torch.zeros_like(a) if dq is None else dq.sum(-1, keepdim=True, dtype=self._expected_diff.dtype)
        n_targets = self._expected_diff[0, rows].numel()
        self._expected_diff[:, rows] = torch.stack((a[:n_targets, 0], b[:n_targets, 0]))
        if dq is not None:
            dp.sub_(q, alpha=reverse / forward)
        q.mul_((self._weights.second + forward + reverse * b).to(q.dtype)).sub_(p, alpha=forward)
        if dq is not None:
            q.sub_(dq, alpha=reverse)
        p.mul_((1 + reverse - forward * a).to(p.dtype)).add_(dp, alpha=forward)

    def sums(self, constant: Tensor) -> tuple[Tensor, Tensor]:
        """Return the divergence summed over rows, as the weighted mean and as the weighted sum of both directions.

        constant: the difference of the logsumexp of both passes' logits, (N,).
        """
        p_to_q = (self._expected_diff[0] - constant).sum()
        q_to_p = (constant - self._expected_diff[1]).sum()
        weights = self._weights
        weighted = weights.p_to_q * p_to_q + weights.q_to_p * q_to_p
        return weighted / (weights.p_to_q + weights.q_to_p), weighted
