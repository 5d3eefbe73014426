"""Which forward passes an update makes, and the loss of them: today one pass and its cross-entropy."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from nmt.data.batching import Batch
from nmt.data.packing import PackedBatch
from nmt.model.masks import Layout, Packed, Padded
from nmt.model.transformer import Transformer
from nmt.training.loss import LossSums, label_smoothed_cross_entropy

Forward = Callable[[Tensor, Layout, Tensor, Layout], Tensor]
"""The model itself, or the same compiled."""


def objective(
    model: Transformer, batch: Batch | PackedBatch, label_smoothing: float, forward: Forward | None = None
) -> LossSums:
    """The loss sums of a batch in teacher forcing; only real target tokens reach the output layer."""
    forward = model if forward is None else forward
    if isinstance(batch, Batch):
        hidden = forward(batch.src, Padded(batch.src_mask), batch.tgt_in, Padded(batch.tgt_mask))  # (B, T, D)
        hidden, targets = hidden.flatten(0, 1)[batch.places], batch.tgt_out.flatten()[batch.places]
    else:
        src_layout = Packed(batch.src_bounds, batch.src_positions, batch.max_len)
        tgt_layout = Packed(batch.tgt_bounds, batch.tgt_positions, batch.max_len)
        hidden = forward(batch.src, src_layout, batch.tgt_in, tgt_layout)  # (1, T, D)
        hidden, targets = hidden[0, : batch.n_tokens], batch.tgt_out[0, : batch.n_tokens]
    return label_smoothed_cross_entropy(hidden, model.output_weight, targets, label_smoothing)
