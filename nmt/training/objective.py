"""Which forward passes an update makes, and the loss of them: today one pass and its cross-entropy."""

from __future__ import annotations

from nmt.data.batching import Batch
from nmt.model.masks import Padded
from nmt.model.transformer import Transformer
from nmt.training.loss import LossSums, label_smoothed_cross_entropy


def objective(model: Transformer, batch: Batch, label_smoothing: float) -> LossSums:
    """The loss sums of a batch in teacher forcing; only real target tokens reach the output layer."""
    tgt_mask = batch.tgt_mask
    hidden = model(batch.src, Padded(batch.src_mask), batch.tgt_in, Padded(tgt_mask))  # (B, T, D)
    return label_smoothed_cross_entropy(hidden[tgt_mask], model.output_weight, batch.tgt_out[tgt_mask], label_smoothing)
