"""The interface of search engines, `Searcher`, and the native engine, which uses several threads on a CPU.

`JointSearch` searches several sentences at once, for models trained with `training.modifiers.join`. The sentences of a
line are one source, with separators between them, and so is their translation, which is divided at the separators. With
`search.context`, the sentences before them in their document come first in the source, and the decoder reads the
translations of these, which are known already, before it begins. The lines of different documents share batches: line r
of each document is searched in round r.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import torch

from nmt.data.on_device import sent
from nmt.errors import ConfigError
from nmt.model.device import float32_library, for_inference, threads
from nmt.model.inference import InferenceModel
from nmt.model.transformer import DecoderModel, DecodingModel, Transformer
from nmt.model.weights import weights_fingerprint
from nmt.search.constrained import Constraints, beam_for, with_phrases
from nmt.search.forced import ForcedDecoder
from nmt.search.methods import find_hypotheses
from nmt.search.rules import Rules, ShouldStop, stop_if
from nmt.search.settings import BatchSize, SearchConfig
from nmt.search.step import Ensemble, Fusion, Hypothesis, StepModel, TransformerStep, padded
from nmt.text.ids import EOS, PAD, SEPARATOR
from nmt.text.phrases import word_parts
from nmt.text.tokenizer import Tokenizer
from nmt.translate.types import NO_TERMS, Line, Sentence, takes_terms

Job = TypeVar("Job")
Result = TypeVar("Result")

THREAD_NAME = "nmt translates"
MAX_WORKERS = 8
"""Maximum number of threads; more would wait for Python's global interpreter lock."""
SMALL_STEP = 2**25
"""Number of multiplications below which a decoding step takes about 1 ms, and several threads save at most 10 %."""


def threads_for(multiplications: int) -> AbstractContextManager[None]:
    """Return a context in which PyTorch uses only one thread if a decoding step has few multiplications.

    Several threads wait for each other after each operation. If another program occupies one of their cores, waiting
    takes several times as long as the computation.
    """
    return threads(1 if multiplications < SMALL_STEP else torch.get_num_threads())


def in_threads(work: Callable[[Job], Result], jobs: Sequence[Job], device: torch.device) -> Generator[Result]:
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
        torch.set_num_threads(n_threads)  # the default for threads that start later


Hypotheses = list[list[Hypothesis]]
"""Hypotheses of each sentence of a batch, best first."""
SearchedBatches: TypeAlias = "Generator[tuple[list[int], Hypotheses]]"
"""For each batch, the indices of its sentences and their hypotheses."""
PAST_STEPS = 100
"""Number of earlier steps whose keys and values, read and reordered in each step, double the time of a step."""


class Searcher(Protocol):
    """A search engine, which finds hypotheses for sentences with PyTorch or another library."""

    @property
    def precision(self) -> str:
        """The precision of matrix products, for messages."""

    @property
    def max_positions(self) -> int | None:
        """Maximum length of a source or translation, including `</s>`; None if there is no limit."""

    @property
    def weights(self) -> str:
        """The fingerprint of the weights of each model, as saved."""

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the arithmetic, which determine the translations with given settings."""

    def check(self, search: SearchConfig, has_terms: bool, language: str) -> None:
        """Raise ConfigError if the engine does not support these settings or terms.

        language: the language of the translations.
        """

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> SearchedBatches:
        """Yield for each batch the indices of its sentences and up to `n_best` hypotheses of each.

        Blank sentences are omitted. Batches are in the order of their first sentences. Close the generator to stop
        early; this waits for the batches that are being searched. If `should_stop` returns True, they are stopped as
        soon as the engine can, and SearchStopped is raised.
        """

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:
        """Return a forced decoder, which scores given translations. Raises ConfigError if the engine has none."""


class LanguageModelRun(NamedTuple):
    """A language model for shallow fusion."""

    model: DecoderModel
    """The model, on the CPU."""
    tokenizer: Tokenizer
    languages: tuple[str, ...]


OpenLanguageModel: TypeAlias = "Callable[[str], LanguageModelRun]"
"""A function that reads the language model of a run, the value of `search.lm`."""


class NativeSearcher:
    """The search engine in PyTorch, for a model or an ensemble; a language model continues the beginnings of lines."""

    def __init__(
        self,
        models: Sequence[DecodingModel],
        tgt_tokenizer: Tokenizer,
        device: torch.device,
        precision: str,
        joins: bool = False,
        open_lm: OpenLanguageModel | None = None,
    ) -> None:
        """Prepare models, which are on `device`, for matrix products in `precision`: float32, bf16 or fp16.

        joins: whether translations may have separators, see `nmt.translate.search`. open_lm: without it, `search.lm` is
        refused.
        """
        self.models = models
        self.device = device
        self.precision = precision
        with torch.no_grad():
            self._prepared = [InferenceModel(model, precision) for model in models]
        self._weights = sum(weight.numel() for model in models for weight in model.decoder.parameters())
        # in a decoder-only model, source and translation share the positions of one sequence
        limits = [(model.max_positions, 2 if model.sees_source else 1) for model in models]
        self.max_positions = min((limit // share for limit, share in limits if limit is not None), default=None)
        self._tgt_tokenizer = tgt_tokenizer
        self._fused: dict[str, tuple[InferenceModel, tuple[str, ...]]] = {}
        """The language model of each run that `search.lm` has named, and the languages of the model."""
        self._joins = joins
        self._open_lm = open_lm
        self._banned = torch.tensor(tgt_tokenizer.never_written(joins), device=device)

    @property
    def weights(self) -> str:
        """The fingerprint of the weights; see `Searcher`."""
        return " ".join(
            weights_fingerprint({name: weight.detach().cpu() for name, weight in model.named_parameters()})
            for model in self.models
        )

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the arithmetic; see `Searcher`."""
        return f"{self.weights} {self.device.type} {self.precision} {float32_library()}"

    def with_models(self, models: Sequence[DecodingModel]) -> NativeSearcher:
        """Return a searcher with different models, which shares the language models that are loaded."""
        other = NativeSearcher(models, self._tgt_tokenizer, self.device, self.precision, self._joins, self._open_lm)
        other._fused = self._fused
        return other

    def check(self, search: SearchConfig, has_terms: bool, language: str) -> None:
        """Raise ConfigError if settings or terms are not supported, and what `open_lm` raises."""
        if has_terms and not takes_terms(search):
            raise ConfigError(NO_TERMS)
        if search.coverage_penalty and not all(isinstance(model, Transformer) for model in self.models):
            raise ConfigError("search.coverage_penalty: model.kind: decoder has no cross-attention")
        if search.lm is not None and language not in (languages := self._language_model(search.lm)[1]):
            learned = " and ".join(languages)
            raise ConfigError(f"search.lm: {search.lm} is a language model of {learned}, not {language}")

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:
        """Return a forced decoder, which scores given translations with the same models."""
        models = [for_inference(model, self.precision) for model in self.models]
        return ForcedDecoder(models, self.device, self.precision, search.batch_size(self.device.type).tokens)

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> SearchedBatches:
        """Yield the hypotheses of each batch; see `Searcher`. `should_stop` is called before each batch and step."""
        yield from search_batches(self.search_batch, sentences, search, n_best, self.device, should_stop)

    def search_batch(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> Hypotheses:
        """Return the hypotheses of the sentences of one batch, none of which may be blank."""
        with torch.inference_mode(), threads_for(self._weights * len(sentences) * search.beam):
            src = sent(padded([[*sentence.src_ids, EOS] for sentence in sentences]), self.device)  # (B, S)
            mask = src != PAD
            keep_attention = search.coverage_penalty > 0
            given = self._padded([sentence.given for sentence in sentences])
            steps: list[StepModel] = [
                TransformerStep(model, src, mask, given, keep_attention) for model in self._prepared
            ]
            limits = torch.tensor([sentence.max_length for sentence in sentences])
            fused = None if search.lm is None else self._language_model(search.lm)[0]
            if fused is not None and fused.max_positions is not None:
                n_given = torch.tensor([len(sentence.given) for sentence in sentences])
                limits = limits.minimum(fused.max_positions - n_given).clamp(min=1)
            prefix = self._padded([sentence.prefix for sentence in sentences])
            n_separators = None
            if self._joins:
                n_separators = sent(torch.tensor([sentence.n_joined - 1 for sentence in sentences]), self.device)
            rules = Rules(self._banned, limits, search.min_length, search.no_repeat_ngram, prefix, n_separators,
                          should_stop=should_stop)  # fmt: skip
            constraints = None
            if any(sentence.phrases for sentence in sentences):
                phrases = [sentence.phrases for sentence in sentences]
                n_ordered = [sentence.n_ordered for sentence in sentences]
                constraints = Constraints(phrases, limits, self._word_parts, n_ordered, self.device)
                search = with_phrases(search, max(beam_for(of_sentence, search.beam) for of_sentence in phrases))
            keys = [sentence.key for sentence in sentences]
            step = steps[0] if len(steps) == 1 else Ensemble(steps)
            if fused is not None:
                step = Fusion(step, TransformerStep(fused, src, mask, given), search.lm_weight)
            return find_hypotheses(step, rules, search, keys, n_best, constraints)

    def _padded(self, rows: Sequence[Sequence[int]]) -> torch.Tensor | None:
        """Return ids padded on the right, (B, longest) int64, on the device; None if there are none."""
        return sent(padded(rows), self.device) if any(rows) else None

    def _language_model(self, run: str) -> tuple[InferenceModel, tuple[str, ...]]:
        """Return the language model of a run, which is loaded only once, and its languages."""
        if run not in self._fused:
            if self._open_lm is None:
                raise ConfigError("search.lm: not available for this model")
            model, tokenizer, languages = self._open_lm(run)
            if tokenizer.fingerprint != self._tgt_tokenizer.fingerprint:
                problem = f"search.lm: {run} has a different tokenizer; prepare its data with --tokenizer-from"
                raise ConfigError(problem)
            with torch.no_grad():
                self._fused[run] = InferenceModel(model.to(self.device), self.precision), languages
        return self._fused[run]

    @cached_property
    def _word_parts(self) -> torch.Tensor:
        return torch.tensor(word_parts(self._tgt_tokenizer), device=self.device)


def in_order(
    batches: SearchedBatches,
    sentences: Sequence[Sentence],
    on_found: Callable[[int], None] | None = None,
) -> Generator[list[Hypothesis]]:
    """Yield the hypotheses of each sentence, in order, as soon as they are found; an empty list for a blank sentence.

    batches: the generator of `Searcher.search`, which is closed with this one. on_found: called with the number of
    sentences of each batch.
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
) -> SearchedBatches:
    """Search sentences in batches, several at once on a CPU, and yield their hypotheses; see `Searcher.search`."""

    def searched(batch: Sequence[int]) -> Hypotheses:
        stop_if(should_stop)
        return search_batch([sentences[i] for i in batch], search, n_best, should_stop)

    batches = make_batches(sentences, search, n_best, search.batch_size(device.type))
    with closing(in_threads(searched, batches, device)) as results:
        yield from zip(batches, results, strict=True)


def search_cost(sentence: Sentence, search: SearchConfig, n_best: int) -> float:
    """Return the maximum cost of searching a sentence; the unit is the first step of one hypothesis."""
    if not sentence.src_ids:
        return 0.0
    n_steps = sentence.max_length
    return _width(sentence, search, n_best) * n_steps * (1 + n_steps / PAST_STEPS)


def _width(sentence: Sentence, search: SearchConfig, n_best: int) -> int:
    return beam_for(sentence.phrases, n_best if search.sample else search.beam)


def make_batches(sentences: Sequence[Sentence], search: SearchConfig, n_best: int, size: BatchSize) -> list[list[int]]:
    """Divide sentences into batches of similar length; return their indices, in the order of their first sentences.

    A batch has at most size.sentences and size.tokens source tokens (rows x longest row, including `</s>`), or one row.
    Sentences that need a wider beam have separate, smaller batches. Blank sentences are omitted.
    """
    beams = [_width(sentence, search, n_best) for sentence in sentences]
    rows = [row for row, sentence in enumerate(sentences) if sentence.src_ids]
    batches: list[list[int]] = []
    for row in sorted(rows, key=lambda row: (beams[row], len(sentences[row].src_ids))):
        last = batches[-1] if batches else []
        n_rows = len(last) + 1
        fits = (
            last
            and beams[last[0]] == beams[row]
            and n_rows <= size.sentences
            and n_rows * beams[row] <= size.sentences * search.beam
            and n_rows * (len(sentences[row].src_ids) + 1) <= size.tokens
        )
        if fits:
            last.append(row)
        else:
            batches.append([row])
    return sorted(batches, key=min)


_Pair = tuple[list[int], list[int]]
"""The ids of a sentence and of its translation."""


@dataclass
class _Document:
    groups: list[list[int]] = field(default_factory=list)
    """The sentences that are searched together, by their indices."""
    past: list[_Pair] = field(default_factory=list)
    """The sentences that have been translated, with their translations."""


@dataclass(frozen=True)
class JointSearch:
    """A search for the sentences of lines in their documents, by an engine with the arguments of its `search`."""

    searcher: Searcher
    src: Tokenizer
    tgt: Tokenizer
    max_pieces: int
    """The maximum length of joined sentences, as in training."""
    settings: SearchConfig
    n_best: int = 1
    should_stop: ShouldStop | None = None

    def search(self, lines: Sequence[Line], by_line: Sequence[Sequence[Sentence]]) -> SearchedBatches:
        """Yield hypotheses of the sentences of all lines, with their indices; see `Searcher.search`.

        A blank line ends a document. A line that is not translated into as many sentences is translated again, each of
        its sentences by itself.
        """
        sentences = [sentence for of_line in by_line for sentence in of_line]
        documents = [_Document()]
        n = 0
        for line, of_line in zip(lines, by_line, strict=True):
            groups = self._groups(range(n, n + len(of_line)), sentences)
            n += len(of_line)
            if line.is_first or not groups or not self.settings.context:
                past = [(self.src.encode(src), self.tgt.encode(tgt)) for src, tgt in line.before]
                documents.append(_Document(past=past))
            documents[-1].groups += groups
        for number in range(max(len(document.groups) for document in documents)):
            current = [document for document in documents if number < len(document.groups)]
            yield from self._round(number, current, sentences)

    def _round(
        self, number: int, documents: Sequence[_Document], sentences: Sequence[Sentence]
    ) -> Iterator[tuple[list[int], Hypotheses]]:
        """Search the group with this number of each document, and add its translation to the document."""
        groups = [document.groups[number] for document in documents]
        joint = []
        best = dict[int, list[int]]()
        failed = []
        for group, document in zip(groups, documents, strict=True):
            of_group = [sentences[i] for i in group]
            joint.append(self._joined(of_group, self._context(of_group, document.past)))
        for rows, hypotheses in self._searched(joint):
            indices = []
            by_sentence = list[list[Hypothesis]]()
            for row, candidates in zip(rows, hypotheses, strict=True):
                divided = [_divided(hypothesis, len(groups[row])) for hypothesis in candidates]
                complete = [parts for parts in divided if parts is not None]
                if complete:
                    indices += groups[row]
                    by_sentence += map(list, zip(*complete, strict=True))
                else:
                    failed += groups[row]
            best |= _best_ids(indices, by_sentence)
            yield indices, by_sentence
        if failed:
            for rows, hypotheses in self._searched([sentences[i] for i in failed]):
                indices = [failed[row] for row in rows]
                best |= _best_ids(indices, hypotheses)
                yield indices, hypotheses
        for group, document in zip(groups, documents, strict=True):
            document.past += [self._translated(sentences[i], best.get(i, [])) for i in group]

    def _searched(self, sentences: Sequence[Sentence]) -> SearchedBatches:
        with closing(self.searcher.search(sentences, self.settings, self.n_best, self.should_stop)) as batches:
            yield from batches

    def _translated(self, sentence: Sentence, ids: list[int]) -> _Pair:
        """Return a sentence with its translation, from the translation memory or else `ids`."""
        if sentence.match is None:
            return self._untagged(sentence.src_ids), ids
        return self.src.encode(sentence.text), self.tgt.encode(sentence.match.text)

    def _groups(self, indices: Sequence[int], sentences: Sequence[Sentence]) -> list[list[int]]:
        """Return the indices of the sentences of a line that are searched together; blank ones are left out."""
        groups: list[list[int]] = []
        n_pieces = 0
        for i in indices:
            sentence = sentences[i]
            if not sentence.src_ids and sentence.match is None:
                continue
            n_pieces += 1 + len(sentence.src_ids)
            is_alone = sentence.match is not None or sentence.phrases or self.settings.split == "always"
            if not groups or is_alone or n_pieces > self.max_pieces:
                groups.append([])
                n_pieces = self.max_pieces if is_alone else len(sentence.src_ids)
            groups[-1].append(i)
        return groups

    def _context(self, group: Sequence[Sentence], past: Sequence[_Pair]) -> list[_Pair]:
        """Return the last sentences before a group that leave space for it, with their translations.

        A sentence with required phrases has no context, in which the search would find them.
        """
        if group[0].phrases or not group[0].src_ids:
            return []
        n_src = n_tgt = sum(1 + len(sentence.src_ids) for sentence in group)
        context: list[_Pair] = []
        for src, tgt in reversed(past[-self.settings.context or len(past) :]):
            n_src = n_src + 1 + len(src)
            n_tgt = n_tgt + 1 + len(tgt)
            if max(n_src, n_tgt) > self.max_pieces:
                break
            context.insert(0, (src, tgt))
        return context

    def _joined(self, group: Sequence[Sentence], context: Sequence[_Pair]) -> Sentence:
        """Return the sentences of a group as one, with their context."""
        first = group[0]
        if len(group) == 1 and not context:
            return first
        untagged = [self._untagged(sentence.src_ids) for sentence in group]
        tags = first.src_ids[: len(first.src_ids) - len(untagged[0])]
        sources = [*(src for src, _ in context), *untagged]
        given = [i for _, tgt in context for i in (*tgt, SEPARATOR)]
        longest = sum(sentence.max_length for sentence in group)
        if self.searcher.max_positions is not None:
            longest = min(longest, self.searcher.max_positions - len(given))
        return replace(
            first,
            src_ids=[*tags, *(i for source in sources for i in (*source, SEPARATOR))][:-1],
            given=given,
            n_joined=len(group),
            max_length=longest,
        )

    def _untagged(self, ids: Sequence[int]) -> list[int]:
        return [i for i in ids if i < self.src.n_pieces]


def _best_ids(indices: Sequence[int], hypotheses: Hypotheses) -> dict[int, list[int]]:
    """Return the ids of the best hypothesis of each sentence by its index."""
    return {i: list(best.ids) for i, (best, *_) in zip(indices, hypotheses, strict=True)}


def _divided(hypothesis: Hypothesis, n: int) -> list[Hypothesis] | None:
    """Divide a hypothesis at the separators into hypotheses of `n` sentences.

    The log-probability is divided in proportion to the lengths. Returns None if there is another number of sentences,
    or one of several without text.
    """
    parts = list[list[int]]([[]])
    for i in hypothesis.ids:
        if i == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(i)
    if len(parts) != n or (n > 1 and not all(parts)):
        return None
    share = hypothesis.log_prob / (len(hypothesis.ids) + 1)
    return [replace(hypothesis, ids=part, log_prob=share * (len(part) + 1)) for part in parts]
