"""Validation: loss on the development set by teacher forcing, BLEU and chrF by translating it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nmt.config import Config
from nmt.console import Progress
from nmt.data.batching import Indices, Pairs, even_batches, unpadded
from nmt.data.corpus import Corpus, Joined, Lines
from nmt.data.noise import Noise
from nmt.evaluate.metrics import corpus_score
from nmt.model.masks import Padded
from nmt.model.precision import autocast
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import MASK, Tokenizer
from nmt.training.loss import LossSums
from nmt.training.objective import cross_entropy
from nmt.translate.searcher import NativeSearcher
from nmt.translate.sentences import longest_translation
from nmt.translate.translator import Translator
from nmt.translate.types import MAX_PARTS, Sentence


@dataclass(frozen=True)
class Validation:
    """Scores and translations of the development set; `loss` is without smoothing (nats per token)."""

    loss: float
    perplexity: float
    accuracy: float
    bleu: float
    chrf: float
    translations: list[str]

    def score(self, select_by: str) -> float:
        """Return the score by which checkpoints are selected; higher is better."""
        return {"bleu": self.bleu, "chrf": self.chrf, "loss": -self.loss}[select_by]


class Validator:
    """Validates a model on the development set, which it holds in memory."""

    def __init__(self, config: Config, corpus: Corpus, device: torch.device, precision: str, max_tokens: int) -> None:
        self.config, self.tokenizers = config, corpus.tokenizers
        self.device, self.precision, self.max_tokens = device, precision, max_tokens
        split, src, tgt = corpus.split("valid"), config.data.src, config.data.tgt
        if config.training.objective == "denoising":
            lines = Joined(*(Lines(split.ids(language), split.ends(language)) for language in (src, tgt)))
            self.pairs = Noise(config.training).modified(Pairs.of_sides(lines, lines), np.arange(len(lines)), epoch=0)
            self.references = split.text(src) + split.text(tgt)
            self.src_lines = [_shown(ids, corpus.tokenizers[src]) for ids in self._sources()]
        else:
            self.pairs = Pairs(split, src, tgt)
            self.src_lines, self.references = split.text(src), split.text(tgt)
        # a line of medium length, whose attention is plotted
        order = sorted(range(len(self.pairs)), key=lambda i: (abs(self.pairs.lengths.tgt[i] - 12), i))
        self.shown = order[0]

    def validate(self, model: Transformer, poll: Callable[[], None] = lambda: None) -> Validation:
        """Return loss and scores of `model`, which is in training mode again afterwards.

        `poll` is called between batches and may raise an exception to interrupt the validation.
        """
        model.eval()
        try:
            sums = self._loss(model, poll)
            tgt_tokenizer = self.tokenizers[self.config.data.tgt]
            searcher = NativeSearcher([model], tgt_tokenizer, self.device, self.precision)
            with Progress("validating", len(self.src_lines)) as progress:
                restores = self.config.training.objective == "denoising"
                translations = (self._restored if restores else self._translated)(searcher, progress, poll)
        finally:
            model.train()
        scores = {
            metric: corpus_score(metric, translations, self.references, tgt_lang=self.config.data.tgt).value
            for metric in ("bleu", "chrf")
        }
        return Validation(sums.loss_per_token, sums.perplexity, sums.accuracy, **scores, translations=translations)

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
            Sentence("", "", ids, row * MAX_PARTS, longest_translation(len(ids), 0, search, searcher.max_positions))
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
        """Return the ids of the sources, as they are masked."""
        return unpadded(self.pairs.batch(np.arange(len(self.pairs))).src)

    @torch.inference_mode()
    def _loss(self, model: Transformer, poll: Callable[[], None]) -> LossSums:
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

    def samples(self, validation: Validation) -> list[tuple[str, str, str]]:
        """Return source, reference and translation of up to eight lines, spread evenly over the development set."""
        every = max(1, len(self.references) // 8)
        return list(zip(self.src_lines, self.references, validation.translations, strict=True))[::every][:8]

    @torch.inference_mode()
    def attention(self, model: Transformer) -> tuple[npt.NDArray[np.float32], list[str], list[str]]:
        """Return cross-attention weights (T, S) of one line, mean over heads, with its source and target pieces."""
        src, tgt = self.config.data.src, self.config.data.tgt
        batch = self.pairs.batch(np.array([self.shown])).to(self.device)
        model.eval()
        memory = model.encode(batch.src, Padded(batch.src_mask))
        weights: list[torch.Tensor] = []
        model.decoder(batch.tgt_in, Padded(batch.tgt_mask), memory, Padded(batch.src_mask), weights)
        model.train()
        src_pieces = [*self.tokenizers[src].pieces(batch.src[0, :-1].tolist()), "</s>"]
        tgt_pieces = [*self.tokenizers[tgt].pieces(batch.tgt_out[0, :-1].tolist()), "</s>"]
        return weights[0][0].mean(0).float().cpu().numpy(), src_pieces, tgt_pieces


def _shown(ids: Indices, tokenizer: Tokenizer) -> str:
    """Return a masked line for people."""
    pieces = zip(ids.tolist(), tokenizer.pieces(ids.tolist()), strict=True)
    return "".join(" [mask]" if i == MASK else piece for i, piece in pieces).replace("\u2581", " ")
