"""Validation on the development set, or another split: the loss with teacher forcing, and scores of an objective."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus
from nmt.data.rows import RowPacking
from nmt.evaluate.metrics import corpus_score, few_four_grams
from nmt.model.device import autocast
from nmt.model.transformer import DecodingModel, Model
from nmt.search.forced import check_inference
from nmt.training.loss import LossSums, cross_entropy

WATCHED_LINES = 500
"""Maximum number of lines of a test set of training.watch that are scored."""


@dataclass(frozen=True)
class HeldOutSplit:
    """A split of a corpus to validate on."""

    corpus: Corpus
    name: str = "valid"
    most_lines: int | None = None
    """Maximum number of lines to translate; None: all of the development set, `WATCHED_LINES` of another split."""

    @property
    def n_lines(self) -> int | None:
        """Number of lines whose loss is measured; None: all."""
        return None if self.name == "valid" else self.n_translated

    @property
    def n_translated(self) -> int | None:
        """Number of lines that are translated; None: all."""
        if self.most_lines is not None or self.name == "valid":
            return self.most_lines
        return WATCHED_LINES


@dataclass(frozen=True)
class Execution:
    """How batches are computed."""

    device: torch.device
    precision: str
    max_tokens: int
    """Maximum size of a batch in tokens of the larger side."""


@dataclass(frozen=True)
class Validation:
    """Scores of the development set.

    `loss` has no label smoothing (nats per token, for classes per text); `nll` also leaves out the pair task.
    """

    loss: float
    nll: float
    perplexity: float
    accuracy: float
    scores: dict[str, float] = field(default_factory=dict)
    """Further scores by name: bleu and chrf of translations, pair_loss and pair_accuracy of the pair task, macro_f1 of
    classes."""
    translations: Sequence[str] = ()
    by_direction: Mapping[str, Validation] = field(default_factory=dict)
    """The scores of each of several directions."""

    def score(self, selected_by: str) -> float:
        """Return the score by which checkpoints are selected; higher is better."""
        known = {"loss": -self.loss, "accuracy": self.accuracy}
        return known[selected_by] if selected_by in known else self.scores[selected_by]


class Validator(ABC):
    """A validator that measures the scores of a model on the development set, or another split."""

    src_lines: Sequence[str] = ()
    references: Sequence[str] = ()
    """The lines that are translated or restored, if any."""
    tgt_lang: str | None = None
    """The language by whose rules they are divided into words."""
    longest: int
    """The length of the longest sentence, including the end of sentence."""

    @property
    def few_four_grams(self) -> str | None:
        """Why BLEU says little about the references; None if it says enough."""
        return few_four_grams(self.references, self.tgt_lang)

    def validate(self, model: Model, poll: Callable[[], None] = lambda: None) -> Validation:
        """Return the scores of `model`, and put the model back in training mode.

        `poll` is called between batches and may raise an exception to interrupt the validation.
        """
        model.eval()
        try:
            return self.scored(model, poll)
        finally:
            model.train()

    @abstractmethod
    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        """Return the scores of a model in evaluation mode."""

    def at_end(self) -> Validator:
        """Return the validator of the finally selected weights, which may translate more lines."""
        return self


DIRECTION_LINES = 200
"""Maximum number of lines of each of several directions that a validation translates, by greedy search."""


class DirectionsValidator(Validator):
    """A validator of several directions. Its scores are the means of theirs (macro-average)."""

    def __init__(self, by_direction: Mapping[str, Validator]) -> None:
        self._by_direction = by_direction
        validators = by_direction.values()
        self.src_lines = [line for validator in validators for line in validator.src_lines]
        self.references = [line for validator in validators for line in validator.references]
        self.longest = max(validator.longest for validator in validators)

    @property
    def few_four_grams(self) -> str | None:
        """Why BLEU says little about the references of a direction; None if it says enough about all."""
        return next(filter(None, (validator.few_four_grams for validator in self._by_direction.values())), None)

    def at_end(self) -> Validator:
        """Return a validator of all lines, with the configured search."""
        return DirectionsValidator({name: validator.at_end() for name, validator in self._by_direction.items()})

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        by_direction = {name: validator.scored(model, poll) for name, validator in self._by_direction.items()}
        validations = list(by_direction.values())

        def mean(values: Iterable[float]) -> float:
            return sum(values) / len(validations)

        nll = mean(validation.nll for validation in validations)
        return Validation(
            loss=mean(validation.loss for validation in validations),
            nll=nll,
            perplexity=math.exp(min(nll, 700.0)),
            accuracy=mean(validation.accuracy for validation in validations),
            scores={name: mean(found.scores[name] for found in validations) for name in validations[0].scores},
            translations=[line for validation in validations for line in validation.translations],
            by_direction=by_direction,
        )


class SplitValidator(Validator):
    """A validator that measures the loss of a model on the pairs of a split."""

    def __init__(self, pairs: Pairs, execution: Execution) -> None:
        self.pairs = pairs
        self.execution = execution
        self.longest = pairs.lengths.max()

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        sums = self._loss(model, poll)
        scores = {}
        if isinstance(model, DecodingModel):
            check_inference(model)
        if n := sums.n_classified:
            scores = {"pair_loss": float(sums.class_nll) / n, "pair_accuracy": float(sums.n_class_correct) / n}
        nll = float(sums.nll) / sums.n_tokens
        return Validation(sums.loss_per_token, nll, sums.perplexity, sums.accuracy, scores)

    @torch.inference_mode()
    def _loss(self, model: Model, poll: Callable[[], None]) -> LossSums:
        """Return the loss sums of the development set with teacher forcing and without label smoothing."""
        sums: LossSums | None = None
        packing = RowPacking(self.pairs)
        for rows in packing.split(np.arange(len(self.pairs)), self.execution.max_tokens):
            poll()
            batch = packing.batch(rows).to(self.execution.device)
            with autocast(self.execution.precision, self.execution.device):
                batch_sums = cross_entropy(model, batch, label_smoothing=0.0)
            sums = batch_sums if sums is None else sums + batch_sums
        assert sums is not None, "prepare rejects an empty development set"
        return sums

    def text_scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Return the BLEU and chrF of translations or restored lines."""
        return {
            metric: corpus_score(metric, texts, self.references, self.tgt_lang).value for metric in ("bleu", "chrf")
        }
