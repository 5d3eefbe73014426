"""The training objective: which forward passes an update makes, and their loss.

Plain training makes one, and its cross-entropy is the loss. Consistency training makes a second one that has to predict
the same: R-Drop (Wu et al., 2021, arXiv:2106.14448) with other dropout, SimCut (Gao et al., 2022, arXiv:2206.02368)
with the embeddings of some tokens cut. Dropout and cuts are drawn from PyTorch's generator, which the loop seeds for
every update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import TrainingConfig
from nmt.data.batching import Batch, PackedBatch
from nmt.model.masks import Layout, Packed, Padded
from nmt.model.precision import row_step
from nmt.model.stacks import DecoderModel, EncoderModel
from nmt.model.transformer import Model
from nmt.text.tokenizer import EOS
from nmt.training.loss import (
    ClassSums,
    ConsistencyWeights,
    LossSums,
    consistency_loss,
    label_smoothed_cross_entropy,
    weighted_nll,
)
from nmt.training.parallel import is_sharded

Forward = Callable[..., Tensor]
"""The model itself, or its compiled version."""


class Objective(nn.Module):
    """Model and loss in one module, to wrap for several processes: all passes of a micro-batch are one call."""

    def __init__(self, model: Model, settings: TrainingConfig, forward: Forward | None = None) -> None:
        """`forward`: replaces the model's forward pass if given."""
        super().__init__()
        self.model, self._settings, self._run = model, settings, forward

    def forward(self, batch: Batch | PackedBatch, step: int | None) -> LossSums:
        """Return the loss of a batch, see `objective`."""
        return objective(self.model, batch, self._settings, self._run, step)


def objective(
    model: Model,
    batch: Batch | PackedBatch,
    settings: TrainingConfig,
    forward: Forward | None = None,
    step: int | None = None,
) -> LossSums:
    """Return the loss of a batch, summed over the target tokens of one pass or, for classes, over texts.

    `step`: number of updates made so far; None: consistency training has started.
    """
    weight, smoothing = settings.consistency_weight, settings.label_smoothing
    if settings.objective == "classification":
        return classes_loss(model, batch, smoothing, settings.classification.lm_weight, forward)
    is_plain = step is not None and step < settings.consistency_start
    if settings.consistency == "none" or not weight or is_plain:
        return cross_entropy(model, batch, smoothing, forward)
    forward = model if forward is None else forward
    states = _states(batch, forward)
    first, targets = _scored(batch, states)
    if settings.consistency == "rdrop":
        second, _ = _scored(batch, _states(batch, forward))
        weights = ConsistencyWeights(p_to_q=weight / 2, q_to_p=weight / 2, second=1.0)
    else:
        second, _ = _scored(batch, _states(batch, forward, *_kept(batch, settings.cut_rate)))
        weights = ConsistencyWeights(p_to_q=weight, q_to_p=0.0, second=0.0)
    sums = consistency_loss(first, second, model.output_weight, targets, smoothing, weights)
    return _with_classes(sums, model, batch, states)


def cross_entropy(
    model: Model, batch: Batch | PackedBatch, label_smoothing: float, forward: Forward | None = None
) -> LossSums:
    """Return the loss sums of one pass, without consistency training."""
    states = _states(batch, model if forward is None else forward)
    hidden, targets = _scored(batch, states)
    sums = label_smoothed_cross_entropy(hidden, model.output_weight, targets, label_smoothing)
    return _with_classes(sums, model, batch, states)


def classes_loss(
    model: Model, batch: Batch | PackedBatch, smoothing: float, lm_weight: float = 0.0, forward: Forward | None = None
) -> LossSums:
    """Return the cross-entropy of the classes of texts, summed over the texts.

    To each the loss of a language model of the text is added, `lm_weight` times the mean over its pieces and the end.
    `nll` is of the classes alone, `n_tokens` the number of texts.
    """
    labels = batch.labels
    assert labels is not None, "there is a label for each text"
    states = _states(batch, model if forward is None else forward)
    logits = class_logits(model, batch, states)
    loss = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    nll = F.cross_entropy(logits.detach(), labels, reduction="sum")
    if lm_weight:
        hidden, targets = _scored(batch, states)
        lengths = batch.tgt_mask.sum(1) if isinstance(batch, Batch) else batch.tgt_bounds.diff()[: len(labels)]
        # without the size, the host would wait for a GPU to tell it
        weights = (lm_weight / lengths).repeat_interleave(lengths, output_size=len(targets))
        loss = loss + weighted_nll(hidden, model.output_weight, targets, weights)
    return LossSums(loss, nll, torch.zeros_like(nll), (logits.argmax(-1) == labels).sum(), len(labels))


def class_logits(model: Model, batch: Batch | PackedBatch, states: Tensor | None = None) -> Tensor:
    """Return the logits (B, C) of the classes of sequences, in float32; `states` are their hidden states, if known."""
    assert isinstance(model, EncoderModel | DecoderModel) and model.head is not None, "its objective has classes"
    layout = _layout(batch, "src" if isinstance(model, EncoderModel) else "tgt")
    logits: Tensor = model.head(_states(batch, model) if states is None else states, layout)
    if batch.labels is not None:  # packed sentences are followed by others without tokens
        logits = logits[: len(batch.labels)]
    return logits.float()


def _states(
    batch: Batch | PackedBatch, forward: Forward, src_kept: Tensor | None = None, tgt_kept: Tensor | None = None
) -> Tensor:
    """Return hidden states (B, T, D), with teacher forcing; packed (1, T, D)."""
    step = 0
    # compiled models have one code; what a sharded model returns must not be a view, as it is of rows
    if isinstance(batch, Batch) and isinstance(forward, Model) and not is_sharded(forward):
        step = row_step(batch.src.device)
    src_layout, tgt_layout = _layout(batch, "src", step), _layout(batch, "tgt", step)
    return forward(batch.src, src_layout, batch.tgt_in, tgt_layout, src_kept, tgt_kept)


def _layout(batch: Batch | PackedBatch, side: Literal["src", "tgt"], row_step: int = 0) -> Layout:
    """Return the layout of one side's sentences in the batch."""
    if isinstance(batch, Batch):
        return Padded(batch.src_mask if side == "src" else batch.tgt_mask, row_step)
    if side == "src":
        return Packed(batch.src_bounds, batch.src_positions, batch.max_len)
    return Packed(batch.tgt_bounds, batch.tgt_positions, batch.max_len)


def _scored(batch: Batch | PackedBatch, states: Tensor) -> tuple[Tensor, Tensor]:
    """Return hidden states (N, D) and targets (N,) of the target tokens in the loss.

    Padding never reaches the output layer."""
    if batch.token_indices is not None:
        return states.flatten(0, 1)[batch.token_indices], batch.tgt_out.flatten()[batch.token_indices]
    return states[0, : batch.n_tokens], batch.tgt_out[0, : batch.n_tokens]


def _with_classes(sums: LossSums, model: Model, batch: Batch | PackedBatch, states: Tensor) -> LossSums:
    """Add the loss of the sequences' classes, if they have classes."""
    if batch.labels is None:
        return sums
    logits = class_logits(model, batch, states)
    nll = F.cross_entropy(logits, batch.labels, reduction="sum")
    n_correct = (logits.argmax(1) == batch.labels).sum()
    classes = ClassSums(nll.detach(), n_correct, len(batch.labels))
    return replace(sums, loss=sums.loss + batch.label_weight * nll, classes=classes)


def _kept(batch: Batch | PackedBatch, cut_rate: float) -> tuple[Tensor, Tensor]:
    """Draw which tokens keep their embeddings, bool like `src` and `tgt_in`; the end of the source always does."""
    src, tgt = (torch.rand(ids.shape, device=ids.device) >= cut_rate for ids in (batch.src, batch.tgt_in))
    return src | (batch.src == EOS), tgt
