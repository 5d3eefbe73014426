"""Which forward passes an update makes, and the loss of them: today one pass and its cross-entropy."""

from __future__ import annotations

from nmt.data.batching import Batch
from nmt.model.masks import Padded
from nmt.model.transformer import Transformer
from nmt.training.loss import LossSums, label_smoothed_cross_entropy


def objective(model: Transformer, batch: Batch, label_smoothing: float) -> LossSums:
    """The loss sums of a batch in teacher forcing; only real target tokens reach the output layer."""
    hidden = model(batch.src, Padded(batch.src_mask), batch.tgt_in, Padded(batch.tgt_mask))  # (B, T, D)
    hidden, targets = hidden.flatten(0, 1)[batch.places], batch.tgt_out.flatten()[batch.places]
    return label_smoothed_cross_entropy(hidden, model.output_weight, targets, label_smoothing)
