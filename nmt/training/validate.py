"""Validation on the development set: the teacher-forcing loss, BLEU and chrF of translations, and scores of classes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from nmt.config import Config
from nmt.console import Progress
from nmt.data.batching import even_batches, unpadded
from nmt.data.corpus import Corpus, lines_of
from nmt.data.examples import change_of, learned_pairs
from nmt.data.modifiers import FuzzyMatches
from nmt.data.tagging import all_tagged
from nmt.evaluate.metrics import class_scores, corpus_score
from nmt.model.precision import autocast
from nmt.model.stacks import DecodingModel
from nmt.model.transformer import Model
from nmt.search.forced import check_inference
from nmt.training.loss import LossSums, class_logits, cross_entropy
from nmt.translate.searcher import NativeSearcher
from nmt.translate.sentences import longest_translation
from nmt.translate.source_lines import source_lines
from nmt.translate.translator import Translator
from nmt.translate.types import MAX_PARTS, Line, Sentence

VALIDATION_SEED = 0
"""Seed of the masks and other changes to the development set, which do not depend on the seed of the run."""

WATCHED_LINES = 500
"""Maximum number of lines of a test set of training.watch that are scored."""


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
    longest: int
    """The length of the longest sentence, including the end of sentence."""

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
        self.src_lines = [line for each in by_direction.values() for line in each.src_lines]
        self.references = [line for each in by_direction.values() for line in each.references]
        self.longest = max(each.longest for each in by_direction.values())

    def at_end(self) -> Validator:
        """Return a validator of all lines, with the configured search."""
        return DirectionsValidator({direction: each.at_end() for direction, each in self._by_direction.items()})

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        by_direction = {direction: each.scored(model, poll) for direction, each in self._by_direction.items()}
        every = list(by_direction.values())

        def mean(value: Callable[[Validation], float]) -> float:
            return sum(map(value, every)) / len(every)

        nll = mean(lambda each: each.nll)
        return Validation(
            mean(lambda each: each.loss),
            nll,
            math.exp(min(nll, 700.0)),
            mean(lambda each: each.accuracy),
            {name: mean(lambda each, name=name: each.scores[name]) for name in every[0].scores},  # type: ignore[misc]
            [line for each in every for line in each.translations],
            by_direction,
        )


class SplitValidator(Validator):
    """A validator that measures the loss of a model on a split."""

    def __init__(
        self,
        config: Config,
        corpus: Corpus,
        device: torch.device,
        precision: str,
        max_tokens: int,
        name: str = "valid",
        most_lines: int | None = None,
    ) -> None:
        """Load the development set, or the first lines of the split `name`.

        most_lines: the number of lines of another split than the development set; None: `WATCHED_LINES`.
        """
        self.config, self.tokenizers = config, corpus.tokenizers
        self.device, self.precision, self.max_tokens = device, precision, max_tokens
        split = corpus.split(name)
        n_lines = None if name == "valid" else most_lines or WATCHED_LINES
        self.pairs = learned_pairs(config, lambda language: lines_of(split, language, n_lines))
        if "fuzzy" in config.training.modifiers:
            self.pairs = FuzzyMatches.of(corpus, config, name).with_sources(self.pairs)
        if tags := config.data.language_tag + config.data.tags_of(name):
            self.pairs = all_tagged(self.pairs, corpus.tokenizers[config.data.src].tag_ids(tags))
        if change := change_of(config, corpus.tokenizers, VALIDATION_SEED):
            self.pairs = change(self.pairs, np.arange(len(self.pairs)), 0)
        self.longest = self.pairs.lengths.max()

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        sums, scores = self._loss(model, poll), {}
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
        for rows in even_batches(self.pairs.lengths, self.max_tokens):
            poll()
            batch = self.pairs.batch(rows).to(self.device)
            with autocast(self.precision, self.device):
                batch_sums = cross_entropy(model, batch, label_smoothing=0.0)
            sums = batch_sums if sums is None else sums + batch_sums
        assert sums is not None, "prepare rejects an empty development set"
        return sums


class TextValidator(SplitValidator):
    """A validator that also translates the development set, or restores its masked lines, and scores the text."""

    def __init__(
        self,
        config: Config,
        corpus: Corpus,
        device: torch.device,
        precision: str,
        max_tokens: int,
        name: str = "valid",
        most_lines: int | None = None,
    ) -> None:
        """Load the development set, or the first lines of the split `name`.

        most_lines: the number of lines to translate at most, by greedy search. None: all of the development set, and
        `WATCHED_LINES` of others, with the configured search.
        Raises ConfigError or DataError if the search settings cannot be used.
        """
        super().__init__(config, corpus, device, precision, max_tokens, name, most_lines)
        tokenizer = corpus.tokenizers[config.data.tgt]
        searcher = NativeSearcher([], tokenizer, device, precision, config.joins_sentences)
        context = max(1, config.search.context) if config.joins_sentences else 0
        self._search = config.search.with_tags(config.data.tags_of(name)).model_copy(update={"context": context})
        translator = Translator(searcher, corpus.tokenizers, config)
        translator.check(self._search, 1)  # before hours of training
        # another one, which reads search.lm when it first validates: one process does, and keeps it
        self._searcher = NativeSearcher([], tokenizer, device, precision, config.joins_sentences)
        split = corpus.split(name)
        if config.learns_lines:
            self.references = [line for language in config.learned_languages for line in split.text(language)]
            self.src_lines = self.references
        else:
            self.src_lines, self.references = split.text(config.data.src), split.text(config.data.tgt)
        self._lines = source_lines(corpus, config, name)
        if context:
            self._lines = _in_context(self._lines, self.references, context)
        self._whole: TextValidator | None = None
        whole = None if name == "valid" else WATCHED_LINES
        if most_lines is not None:
            self._whole = copy(self)
            greedy = {"beam": 1, "diversity_groups": 1, "mbr": "none", "sample": False}
            self._search = self._search.model_copy(update=greedy)
            translator.check(self._search, 1)
        most = most_lines or whole
        self.src_lines, self.references = self.src_lines[:most], self.references[:most]

    def at_end(self) -> Validator:
        """Return a validator of all lines, with the configured search."""
        return self._whole or self

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        validation = super().scored(model, poll)
        assert isinstance(model, DecodingModel), "only decoders write text"
        searcher = self._searcher.with_models([model])
        with Progress("validating", len(self.src_lines)) as progress:
            translations = (self._restored if self.config.learns_lines else self._translated)(searcher, progress, poll)
        scores = {
            metric: corpus_score(metric, translations, self.references, tgt_lang=self.config.data.tgt).value
            for metric in ("bleu", "chrf")
        }
        return replace(validation, scores=scores, translations=translations)

    def _translated(self, searcher: NativeSearcher, progress: Progress, poll: Callable[[], None]) -> list[str]:
        """Translate the development set."""
        translator, translations = Translator(searcher, self.tokenizers, self.config), []
        lines = self._lines[: len(self.src_lines)]
        for best in translator.translate_lines(lines, self._search, progress=progress):
            poll()
            translations.append(best[0].text)
        return translations

    def _restored(self, searcher: NativeSearcher, progress: Progress, poll: Callable[[], None]) -> list[str]:
        """Restore the masked lines of the development set."""
        search, tokenizer = self.config.search, self.tokenizers[self.config.data.tgt]
        masked = unpadded(self.pairs.batch(np.arange(len(self.pairs))).src)
        sentences = [
            Sentence("", "", ids, row * MAX_PARTS, longest_translation(ids, 0, search, searcher.max_positions))
            for row, ids in enumerate(ids.tolist() for ids in masked)
        ]
        restored = [""] * len(sentences)
        for rows, hypotheses in searcher.search(sentences, search, 1):
            poll()
            progress.add(len(rows))
            for row, [best, *_] in zip(rows, hypotheses, strict=True):
                restored[row] = tokenizer.decode(best.ids)
        return restored


def _in_context(lines: Sequence[Line], references: Sequence[str], n: int) -> list[Line]:
    """Return each line with up to `n` lines before it in its document, and their reference translations.

    So all lines are independent of each other, and translated at once.
    """
    found, before = list[Line](), deque[tuple[str, str]](maxlen=n)
    for line, reference in zip(lines, references, strict=True):
        if line.is_first:
            before.clear()
        found.append(replace(line, is_first=True, before=tuple(before)))
        before.append((line.text, reference))
    return found


class ClassValidator(SplitValidator):
    """A validator that predicts the labels of the development set."""

    @torch.inference_mode()
    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        batch_log_probs, batch_labels = [], []
        for rows in even_batches(self.pairs.lengths, self.max_tokens):
            poll()
            batch = self.pairs.batch(rows)
            assert batch.labels is not None, "each text has a label"
            with autocast(self.precision, self.device):
                logits = class_logits(model, batch.to(self.device))
            batch_log_probs.append(logits.log_softmax(-1).cpu())
            batch_labels.append(batch.labels)
        log_probs, labels = torch.cat(batch_log_probs), torch.cat(batch_labels)  # (N, C), (N,)
        loss = float(-log_probs[torch.arange(len(labels)), labels].mean())
        scores = class_scores(log_probs.exp().numpy(), labels.numpy())
        return Validation(loss, loss, math.exp(min(loss, 700.0)), scores.accuracy, {"macro_f1": scores.macro_f1})
