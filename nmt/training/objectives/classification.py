"""Classification of texts: the loss of an update is the mean over its texts, not over their tokens.

Legend: N texts, C labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.data.batching import Pairs, Update
from nmt.data.lines import Indices, Lines, Segments, Side
from nmt.data.rows import AnyBatch, RowBatch, RowPacking
from nmt.evaluate.metrics import class_scores
from nmt.model.device import autocast
from nmt.model.transformer import Model
from nmt.text.ids import EOS
from nmt.training.loss import Forward, LossSums, class_logits, class_loss
from nmt.training.objective import Objective
from nmt.training.validate import Execution, SplitValidator, Validation


class Classification(Objective):
    """Classification of texts, each with a label."""

    def examples(self, src: Side, tgt: Side, mono: Sequence[Side] = (), segments: Segments | None = None) -> Pairs:  # noqa: ARG002
        """Return pairs that have a text on both sides, and its label."""
        labels = tgt.gather(np.arange(len(tgt)), EOS)[:, 0]  # a label is one id
        return Pairs(src, src, segments, labels=labels)

    def learned(self, pairs: Pairs, update: Update, epoch: int) -> tuple[Pairs | None, Update]:  # noqa: ARG002
        """Return the update with the number of its texts in place of their tokens."""
        return None, Update(update.rows, len(update.rows))

    def loss(self, model: Model, batch: AnyBatch, forward: Forward | None = None) -> LossSums:
        """Return the loss of a batch, summed over texts."""
        return class_loss(model, batch, self.settings.label_smoothing, forward)


class ClassValidator(SplitValidator):
    """A validator that predicts the labels of the development set."""

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        found_logits = []
        found_labels = []
        for batch, _, logits in batched_logits(model, self.pairs, self.execution):
            poll()
            assert batch.labels is not None, "each text has a label"
            found_logits.append(logits.log_softmax(-1).cpu())
            found_labels.append(batch.labels)
        log_probs, labels = torch.cat(found_logits), torch.cat(found_labels)  # (N, C), (N,)
        loss = float(-log_probs[torch.arange(len(labels)), labels].mean())
        scores = class_scores(log_probs.exp().numpy(), labels.numpy())
        return Validation(loss, loss, math.exp(min(loss, 700.0)), scores.accuracy, {"macro_f1": scores.macro_f1})


@torch.inference_mode()
def batched_logits(model: Model, pairs: Pairs, execution: Execution) -> Iterator[tuple[RowBatch, Indices, Tensor]]:
    """Yield batches of pairs, their rows (N,), and the logits (N, C) of their classes."""
    packing = RowPacking(pairs)
    for rows in packing.split(np.arange(len(pairs)), execution.max_tokens):
        batch = packing.batch(rows)
        with autocast(execution.precision, execution.device):
            logits = class_logits(model, batch.to(execution.device))
        yield batch, rows, logits[: len(rows)]


def sequence_logits(
    model: Model, sequences: Sequence[Indices], execution: Execution, done: Callable[[int], None] | None = None
) -> Tensor:
    """Return the logits (N, C) of the classes of sequences of ids, at least one.

    `done` is called with the number of sequences of each batch.
    """
    lines = Lines.of(list(sequences))
    found_rows = []
    found_logits = []
    for _, rows, logits in batched_logits(model, Pairs(lines, lines), execution):
        found_rows.append(rows)
        found_logits.append(logits.cpu())
        if done is not None:
            done(len(rows))
    order = np.argsort(np.concatenate(found_rows))
    return torch.cat(found_logits)[torch.from_numpy(order)]
