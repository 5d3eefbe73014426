"""`Searcher`, the interface of search engines to the translator, and the native one, which searches with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import cached_property
from typing import Protocol

import torch

from nmt.config import BatchSize, SearchConfig
from nmt.data.batching import sent
from nmt.errors import ConfigError
from nmt.model.inference import InferenceModel
from nmt.model.precision import for_inference
from nmt.model.transformer import Transformer
from nmt.search.constrained import Constraints
from nmt.search.forced import ForcedDecoder
from nmt.search.phrases import beam_for, with_phrases, word_parts
from nmt.search.rules import Rules
from nmt.search.search import search as search_best
from nmt.search.step import Ensemble, Hypothesis, StepModel, TransformerStep, padded
from nmt.text.tokenizer import EOS, N_SPECIAL, PAD, Tokenizer
from nmt.translate.types import NO_TERMS, Sentence, takes_terms
from nmt.translate.workers import run_all

Hypotheses = list[list[Hypothesis]]
"""For each sentence of a batch some hypotheses, best first."""


class Searcher(Protocol):
    """Finds hypotheses for sentences: PyTorch's models, or another engine."""

    @property
    def precision(self) -> str:
        """The precision of its matrix products, for reports."""

    @property
    def max_positions(self) -> int | None:
        """The longest sequence, `</s>` counted, that it takes as source or translation; None without a limit."""

    def check(self, search: SearchConfig, has_terms: bool) -> None:
        """Raise ConfigError for settings, or terms, that it does not support."""

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int
    ) -> Generator[tuple[list[int], Hypotheses]]:
        """Yield batch by batch the indices of sentences and up to `n_best` hypotheses of each; blank ones are left out.

        Batches are in the order of their first sentences. Close the generator to stop early.
        """

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:
        """Return the same models for scoring given translations. Raises ConfigError if that is not supported."""


class NativeSearcher:
    """Search with one or several (an ensemble of) Transformers."""

    def __init__(
        self, models: Sequence[Transformer], tgt_tokenizer: Tokenizer, device: torch.device, precision: str
    ) -> None:
        """`models` are on `device`; matrix products run in `precision`: float32, bf16 or fp16."""
        self.models = models
        self.device, self.precision = device, precision
        with torch.no_grad():
            self._prepared = [InferenceModel(model, precision) for model in models]
        limits = [model.max_positions for model in self.models]
        self.max_positions = min((limit for limit in limits if limit is not None), default=None)
        self._tgt_tokenizer = tgt_tokenizer
        self._banned = torch.tensor([i for i in range(N_SPECIAL) if i != EOS], device=device)

    def check(self, search: SearchConfig, has_terms: bool) -> None:
        """See `Searcher`."""
        if has_terms and not takes_terms(search):
            raise ConfigError([NO_TERMS])

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:
        """See `Searcher`."""
        models = [for_inference(model, self.precision) for model in self.models]
        return ForcedDecoder(models, self.device, self.precision, search.batch_size(self.device.type).tokens)

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int
    ) -> Generator[tuple[list[int], Hypotheses]]:
        """See `Searcher`."""
        yield from search_batches(self.search_batch, sentences, search, n_best, self.device)

    def search_batch(self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int) -> Hypotheses:
        """Search sentences, none of them blank, in one batch."""
        with torch.inference_mode():
            src = sent(padded([[*sentence.src_ids, EOS] for sentence in sentences]), self.device)  # (B, S)
            mask = src != PAD
            keep_attention = search.coverage_penalty > 0
            steps: list[StepModel] = [TransformerStep(model, src, mask, keep_attention) for model in self._prepared]
            limits = torch.tensor([sentence.max_length for sentence in sentences])
            prefixes = sent(padded([sentence.prefix for sentence in sentences]), self.device)
            prefix = prefixes if prefixes.size(1) else None
            rules = Rules(self._banned, limits, search.min_length, search.no_repeat_ngram, prefix)
            constraints = None
            if any(sentence.phrases for sentence in sentences):
                phrases = [sentence.phrases for sentence in sentences]
                n_ordered = [sentence.n_ordered for sentence in sentences]
                constraints = Constraints(phrases, limits, self._word_parts, n_ordered, self.device)
                search = with_phrases(search, max(beam_for(of_sentence, search.beam) for of_sentence in phrases))
            keys = [sentence.key for sentence in sentences]
            step = steps[0] if len(steps) == 1 else Ensemble(steps)
            return search_best(step, rules, search, keys, n_best, constraints)

    @cached_property
    def _word_parts(self) -> torch.Tensor:
        return word_parts(self._tgt_tokenizer).to(self.device)


def search_batches(
    search_batch: Callable[[Sequence[Sentence], SearchConfig, int], Hypotheses],
    sentences: Sequence[Sentence],
    search: SearchConfig,
    n_best: int,
    device: torch.device,
) -> Generator[tuple[list[int], Hypotheses]]:
    """Divide sentences into batches and search these, several at once on a CPU; see `Searcher.search`."""
    batches = make_batches(sentences, search, n_best, search.batch_size(device.type))
    results = run_all(lambda batch: search_batch([sentences[i] for i in batch], search, n_best), batches, device)
    with closing(results):
        yield from zip(batches, results, strict=True)


def make_batches(sentences: Sequence[Sentence], search: SearchConfig, n_best: int, size: BatchSize) -> list[list[int]]:
    """Return batches of indices of sentences of similar length, in the order of their first sentences.

    A batch has at most size.sentences and size.tokens source tokens (rows x longest row, `</s>` counted), or one row.
    Sentences that need a wider beam are in smaller batches of their own, blank ones in none.
    """
    beam = n_best if search.sample else search.beam
    beams = [beam_for(sentence.phrases, beam) for sentence in sentences]
    rows = [row for row, sentence in enumerate(sentences) if sentence.src_ids]
    batches: list[list[int]] = []
    for row in sorted(rows, key=lambda row: (beams[row], len(sentences[row].src_ids))):
        n_rows = len(batches[-1]) + 1 if batches else 0
        fits = (
            batches
            and beams[batches[-1][0]] == beams[row]
            and n_rows <= size.sentences
            and n_rows * beams[row] <= size.sentences * search.beam
            and n_rows * (len(sentences[row].src_ids) + 1) <= size.tokens
        )
        if fits:
            batches[-1].append(row)
        else:
            batches.append([row])
    return sorted(batches, key=min)
