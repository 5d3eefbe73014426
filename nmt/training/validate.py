"""How good the model is on the development set: its loss by teacher forcing, BLEU and chrF by real translation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nmt.config import Config
from nmt.console import Progress
from nmt.data.batching import Pairs, even_batches
from nmt.data.corpus import Corpus
from nmt.evaluate.metrics import corpus_score
from nmt.model.masks import Padded
from nmt.model.precision import autocast
from nmt.model.transformer import Transformer
from nmt.training.loss import LossSums
from nmt.training.objective import cross_entropy
from nmt.translate.searcher import NativeSearcher
from nmt.translate.translator import Translator


@dataclass(frozen=True)
class Validation:
    """What a look at the development set found; `loss` is without smoothing (nats per token)."""

    loss: float
    perplexity: float
    accuracy: float
    bleu: float
    chrf: float
    translations: list[str]

    def score(self, select_by: str) -> float:
        """The number that decides which checkpoint is best: higher is better."""
        return {"bleu": self.bleu, "chrf": self.chrf, "loss": -self.loss}[select_by]


class Validator:
    """The development set, held ready."""

    def __init__(self, config: Config, corpus: Corpus, device: torch.device, precision: str, max_tokens: int) -> None:
        self.config, self.tokenizers = config, corpus.tokenizers
        self.device, self.precision, self.max_tokens = device, precision, max_tokens
        split = corpus.split("valid")
        self.pairs = Pairs(split, config.data.src, config.data.tgt)
        self.src_lines, self.references = split.text(config.data.src), split.text(config.data.tgt)
        # a development line of middling length, to show the attention of
        order = sorted(range(split.n), key=lambda i: (abs(self.pairs.lengths.tgt[i] - 12), i))
        self.shown = order[0]

    def validate(self, model: Transformer, poll: Callable[[], None] = lambda: None) -> Validation:
        """Loss and scores of `model` as it stands; it is back in training mode afterwards. `poll` is called between
        batches and may raise, which ends the validation."""
        model.eval()
        try:
            sums = self._loss(model, poll)
            tgt_tokenizer = self.tokenizers[self.config.data.tgt]
            searcher = NativeSearcher([model], tgt_tokenizer, self.device, self.precision)
            translator = Translator(searcher, self.tokenizers, self.config)
            translations = []
            with Progress("validating", len(self.src_lines)) as progress:
                for best in translator.translate_lines(self.src_lines, self.config.search, progress=progress):
                    poll()
                    translations.append(best[0].text)
        finally:
            model.train()
        scores = {
            metric: corpus_score(metric, translations, self.references, tgt_lang=self.config.data.tgt).value
            for metric in ("bleu", "chrf")
        }
        return Validation(sums.loss_per_token, sums.perplexity, sums.accuracy, **scores, translations=translations)

    @torch.inference_mode()
    def _loss(self, model: Transformer, poll: Callable[[], None]) -> LossSums:
        """Sums over the development set, in teacher forcing and without smoothing."""
        sums: LossSums | None = None
        for rows in even_batches(self.pairs.lengths, self.max_tokens):
            poll()
            batch = self.pairs.batch(rows).to(self.device)
            with autocast(self.precision, self.device):
                found = cross_entropy(model, batch, label_smoothing=0.0)
            sums = found if sums is None else sums + found
        assert sums is not None, "prepare refuses an empty development set"
        return sums

    def samples(self, found: Validation) -> list[tuple[str, str, str]]:
        """Source, reference and translation of up to eight lines, spread evenly over the development set."""
        every = max(1, len(self.references) // 8)
        return list(zip(self.src_lines, self.references, found.translations, strict=True))[::every][:8]

    @torch.inference_mode()
    def attention(self, model: Transformer) -> tuple[npt.NDArray[np.float32], list[str], list[str]]:
        """Cross-attention of the last decoder layer in one line, mean over heads: weights (T, S), and the source and
        target pieces."""
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
