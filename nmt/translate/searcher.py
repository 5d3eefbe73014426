"""`Searcher`, the interface of search engines to the translator, and the native one, in several threads on a CPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

import torch

from nmt.config import BatchSize, SearchConfig
from nmt.data.batching import sent
from nmt.errors import ConfigError
from nmt.model.inference import InferenceModel
from nmt.model.precision import for_inference, threads
from nmt.model.stacks import DecodingModel
from nmt.model.transformer import Transformer
from nmt.runs.model import open_saved
from nmt.search.constrained import Constraints, beam_for, with_phrases, word_parts
from nmt.search.forced import ForcedDecoder
from nmt.search.rules import Rules, ShouldStop, stop_if
from nmt.search.search import search as search_best
from nmt.search.step import Ensemble, Fusion, Hypothesis, StepModel, TransformerStep, padded
from nmt.text.tokenizer import EOS, N_SPECIAL, PAD, Tokenizer
from nmt.translate.language_model import LanguageModel
from nmt.translate.types import NO_TERMS, Sentence, takes_terms

Job = TypeVar("Job")
Result = TypeVar("Result")

THREAD_NAME = "nmt translates"
MAX_WORKERS = 8
"""More would wait for Python's global interpreter lock."""
SMALL_STEP = 2**25
"""Multiplications: below, a decoding step takes a millisecond or so, of which several threads spare a tenth at best."""


def threads_for(multiplications: int) -> AbstractContextManager[None]:
    """Run decoding steps of this many multiplications on one of PyTorch's threads if they are small.

    Several threads wait for each other after each operation, and where another program has one of their cores that
    takes several times as long as the work.
    """
    return threads(1 if multiplications < SMALL_STEP else torch.get_num_threads())


def run_all(work: Callable[[Job], Result], jobs: Sequence[Job], device: torch.device) -> Generator[Result]:
    """Yield the result of each job, in order.

    On a CPU the jobs are distributed over threads, each with a share of PyTorch's own threads; a single job, or any job
    on a GPU, runs in the calling thread. Exceptions of jobs are raised here. No job starts after the generator is
    closed.
    """
    n_threads = torch.get_num_threads()
    n_workers = min(n_threads, len(jobs), MAX_WORKERS) if device.type == "cpu" else 1
    if n_workers <= 1:
        yield from map(work, jobs)
        return
    share = (n_threads // n_workers,)
    executor = ThreadPoolExecutor(n_workers, THREAD_NAME, torch.set_num_threads, share)
    try:
        results = deque(executor.submit(work, job) for job in jobs)
        while results:
            yield results.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)
        torch.set_num_threads(n_threads)  # the default of threads that start later


Hypotheses = list[list[Hypothesis]]
"""For each sentence of a batch some hypotheses, best first."""
PAST_STEPS = 100
"""A step of search takes twice as long after this many steps, whose keys and values it reads and reorders."""


class Searcher(Protocol):
    """Finds hypotheses for sentences: PyTorch's models, or another engine."""

    @property
    def precision(self) -> str:
        """The precision of its matrix products, for reports."""

    @property
    def max_positions(self) -> int | None:
        """The longest sequence, `</s>` counted, that it takes as source or translation; None without a limit."""

    def check(self, search: SearchConfig, has_terms: bool, language: str) -> None:
        """Raise ConfigError for settings, or terms, that it does not support. language: that of the translations."""

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> Generator[tuple[list[int], Hypotheses]]:
        """Yield batch by batch the indices of sentences and up to `n_best` hypotheses of each; blank ones are left out.

        Batches are in the order of their first sentences. Close the generator to stop early: it waits for the batches
        that are searched. `should_stop` stops these, too, as soon as the engine can; SearchStopped is raised.
        """

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:
        """Return the same models for scoring given translations. Raises ConfigError if that is not supported."""


class NativeSearcher:
    """Search with a model, or several as an ensemble; of a language model with the beginnings of lines as sources."""

    def __init__(
        self, models: Sequence[DecodingModel], tgt_tokenizer: Tokenizer, device: torch.device, precision: str
    ) -> None:
        """`models` are on `device`; matrix products run in `precision`: float32, bf16 or fp16."""
        self.models = models
        self.device, self.precision = device, precision
        with torch.no_grad():
            self._prepared = [InferenceModel(model, precision) for model in models]
        self._weights = sum(weight.numel() for model in models for weight in model.decoder.parameters())
        # source and translation share the positions of one sequence
        limits = [(model.max_positions, 2 if model.sees_source else 1) for model in models]
        self.max_positions = min((limit // share for limit, share in limits if limit is not None), default=None)
        self._tgt_tokenizer = tgt_tokenizer
        self._fused: dict[str, tuple[InferenceModel, tuple[str, ...]]] = {}
        """Of each run of `search.lm` the model, and the languages that it has learned."""
        self._banned = torch.tensor([i for i in range(N_SPECIAL) if i != EOS], device=device)

    def with_models(self, models: Sequence[DecodingModel]) -> NativeSearcher:
        """Return a searcher with other models; a language model that either has read serves both."""
        other = NativeSearcher(models, self._tgt_tokenizer, self.device, self.precision)
        other._fused = self._fused
        return other

    def check(self, search: SearchConfig, has_terms: bool, language: str) -> None:
        """See `Searcher`. Raises what `LanguageModel.load` raises for `search.lm`."""
        if has_terms and not takes_terms(search):
            raise ConfigError([NO_TERMS])
        if search.coverage_penalty and not all(isinstance(model, Transformer) for model in self.models):
            raise ConfigError(["search.coverage_penalty: model.kind: decoder has no cross-attention"])
        if search.lm is not None and language not in (languages := self._language_model(search.lm)[1]):
            learned = " and ".join(languages)
            raise ConfigError([f"search.lm: {search.lm} is a language model of {learned}, translations are {language}"])

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:
        """See `Searcher`."""
        models = [for_inference(model, self.precision) for model in self.models]
        return ForcedDecoder(models, self.device, self.precision, search.batch_size(self.device.type).tokens)

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> Generator[tuple[list[int], Hypotheses]]:
        """See `Searcher`. `should_stop` is called before each batch and each step."""
        yield from search_batches(self.search_batch, sentences, search, n_best, self.device, should_stop)

    def search_batch(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> Hypotheses:
        """Search sentences, none of them blank, in one batch."""
        with torch.inference_mode(), threads_for(self._weights * len(sentences) * search.beam):
            src = sent(padded([[*sentence.src_ids, EOS] for sentence in sentences]), self.device)  # (B, S)
            mask = src != PAD
            keep_attention = search.coverage_penalty > 0
            steps: list[StepModel] = [TransformerStep(model, src, mask, keep_attention) for model in self._prepared]
            limits = torch.tensor([sentence.max_length for sentence in sentences])
            fused = None if search.lm is None else self._language_model(search.lm)[0]
            if fused is not None and fused.max_positions is not None:
                limits = limits.clamp(max=fused.max_positions)
            prefixes = sent(padded([sentence.prefix for sentence in sentences]), self.device)
            prefix = prefixes if prefixes.size(1) else None
            rules = Rules(
                self._banned, limits, search.min_length, search.no_repeat_ngram, prefix, should_stop=should_stop
            )
            constraints = None
            if any(sentence.phrases for sentence in sentences):
                phrases = [sentence.phrases for sentence in sentences]
                n_ordered = [sentence.n_ordered for sentence in sentences]
                constraints = Constraints(phrases, limits, self._word_parts, n_ordered, self.device)
                search = with_phrases(search, max(beam_for(of_sentence, search.beam) for of_sentence in phrases))
            keys = [sentence.key for sentence in sentences]
            step = steps[0] if len(steps) == 1 else Ensemble(steps)
            if fused is not None:
                step = Fusion(step, TransformerStep(fused, src, mask), search.lm_weight)
            return search_best(step, rules, search, keys, n_best, constraints)

    def _language_model(self, run: str) -> tuple[InferenceModel, tuple[str, ...]]:
        """Return the language model of a run, which is read once, and its languages."""
        if run not in self._fused:
            loaded = LanguageModel.of(open_saved(Path(run)), self.device, self.precision)
            if loaded.tokenizer.fingerprint != self._tgt_tokenizer.fingerprint:
                raise ConfigError([f"search.lm: {run} has another tokenizer; prepare its data with --tokenizer-from"])
            with torch.no_grad():
                prepared = InferenceModel(loaded.model, self.precision)
            self._fused[run] = prepared, loaded.config.learned_languages
        return self._fused[run]

    @cached_property
    def _word_parts(self) -> torch.Tensor:
        return word_parts(self._tgt_tokenizer).to(self.device)


def in_order(
    batches: Generator[tuple[list[int], Hypotheses]],
    sentences: Sequence[Sentence],
    on_found: Callable[[int], None] | None = None,
) -> Generator[list[Hypothesis]]:
    """Yield the hypotheses of each sentence, in order, as soon as those before it are there; none of blank ones.

    batches: as `Searcher.search` yields them; closed with this generator. on_found: gets the number of sentences of
    each batch.
    """
    ready: dict[int, list[Hypothesis]] = {i: [] for i, sentence in enumerate(sentences) if not sentence.src_ids}
    with closing(batches):
        for i in range(len(sentences)):
            while i not in ready:
                indices, hypotheses = next(batches)
                ready |= zip(indices, hypotheses, strict=True)
                if on_found is not None:
                    on_found(len(indices))
            yield ready.pop(i)


def search_batches(
    search_batch: Callable[[Sequence[Sentence], SearchConfig, int, ShouldStop | None], Hypotheses],
    sentences: Sequence[Sentence],
    search: SearchConfig,
    n_best: int,
    device: torch.device,
    should_stop: ShouldStop | None,
) -> Generator[tuple[list[int], Hypotheses]]:
    """Divide sentences into batches and search these, several at once on a CPU; see `Searcher.search`."""

    def searched(batch: Sequence[int]) -> Hypotheses:
        stop_if(should_stop)
        return search_batch([sentences[i] for i in batch], search, n_best, should_stop)

    batches = make_batches(sentences, search, n_best, search.batch_size(device.type))
    with closing(run_all(searched, batches, device)) as results:
        yield from zip(batches, results, strict=True)


def search_cost(sentence: Sentence, search: SearchConfig, n_best: int) -> float:
    """Return the cost of a search that goes on until the length limit, in steps of one hypothesis without a past."""
    if not sentence.src_ids:
        return 0.0
    n_steps = sentence.max_length
    return _width(sentence, search, n_best) * n_steps * (1 + n_steps / PAST_STEPS)


def _width(sentence: Sentence, search: SearchConfig, n_best: int) -> int:
    return beam_for(sentence.phrases, n_best if search.sample else search.beam)


def make_batches(sentences: Sequence[Sentence], search: SearchConfig, n_best: int, size: BatchSize) -> list[list[int]]:
    """Return batches of indices of sentences of similar length, in the order of their first sentences.

    A batch has at most size.sentences and size.tokens source tokens (rows x longest row, `</s>` counted), or one row.
    Sentences that need a wider beam are in smaller batches of their own, blank ones in none.
    """
    beams = [_width(sentence, search, n_best) for sentence in sentences]
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
