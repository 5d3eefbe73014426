"""Validation of classifiers: loss, accuracy and macro F1 of the development set."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from nmt.data.batching import even_batches
from nmt.evaluate.metrics import class_scores
from nmt.model.precision import autocast
from nmt.model.transformer import Model
from nmt.training.objective import class_logits
from nmt.training.validate import Validation, Validator


class ClassValidator(Validator):
    """Validates weights on the labels of the development set."""

    def validate(self, model: Model, poll: Callable[[], None] = lambda: None) -> Validation:
        """Return loss and scores of `model`, which is in training mode again afterwards; `poll`: see `Validator`."""
        model.eval()
        try:
            log_probs, labels = self._predicted(model, poll)
        finally:
            model.train()
        loss = float(-log_probs[torch.arange(len(labels)), labels].mean())
        scores = class_scores(log_probs.exp().numpy(), labels.numpy())
        return Validation(loss, loss, math.exp(min(loss, 700.0)), scores.accuracy, {"macro_f1": scores.macro_f1})

    @torch.inference_mode()
    def _predicted(self, model: Model, poll: Callable[[], None]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-probabilities (N, C) and the classes (N,) of the development set, by length."""
        log_probs, labels = [], []
        for rows in even_batches(self.pairs.lengths, self.max_tokens):
            poll()
            batch = self.pairs.batch(rows)
            assert batch.labels is not None, "there is a label for each text"
            with autocast(self.precision, self.device):
                logits = class_logits(model, batch.to(self.device))
            log_probs.append(logits.log_softmax(-1).cpu())
            labels.append(batch.labels)
        return torch.cat(log_probs), torch.cat(labels)
