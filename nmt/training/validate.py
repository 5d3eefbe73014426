"""Validation on the development set: loss by teacher forcing, BLEU and chrF of translations, scores of classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from nmt.config import Config
from nmt.console import Progress
from nmt.data.batching import Indices, even_batches, unpadded
from nmt.data.corpus import Corpus, lines_of
from nmt.data.examples import change_of, learned_pairs
from nmt.evaluate.metrics import class_scores, corpus_score
from nmt.model.masks import Padded
from nmt.model.precision import autocast
from nmt.model.stacks import DecodingModel
from nmt.model.transformer import Model, Transformer
from nmt.text.tokenizer import MASK, Tokenizer
from nmt.training.loss import LossSums, class_logits, cross_entropy
from nmt.translate.searcher import NativeSearcher
from nmt.translate.sentences import longest_translation
from nmt.translate.translator import Translator
from nmt.translate.types import MAX_PARTS, Sentence

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
        if change := change_of(config, corpus.tokenizers, VALIDATION_SEED):
            self.pairs = change(self.pairs, np.arange(len(self.pairs)), 0)

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
        """Return the cross-attention to plot, if the model has any."""
        return None


def one_direction(config: Config) -> Config:
    """Return `config` with validation in `data.direction` only."""
    training = config.training.model_copy(update={"both_directions": False})
    return config.model_copy(update={"training": training})


class TextValidator(Validator):
    """Validates weights on the development set, and translates it, or restores masked lines."""

    def __init__(self, config: Config, corpus: Corpus, device: torch.device, precision: str, max_tokens: int) -> None:
        """Load the development set. Raises what `NativeSearcher.check` raises for the search of validations."""
        super().__init__(config, corpus, device, precision, max_tokens)
        tokenizer = corpus.tokenizers[config.data.tgt]
        searcher = NativeSearcher([], tokenizer, device, precision)
        searcher.check(config.search, has_terms=False, language=config.data.tgt)  # before hours of training
        # another one, which reads search.lm when it first validates: one process does, and keeps it
        self._searcher = NativeSearcher([], tokenizer, device, precision)
        split, src, tgt = corpus.split("valid"), config.data.src, config.data.tgt
        if config.learns_lines:
            self.references = [line for language in config.learned_languages for line in split.text(language)]
            self.src_lines = [_shown(ids, corpus.tokenizers[src]) for ids in self._sources()]
        else:
            self.src_lines, self.references = split.text(src), split.text(tgt)
        # a line of medium length, whose attention is plotted
        self.shown = int(np.abs(self.pairs.lengths.tgt[:] - 12).argmin())

    def _scored(self, model: Model, poll: Callable[[], None]) -> tuple[dict[str, float], Sequence[str]]:
        assert isinstance(model, DecodingModel), "others write no text"
        searcher = self._searcher.with_models([model])
        with Progress("validating", len(self.src_lines)) as progress:
            translations = (self._restored if self.config.learns_lines else self._translated)(searcher, progress, poll)
        scores = {
            metric: corpus_score(metric, translations, self.references, tgt_lang=self.config.data.tgt).value
            for metric in ("bleu", "chrf")
        }
        return scores, translations

    def _translated(self, searcher: NativeSearcher, progress: Progress, poll: Callable[[], None]) -> list[str]:
        """Translate the development set."""
        translator, translations = Translator(searcher, self.tokenizers, self.config), []
        for best in translator.translate_lines(self.src_lines, self.config.search, progress=progress):
            poll()
            translations.append(best[0].text)
        return translations

    def _restored(self, searcher: NativeSearcher, progress: Progress, poll: Callable[[], None]) -> list[str]:
        """Restore the masked lines of the development set."""
        search, tokenizer = self.config.search, self.tokenizers[self.config.data.tgt]
        sentences = [
            Sentence("", "", ids, row * MAX_PARTS, longest_translation(ids, 0, search, searcher.max_positions))
            for row, ids in enumerate(ids.tolist() for ids in self._sources())
        ]
        restored = [""] * len(sentences)
        for rows, hypotheses in searcher.search(sentences, search, 1):
            poll()
            progress.add(len(rows))
            for row, [best, *_] in zip(rows, hypotheses, strict=True):
                restored[row] = tokenizer.decode(best.ids)
        return restored

    def _sources(self) -> list[Indices]:
        """Return the ids of the masked sources."""
        return unpadded(self.pairs.batch(np.arange(len(self.pairs))).src)

    def samples(self, validation: Validation) -> list[tuple[str, str, str]]:
        """Return source, reference and translation of up to eight lines, spread evenly over the development set."""
        every = max(1, len(self.references) // 8)
        return list(zip(self.src_lines, self.references, validation.translations, strict=True))[::every][:8]

    @torch.inference_mode()
    def attention(self, model: Model) -> AttentionPlot | None:
        """Return the cross-attention of one line, averaged over heads; None for a decoder-only model."""
        if not isinstance(model, Transformer):
            return None
        src, tgt = self.config.data.sides
        batch = self.pairs.batch(np.array([self.shown])).to(self.device)
        model.eval()
        memory = model.encoder(batch.src, Padded(batch.src_mask))
        weights: list[torch.Tensor] = []
        model.decoder(batch.tgt_in, Padded(batch.tgt_mask), memory, Padded(batch.src_mask), weights)
        model.train()
        src_pieces = [*self.tokenizers[src].pieces(batch.src[0, :-1].tolist()), "</s>"]
        tgt_pieces = [*self.tokenizers[tgt].pieces(batch.tgt_out[0, :-1].tolist()), "</s>"]
        return weights[0][0].mean(0).float().cpu().numpy(), src_pieces, tgt_pieces


def _shown(ids: Indices, tokenizer: Tokenizer) -> str:
    """Return a masked line in readable form."""
    pieces = zip(ids.tolist(), tokenizer.pieces(ids.tolist()), strict=True)
    return "".join(" [mask]" if i == MASK else piece for i, piece in pieces).replace("\u2581", " ")


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
