"""CTranslate2: search with its models, and a comparison with the native search.

CTranslate2 finishes and ranks hypotheses as `nmt.search.beam` does. This module compensates for two differences:

* Suppressing tokens increases the probabilities of the others. So nothing is suppressed at first, and a line whose
  translation contains a special token is translated again with special tokens suppressed.
* A call has a single maximum length, at which hypotheses are returned unfinished; the native search ends them with
  `</s>`. So lines of similar limits share a batch, and a line that exceeds its own limit is translated again.

Translations that were searched with changed probabilities are scored again by forced decoding: a log-probability
always comes from the model over the whole vocabulary.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

import torch

from nmt.console import Progress
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.evaluate.metrics import Score, corpus_score
from nmt.files.read import check_regular
from nmt.runs.folder import Folder, load_folder, verify_export
from nmt.runs.model import Origin
from nmt.search.beam import n_to_finish
from nmt.search.forced import ForcedDecoder, check_equal
from nmt.search.rules import ShouldStop, stop_if
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, Pair, length_penalty
from nmt.share.ctranslate2 import SHORTLIST, library
from nmt.share.formats import NO_CTRANSLATE2_TERMS, check_supported, unsupported
from nmt.text.ids import EOS
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from nmt.translate.search import Hypotheses, SearchedBatches, Searcher, search_batches
from nmt.translate.types import Sentence, Translation

if TYPE_CHECKING:
    import ctranslate2


EngineCandidate = tuple[list[int], float]
"""The ids of a translation without `</s>`, and its log-probability."""
Candidates = dict[int, list[EngineCandidate]]
"""The translations of each row."""


@dataclass(frozen=True)
class _Line:
    row: int
    """The index in the result."""
    src: Sequence[int]
    limit: int
    prefix: Sequence[int]
    n_given: int
    """The number of ids in the prefix that are not part of the translation."""


class Engine:
    """A searcher with a CTranslate2 model on the CPU."""

    def __init__(self, folder: Folder) -> None:
        """Load the model in `folder`.

        Raises CheckpointError if it is damaged or not a CTranslate2 model, ConfigError if the package is not installed.
        """
        self.folder = folder
        self.path = folder.directory.path
        if folder.info.kind != "ctranslate2":
            raise CheckpointError(
                f"{self.path}: not a CTranslate2 model; create one with nmt export --format ctranslate2"
            )
        self._library = library()
        verify_export(self.path)
        self.quantization = str(folder.info.quantization)
        self.precision = f"{self.quantization}, CTranslate2"
        self.positions = int(folder.info.positions or 0)
        """The longest sequence that the model can take, `</s>` counted."""
        model = folder.config.model
        self.max_positions = model.max_positions if model.positions == "learned" else None
        src, tgt = folder.tokenizers.sides(folder.config.data.direction)
        self.src = src.pieces(range(len(src)))
        self.tgt = tgt.pieces(range(len(tgt)))
        self.never_written = tgt.never_written(folder.config.joins_sentences)
        self.n_opening = len(tgt.opening)
        self.has_shortlist = (self.path / SHORTLIST).is_file()
        self.tgt_ids = {piece: i for i, piece in enumerate(self.tgt)}
        n_batches, n_threads = _threads()
        self._model = self._load(n_batches + 1, n_threads)  # one more, so that a short search does not wait for others
        self._sampling = threading.Lock()  # the seed is global

    @property
    def weights(self) -> str:
        """The fingerprint of the weights of the run; see `Searcher`."""
        return self.folder.info.tensors

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the arithmetic; see `Searcher`."""
        return f"{self.weights} {self.precision}"

    def _load(self, inter_threads: int, intra_threads: int) -> ctranslate2.Translator:
        for path in self.path.iterdir():  # the library opens any file there
            if not path.is_dir():
                check_regular(path)
        numbers = "float32" if self.quantization == "float16" else self.quantization  # not available on a CPU
        try:
            model: ctranslate2.Translator = self._library.Translator(
                str(self.path),
                device="cpu",
                compute_type=numbers,
                inter_threads=inter_threads,
                intra_threads=intra_threads,
            )
        except (LookupError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"{self.path}: cannot be loaded by CTranslate2: {error}") from error
        return model

    def check(self, search: SearchConfig, has_terms: bool, language: str) -> None:  # noqa: ARG002 (the protocol's)
        """Raise ConfigError for settings or terms that CTranslate2 does not support."""
        check_supported(search)
        if has_terms:
            raise ConfigError(NO_CTRANSLATE2_TERMS)

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:  # noqa: ARG002 (the protocol's)
        """Raise ConfigError, because CTranslate2 does not support forced decoding."""
        raise ConfigError("alignments, attention and scores of given translations need --engine native")

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> SearchedBatches:
        """Yield the indices and hypotheses of batches of sentences; see `Searcher`.

        `should_stop` is called before each batch, since CTranslate2 cannot stop within one.
        """
        if any(sentence.phrases for sentence in sentences):
            raise ConfigError(NO_CTRANSLATE2_TERMS)
        yield from search_batches(self.search_batch, sentences, search, n_best, torch.device("cpu"), should_stop)

    def search_batch(
        self, sentences: Sequence[Sentence], config: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> Hypotheses:
        """Return for each sentence up to `n_best` hypotheses, best score first.

        Pass as many sentences as there are: they are batched here. Samples depend on the seed, the first sentence's key
        and all sentences, and differ from the native search's. Raises ConfigError as `check_supported` does,
        DataError for a sentence that is longer than the model can take, and SearchStopped after `should_stop` has
        returned True, which is called before each batch.
        """
        check_supported(config)
        longest = max((len(sentence.src_ids) for sentence in sentences), default=0)
        if longest >= self.positions:
            raise DataError(f"a line of {longest} pieces is too long: {self.path} accepts at most {self.positions - 1}")
        lines = []
        for row, sentence in enumerate(sentences):
            limit = min(len(sentence.given) + sentence.max_length, self.positions)
            prefix = [*sentence.given, *sentence.prefix]
            lines.append(_Line(row, sentence.src_ids, limit, prefix, len(sentence.given)))
        if not config.sample:
            return _Search(self, self._model, config, n_best, should_stop).hypotheses(lines)
        with self._sampling:
            model = self._sampler(config.seed, sentences[0].key)
            return _Search(self, model, config, n_best, should_stop).hypotheses(lines)

    def log_probs(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """Return the log-probabilities (nats, over the whole vocabulary) of each pair's target tokens, `</s>` last."""
        sources = [_pieces(self.src, src) for src, _ in pairs]
        targets = [_pieces(self.tgt, tgt) for _, tgt in pairs]
        scored = self._model.score_batch(
            sources,
            targets,
            max_batch_size=64,
            max_input_length=0,
        )
        return [list(result.log_probs) for result in scored]

    def _sampler(self, seed: int, key: int) -> ctranslate2.Translator:
        """Return a new instance of the model, since CTranslate2 reads the seed when a thread starts."""
        self._library.set_random_seed((seed * 1_000_003 + key) % 2**32)
        return self._load(1, math.prod(_threads()))


def _threads() -> tuple[int, int]:
    """Return the number of concurrent batches, and the number of threads for each."""
    n = torch.get_num_threads()
    n_batches = min(n, 8)
    return n_batches, n // n_batches


def _pieces(vocabulary: Sequence[str], ids: Sequence[int]) -> list[str]:
    return [vocabulary[i] for i in ids]


@dataclass(frozen=True)
class _Search:
    """A search with one model and the same settings for all lines."""

    engine: Engine
    model: ctranslate2.Translator
    config: SearchConfig
    n_best: int
    should_stop: ShouldStop | None

    def hypotheses(self, lines: Sequence[_Line]) -> list[list[Hypothesis]]:
        """Return up to `n_best` hypotheses of each line."""
        config = self.config
        candidates = self.translate(lines, suppress=config.sample)
        special = [line for line in lines if self.has_special(line, candidates[line.row])]
        candidates |= self.translate(special, suppress=True)
        long = [line for line in lines if any(len(ids) >= line.limit for ids, _ in candidates[line.row])]
        # Long lines are searched again up to one token before the limit, where all live hypotheses are returned with
        # the finished ones, without `</s>`. (A hypothesis that would finish only with the next token is missing;
        # it could only be the last of several.)
        for limit in {line.limit for line in long}:
            same = [line for line in long if line.limit == limit]
            longest = max(limit - 1, 1)
            for row, found in self.translate(same, suppress=True, longest=longest, n_more=config.beam).items():
                candidates[row] = [(ids[: limit - 1], log_prob) for ids, log_prob in found]
        to_score = lines
        # else the search has changed the model's probabilities
        if not (config.sample or config.min_length or config.no_repeat_ngram):
            again = {line.row for line in [*special, *long]}
            to_score = [line for line in lines if len(line.prefix) or line.row in again]
        candidates |= self.forced(to_score, candidates)
        return [self.ranked(line, candidates[line.row]) for line in lines]

    def has_special(self, line: _Line, candidates: Sequence[EngineCandidate]) -> bool:
        """Return whether a translation contains a piece that no translation has."""
        banned = {*self.engine.never_written, EOS}
        start = line.n_given + self.engine.n_opening
        return any(not banned.isdisjoint(ids[start:]) for ids, _ in candidates)

    def forced(self, lines: Sequence[_Line], candidates: Candidates) -> Candidates:
        """Score the translations of these lines again by forced decoding."""
        pairs = []
        for line in lines:
            pairs += [(line.src, ids) for ids, _ in candidates[line.row]]
        log_probs = iter(self.engine.log_probs(pairs))
        forced = {}
        for line in lines:
            start = line.n_given + self.engine.n_opening
            forced[line.row] = [(ids, math.fsum(next(log_probs)[start:])) for ids, _ in candidates[line.row]]
        return forced

    def translate(
        self, lines: Sequence[_Line], *, suppress: bool, longest: int | None = None, n_more: int = 0
    ) -> Candidates:
        """Translate lines in concurrent batches, one for each thread.

        CTranslate2 can stop within a batch only in greedy search, by a function that it calls for each token of each
        line. The function needs Python's global interpreter lock: up to four times slower beside a busy thread.

        Args:
            suppress: whether to mask special tokens.
            longest: maximum length; by default the largest limit of a batch.
            n_more: hypotheses to finish beyond those that the search needs, with a beam.
        """
        engine = self.engine
        config = self.config
        options = self.options(n_more)
        if suppress:
            options["suppress_sequences"] = [[engine.tgt[i]] for i in engine.never_written]
        waiting: list[tuple[_Line, ctranslate2.AsyncTranslationResult]] = []
        for batch in _batches(lines, config):
            stop_if(self.should_stop)
            most = longest or max(line.limit for line in batch)
            prefixes = [_pieces(engine.tgt, line.prefix) for line in batch]
            has_prefix = any(prefixes)
            sources = [_pieces(engine.src, line.src) for line in batch]
            results = self.model.translate_batch(
                sources,
                prefixes if has_prefix else None,
                asynchronous=True,
                use_vmap=engine.has_shortlist and not config.sample and not has_prefix,
                max_decoding_length=most,
                min_decoding_length=min(config.min_length, most),
                **options,
            )
            waiting += zip(batch, results, strict=True)
        return {line.row: self.read(result.result()) for line, result in waiting}

    def read(self, result: ctranslate2.TranslationResult) -> list[EngineCandidate]:
        """Convert the hypotheses of a line to ids and log-probabilities."""
        candidates = []
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            ids = [self.engine.tgt_ids[piece] for piece in pieces]
            log_prob = score * math.pow(max(len(ids), 1), self.exponent)
            if ids[-1:] == [EOS]:
                ids.pop()
            candidates.append((ids, log_prob))
        return candidates

    @property
    def exponent(self) -> float:
        """The length penalty, with 0 replaced by a tiny value, since 0 changes CTranslate2's stopping rule."""
        return self.config.length_penalty or 1e-30

    def options(self, n_more: int = 0) -> dict[str, object]:
        """Return the options with which `translate_batch` returns all hypotheses that it finds; see `translate`."""
        config = self.config
        options: dict[str, object] = {
            "max_input_length": 0,
            "no_repeat_ngram_size": config.no_repeat_ngram,
            "length_penalty": self.exponent,
            "return_scores": True,
            "return_end_token": True,
            "sampling_topk": 1,
        }
        if config.sample:
            return options | {
                "beam_size": 1,
                "num_hypotheses": 1 if config.top_k == 1 else self.n_best,  # all would be equal
                "sampling_topk": config.top_k,
                "sampling_topp": config.top_p,
                "sampling_temperature": config.temperature,
            }
        enough = 1 if config.beam == 1 else n_to_finish(config, self.n_best) + n_more
        return options | {"beam_size": config.beam, "num_hypotheses": enough, "patience": enough / config.beam}

    def ranked(self, line: _Line, candidates: Sequence[EngineCandidate]) -> list[Hypothesis]:
        """Return the best candidates of a line as hypotheses."""
        config = self.config
        limit = line.limit - line.n_given
        hypotheses = []
        for ids, log_prob in candidates:
            own_ids = ids[line.n_given :]
            score = log_prob / length_penalty(len(own_ids) + 1, config)
            hypotheses.append(Hypothesis(own_ids, log_prob, score, finished=len(own_ids) + 1 < limit))
        if not config.sample:  # the last of equal ones, at the place of the first
            hypotheses = list({tuple(hypothesis.ids): hypothesis for hypothesis in hypotheses}.values())
        elif config.top_k == 1:
            hypotheses *= self.n_best
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[: self.n_best]


def _batches(lines: Sequence[_Line], config: SearchConfig) -> list[list[_Line]]:
    """Return batches of lines with similar limits and lengths, longest first, so that threads finish together."""
    batches: list[list[_Line]] = []
    size = config.batch_size("cpu")
    for line in sorted(lines, key=lambda line: (-line.limit, -len(line.src))):
        batch = batches[-1] if batches else []
        longest = len(batch[0].src) if batch else 0
        if not batch or len(batch) == size.sentences or (len(batch) + 1) * (longest + 1) > size.tokens:
            batches.append([])
        batches[-1].append(line)
    return batches


def engine_translator(engine: Engine) -> Translator:
    """Return the translator of a loaded CTranslate2 model."""
    folder = engine.folder
    origin = Origin(folder.directory.path, folder.info.step, folder.info.weights, folder.info.reason)
    return Translator.configured(engine, folder.tokenizers, folder.config, [origin], folder.directory.path)


def load_ctranslate2(path: Path | str) -> Translator:
    """Load the translator of a directory that `nmt export --format ctranslate2` wrote.

    Raises CheckpointError if it is missing or damaged, ConfigError if CTranslate2 is not installed.
    """
    return engine_translator(Engine(load_folder(Path(path))))


TOLERANCE = {"float32": 1e-3, "float16": 0.02, "int8": 0.2}
"""Maximum difference between two mean log-probabilities of a piece, by quantization; in float32 they differ by 1e-6."""


@dataclass(frozen=True)
class EngineComparison:
    """Differences between the translations of the same lines by two engines."""

    n_lines: int
    n_identical: int
    """Number of translations that consist of the same pieces."""
    difference: float
    """The largest difference between both engines' mean log-probabilities of a piece of a native translation."""
    chrf: Score
    """chrF of the engine's translations against the native ones."""
    bleu: Sequence[float]
    """BLEU of the native translations and of the engine's, if there are references."""

    @property
    def identical(self) -> float:
        """The share of identical translations."""
        return self.n_identical / self.n_lines

    def __str__(self) -> str:
        share = f"{self.n_identical} of {self.n_lines} translations identical ({self.identical:.1%})"
        scores = f"scores differ by at most {self.difference:.1e}; chrF between the engines {self.chrf.value:.2f}"
        bleu = f"; BLEU {self.bleu[0]:.2f} by the run, {self.bleu[1]:.2f} by the export" if self.bleu else ""
        return f"{share}, {scores}{bleu}"


class ScoringSearcher(Searcher, Protocol):
    """A searcher that also scores translations."""

    @property
    def quantization(self) -> str:
        """The number format of the weights."""

    def log_probs(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """Return the log-probabilities (nats) of each pair's target tokens, `</s>` last."""


def compare(
    native: Translator,
    engine: ScoringSearcher,
    lines: Sequence[str],
    search: SearchConfig,
    refs: Sequence[str] | None = None,
) -> EngineComparison:
    """Translate `lines`, at least one of which is not blank, with both engines. `native` runs in float32.

    refs: references of the lines, if there are any. Raises CheckpointError if the log-probabilities differ by more than
    rounding explains.
    """
    with Progress("comparing the engines", 2 * len(lines)) as progress:
        expected = [best for best, *_ in native.translate_lines(lines, search, progress=progress)]
        translator = replace(native, searcher=engine)
        actual = [best for best, *_ in translator.translate_lines(lines, search, progress=progress)]
    pairs = []
    for translation in expected:
        pairs += [(part.src_ids, part.tgt_ids) for part in translation.searched]
    log_probs = zip(native.forced_decoder(search).log_probs(pairs), engine.log_probs(pairs), strict=True)
    differences = []
    tolerance = TOLERANCE[engine.quantization]
    for of_run, of_engine in log_probs:
        differences.append(check_equal(fmean(of_run), fmean(of_engine), "the export", tolerance))
    hyps = [translation.text for translation in actual]
    by_run = [translation.text for translation in expected]
    language = native.config.data.tgt
    pairs_of_pieces = zip(map(_pieces_of, expected), map(_pieces_of, actual), strict=True)
    n_identical = sum(of_run == of_engine for of_run, of_engine in pairs_of_pieces)
    return EngineComparison(
        n_lines=len(expected),
        n_identical=n_identical,
        difference=max(differences, default=0.0),
        chrf=corpus_score("chrf", hyps, by_run, language),
        bleu=[] if refs is None else [corpus_score("bleu", texts, refs, language).value for texts in (by_run, hyps)],
    )


def _pieces_of(translation: Translation) -> list[tuple[int, ...]]:
    return [tuple(part.tgt_ids) for part in translation.parts]


def finds_the_same(search: SearchConfig) -> bool:
    """Return whether both engines find the same translations with these settings, apart from rounding."""
    # what it suppresses loses its probability, by which a beam is pruned
    suppresses = search.beam > 1 and (search.no_repeat_ngram or search.min_length)
    return not (unsupported(search) or search.sample or search.mbr != "none" or suppresses)


def search_for_check(config: SearchConfig) -> SearchConfig:
    """Return the run's search settings if both engines give equal results with them, else the defaults."""
    return config if finds_the_same(config) else SearchConfig()


def made_up_lines(tokenizer: Tokenizer, n: int) -> list[str]:
    """Return `n` lines of random words of the vocabulary, to compare two models without a text."""
    rng = random.Random(1)
    words = []
    for piece in tokenizer.pieces(range(len(tokenizer))):
        if piece[0] == "\u2581" and piece[1:].isalpha():
            words.append(piece[1:])
    return [" ".join(rng.choices(words or ["a"], k=rng.randint(1, 12))) for _ in range(n)]
