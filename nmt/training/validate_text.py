"""Validation of models that write text: BLEU and chrF of the development set, translated or restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from nmt.config import Config
from nmt.console import Progress
from nmt.data.batching import Indices, unpadded
from nmt.data.corpus import Corpus
from nmt.evaluate.metrics import corpus_score
from nmt.model.masks import Padded
from nmt.model.stacks import DecodingModel
from nmt.model.transformer import Model, Transformer
from nmt.text.tokenizer import MASK, Tokenizer
from nmt.training.validate import AttentionPlot, Validation, Validator
from nmt.translate.searcher import NativeSearcher
from nmt.translate.sentences import longest_translation
from nmt.translate.translator import Translator
from nmt.translate.types import MAX_PARTS, Sentence


class TextValidator(Validator):
    """Validates weights on the development set, which it also translates, or restores if it is masked."""

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
        order = sorted(range(len(self.pairs)), key=lambda i: (abs(self.pairs.lengths.tgt[i] - 12), i))
        self.shown = order[0]

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
        """Return the ids of the sources, as they are masked."""
        return unpadded(self.pairs.batch(np.arange(len(self.pairs))).src)

    def samples(self, validation: Validation) -> list[tuple[str, str, str]]:
        """Return source, reference and translation of up to eight lines, spread evenly over the development set."""
        every = max(1, len(self.references) // 8)
        return list(zip(self.src_lines, self.references, validation.translations, strict=True))[::every][:8]

    @torch.inference_mode()
    def attention(self, model: Model) -> AttentionPlot | None:
        """Return the cross-attention of one line, mean over heads; None of a decoder alone."""
        if not isinstance(model, Transformer):
            return None
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
