"""The training objective: which forward passes an update makes, and their loss.

Plain training makes one, and its cross-entropy is the loss. Consistency training makes a second one that has to predict
the same: R-Drop (Wu et al., 2021, arXiv:2106.14448) with other dropout, SimCut (Gao et al., 2022, arXiv:2206.02368)
with the embeddings of some tokens cut. Dropout and cuts are drawn from PyTorch's generator, which the loop seeds for
every update.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.config import TrainingConfig
from nmt.data.batching import Batch
from nmt.data.packing import PackedBatch
from nmt.model.masks import Packed, Padded
from nmt.model.precision import row_step
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS
from nmt.training.loss import ConsistencyWeights, LossSums, consistency_loss, label_smoothed_cross_entropy

Forward = Callable[..., Tensor]
"""The model itself, or its compiled version."""


def objective(
    model: Transformer,
    batch: Batch | PackedBatch,
    settings: TrainingConfig,
    forward: Forward | None = None,
    step: int | None = None,
) -> LossSums:
    """Return the loss of a batch, as sums over the target tokens of one pass.

    `step`: number of updates made so far; None: consistency training has started.
    """
    weight, smoothing = settings.consistency_weight, settings.label_smoothing
    is_plain = step is not None and step < settings.consistency_start
    if settings.consistency == "none" or not weight or is_plain:
        return cross_entropy(model, batch, smoothing, forward)
    forward = model if forward is None else forward
    first, targets = _hidden(batch, forward)
    if settings.consistency == "rdrop":
        second, _ = _hidden(batch, forward)
        weights = ConsistencyWeights(p_to_q=weight / 2, q_to_p=weight / 2, second=1.0)
    else:
        second, _ = _hidden(batch, forward, *_kept(batch, settings.cut_rate))
        weights = ConsistencyWeights(p_to_q=weight, q_to_p=0.0, second=0.0)
    return consistency_loss(first, second, model.output_weight, targets, smoothing, weights)


def cross_entropy(
    model: Transformer, batch: Batch | PackedBatch, label_smoothing: float, forward: Forward | None = None
) -> LossSums:
    """Return the loss sums of one pass, without consistency training."""
    hidden, targets = _hidden(batch, model if forward is None else forward)
    return label_smoothed_cross_entropy(hidden, model.output_weight, targets, label_smoothing)


def _hidden(
    batch: Batch | PackedBatch, forward: Forward, src_kept: Tensor | None = None, tgt_kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return hidden states (N, D), with teacher forcing, and targets (N,) of the real target tokens.

    Padding never reaches the output layer."""
    if isinstance(batch, Batch):
        step = row_step(batch.src.device) if isinstance(forward, Transformer) else 0  # compiled models have one code
        src_layout, tgt_layout = Padded(batch.src_mask, step), Padded(batch.tgt_mask, step)
        hidden = forward(batch.src, src_layout, batch.tgt_in, tgt_layout, src_kept, tgt_kept)  # (B, T, D)
        return hidden.flatten(0, 1)[batch.token_indices], batch.tgt_out.flatten()[batch.token_indices]
    src_rows = Packed(batch.src_bounds, batch.src_positions, batch.max_len)
    tgt_rows = Packed(batch.tgt_bounds, batch.tgt_positions, batch.max_len)
    hidden = forward(batch.src, src_rows, batch.tgt_in, tgt_rows, src_kept, tgt_kept)  # (1, T, D)
    return hidden[0, : batch.n_tokens], batch.tgt_out[0, : batch.n_tokens]


def _kept(batch: Batch | PackedBatch, cut_rate: float) -> tuple[Tensor, Tensor]:
    """Draw which tokens keep their embeddings, bool like `src` and `tgt_in`; the end of the source always does."""
    src, tgt = (torch.rand(ids.shape, device=ids.device) >= cut_rate for ids in (batch.src, batch.tgt_in))
    return src | (batch.src == EOS), tgt
