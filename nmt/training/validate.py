"""Validation: the loss on the development set, by teacher forcing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from nmt.config import Config
from nmt.data.batching import even_batches
from nmt.data.corpus import Corpus, lines_of
from nmt.data.examples import learned_pairs, objective_change
from nmt.model.precision import autocast
from nmt.model.transformer import Model
from nmt.training.loss import LossSums
from nmt.training.objective import cross_entropy

VALIDATION_SEED = 0
"""Of what an objective changes in the development set, which is the same whatever the seed of the training."""


AttentionPlot = tuple[npt.NDArray[np.float32], Sequence[str], Sequence[str]]
"""Weights (T, S), and the pieces of source and target."""


@dataclass(frozen=True)
class Validation:
    """Scores of the development set; `loss` is without smoothing (nats per token, of classes per text), and `nll` also
    without the classes of the pair task."""

    loss: float
    nll: float
    perplexity: float
    accuracy: float
    scores: dict[str, float] = field(default_factory=dict)
    """Further scores by name: bleu and chrf of translations, pair_loss and pair_accuracy of the pair task, macro_f1 of
    classes."""
    translations: Sequence[str] = ()

    def score(self, selected_by: str) -> float:
        """Return the score by which checkpoints are selected; higher is better."""
        known = {"loss": -self.loss, "accuracy": self.accuracy}
        return known[selected_by] if selected_by in known else self.scores[selected_by]


class Validator:
    """Validates weights on the development set."""

    src_lines: Sequence[str] = ()
    references: Sequence[str] = ()
    """The lines of the development set, if there are translations of them."""

    def __init__(self, config: Config, corpus: Corpus, device: torch.device, precision: str, max_tokens: int) -> None:
        """Load the development set."""
        self.config, self.tokenizers = config, corpus.tokenizers
        self.device, self.precision, self.max_tokens = device, precision, max_tokens
        split = corpus.split("valid")
        self.pairs = learned_pairs(one_direction(config), lambda language: lines_of(split, language))
        if change := objective_change(config, corpus.tokenizers, VALIDATION_SEED):
            self.pairs = change.modified(self.pairs, np.arange(len(self.pairs)), epoch=0)

    def validate(self, model: Model, poll: Callable[[], None] = lambda: None) -> Validation:
        """Return loss and scores of `model`, which is in training mode again afterwards.

        `poll` is called between batches and may raise an exception to interrupt the validation.
        """
        model.eval()
        try:
            sums = self._loss(model, poll)
            scores, translations = self._scored(model, poll)
        finally:
            model.train()
        if sums.classes is not None:
            scores |= {"pair_loss": sums.classes.loss_per_sequence, "pair_accuracy": sums.classes.accuracy}
        nll = float(sums.nll) / sums.n_tokens
        return Validation(sums.loss_per_token, nll, sums.perplexity, sums.accuracy, scores, translations)

    def _scored(self, _model: Model, _poll: Callable[[], None]) -> tuple[dict[str, float], Sequence[str]]:
        """Return further scores by name, and translations."""
        return {}, ()

    @torch.inference_mode()
    def _loss(self, model: Model, poll: Callable[[], None]) -> LossSums:
        """Return the loss sums of the development set, by teacher forcing and without smoothing."""
        sums: LossSums | None = None
        for rows in even_batches(self.pairs.lengths, self.max_tokens):
            poll()
            batch = self.pairs.batch(rows).to(self.device)
            with autocast(self.precision, self.device):
                batch_sums = cross_entropy(model, batch, label_smoothing=0.0)
            sums = batch_sums if sums is None else sums + batch_sums
        assert sums is not None, "prepare refuses an empty development set"
        return sums

    def samples(self, _validation: Validation) -> list[tuple[str, str, str]]:
        """Return source, reference and translation of up to eight lines, if there are translations."""
        return []

    def attention(self, _model: Model) -> AttentionPlot | None:
        """Return what to plot of a model's cross-attention, if it has some."""
        return None


def one_direction(config: Config) -> Config:
    """Return `config` with validation in `data.direction` alone."""
    training = config.training.model_copy(update={"both_directions": False})
    return config.model_copy(update={"training": training})
