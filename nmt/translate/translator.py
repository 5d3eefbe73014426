"""The translator, which splits lines into sentences, searches them, and yields translations in order.

Lines of text, documents and requests to a server all pass `Translator.translate_window`; training's validation and
`nmt evaluate` call `translate_lines`, and programs `translate`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from nmt.config import Config
from nmt.config.load import Override, changed_config, check_config, keeping_split
from nmt.config.modes import leave_out
from nmt.console import Progress, say
from nmt.errors import CheckpointError, ConfigError
from nmt.languages.directions import ANY, check_language
from nmt.model.device import pick_device
from nmt.runs.model import AnyModel, ModelRef, Origin, Saved, choose_precision, open_ensemble
from nmt.search.forced import ForcedDecoder, with_cross_attention
from nmt.search.rules import ShouldStop, stop_if
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis
from nmt.text.constraints import AnyGlossary, Glossary
from nmt.text.split import sentences
from nmt.text.vocabularies import Tokenizers
from nmt.translate.align import alignments, word_spans
from nmt.translate.confidence import Estimator, Measure, calibration_path, read_calibration
from nmt.translate.memory import AnyMemory, TranslationMemory
from nmt.translate.score import Context, PairScorer, Scored
from nmt.translate.search import JointSearch, NativeSearcher, Searcher, in_order, search_cost
from nmt.translate.segment import Segmenter, n_candidates
from nmt.translate.types import (
    NOT_INLINE,
    WINDOW,
    Line,
    Options,
    Part,
    Sentence,
    Translation,
    check_search,
    takes_terms,
    unprotected,
)


def for_texts(search: SearchConfig) -> list[Override]:
    """Return changes to the configured settings for texts of several sentences: each sentence is
    translated separately, and placeholders are protected, unless `split` is never or `protect` is set."""
    changes = list[Override]()
    if not search.protect:
        changes.append(("search.protect", "placeholders"))
    if search.split != "never":
        changes.append(("search.split", "always"))
    return changes


@dataclass(frozen=True, eq=False)
class Translator:
    """A translator from one language into another, with one model or an ensemble. It is immutable and thread-safe."""

    searcher: Searcher
    """The engine that translates: CTranslate2's or PyTorch's."""
    tokenizers: Tokenizers
    config: Config
    origins: Sequence[Origin] = ()
    """The origin of the weights of each model of an ensemble."""
    run: Path | None = None
    """The run or exported folder, the first of an ensemble; None for a model that was not loaded."""
    fallback: Searcher | None = None
    """PyTorch's engine beside CTranslate2's: it aligns words, and translates lines with terms, placeholders or search
    settings that CTranslate2 does not support."""
    first: Translator | None = None
    """The translator into another language, from which this one translates, if there are two steps (pivot)."""
    second: Config | None = None
    """The configuration of the second of two steps."""
    tm: TranslationMemory | None = None
    """The translation memory of a server."""
    to: str | None = None
    """One of the target languages of an imported model, if it was chosen."""

    @cached_property
    def _segmenter(self) -> Segmenter:
        return Segmenter(self.tokenizers, self.second or self.config, self.searcher.max_positions)

    @classmethod
    def load(cls, model: AnyModel, *, device: str = "auto", precision: str = "auto", **choice: Any) -> Translator:
        """Load a translator from a run or an exported folder, or an ensemble from several.

        model: a path, several, or a `ModelRef`; device: auto, cpu or cuda; precision: auto, float32, bf16 or fp16;
        choice: `checkpoint`, `weights`, `to` and `source`, see `ModelRef`. Raises CheckpointError if the run or
        checkpoint is missing or damaged, DataError if its tokenizer is, ConfigError if runs cannot form an ensemble.
        """
        saved = open_ensemble(ModelRef.of(model, **choice))
        torch_device = pick_device(device)
        return cls.of(saved, torch_device, choose_precision(saved[0], precision, torch_device))

    @classmethod
    def of(cls, saved: Sequence[Saved], device: torch.device, precision: str) -> Translator:
        """Return a translator with loaded models. Raises CheckpointError if their weights do not match."""
        first = saved[0]
        models = [member.translation_model().to(device) for member in saved]
        tokenizer = first.tokenizers[first.config.data.tgt]
        joins = first.config.joins_sentences
        searcher = NativeSearcher(models, tokenizer, device, precision, joins)
        return cls(searcher, first.tokenizers, first.config, [member.origin for member in saved], first.path)

    def with_fallback(self, native: Translator) -> Translator:
        """Return a translator that uses the engine of `native`, PyTorch's, for what its own does not support."""
        return replace(self, fallback=native.searcher)

    def towards(self, to: str | None, source: str | None = None, via: str | None = None) -> Translator:
        """Return a translator with the same models into one of several target languages.

        source: the source language if there are several; `ANY` if it makes no difference. via: a language into which
        lines are translated first (pivot); `source` must be given, too. Raises ConfigError.
        """
        config = self.tokenizers.choose(self.config, to, source)
        chosen_tag = to if config.search.to == to else None
        chosen = replace(self, config=config, first=None, second=None, to=chosen_tag)
        direction = config.data.direction
        trained = self.config.data.directions
        if via is None and len(trained) > 1 and direction not in trained:
            say(f"{direction}: a direction without training pairs (zero-shot), so expect more errors")
        if via is None:
            return chosen
        if source in (None, ANY) or to is None:
            raise ConfigError("--via: needs --from and --to")
        check_language("--via", via, self.config.data.all_languages)
        second = self.tokenizers.choose(self.config, to, via)  # the model may read the source language
        return replace(chosen, first=self.towards(via, source), second=second)

    @classmethod
    def load_for(cls, direction: str, option: str, paths: Sequence[Path], precision: str = "auto") -> Translator:
        """Load the runs of a command line option, which must translate in `direction`, as one of several if need be.

        Raises ConfigError if they do not, and what `load` raises.
        """
        src, tgt = direction.split("-")
        translator = cls.load(paths, precision=precision).opposite_of(f"{tgt}-{src}")
        if translator.config.data.direction != direction:
            translates = f"translates {translator.config.data.direction}"
            raise ConfigError(f"{option} {paths[0]}: {translates}; with this --run it must translate {direction}")
        return translator

    def opposite_of(self, direction: str) -> Translator:
        """Return a translator of the opposite of `direction`, if there are several directions to choose from."""
        src, tgt = direction.split("-")
        return self.towards(src, tgt) if self.config.data.has_several_directions else self

    def by_direction(self, to: str | None = None, source: str | None = None) -> list[Translator]:
        """Return a translator for each of several directions, or this translator if it has one.

        to, source: the languages, if not all directions are wanted; between them may be a direction that was not
        trained (zero-shot). Raises ConfigError.
        """
        pairs = self.config.data.all_sides
        chosen = [pair for pair in pairs if to in (None, pair[1]) and source in (None, pair[0])]
        if len(pairs) > 1 and chosen:
            return [self.towards(tgt, src) for src, tgt in chosen]
        if (to, source) == (None, None):
            return [self]
        return [self.towards(to, source)]

    @property
    def origin(self) -> Origin | None:
        """The origin of the weights, of the first model of an ensemble; None for a model that was not loaded."""
        return self.origins[0] if self.origins else None

    @property
    def source(self) -> str:
        """The source language."""
        return self.config.data.src

    @property
    def target(self) -> str:
        """The target language, by the name in which it was chosen."""
        return self.to or self.config.data.tgt

    @property
    def other_targets(self) -> list[str]:
        """The target languages among which the source of an imported model chooses by a tag."""
        tokenizer = self.tokenizers[self.source]
        if self.config.search.to is not None or tokenizer.to is not None:
            return []
        return [name for name in tokenizer.target_languages if name != self.target]

    @property
    def precision(self) -> str:
        """The precision of matrix products."""
        return self.searcher.precision

    @property
    def native(self) -> Searcher | None:
        """PyTorch's engine, which terms require; None if only CTranslate2 is used."""
        return self.searcher if isinstance(self.searcher, NativeSearcher) else self.fallback

    @property
    def aligns(self) -> bool:
        """Whether words can be aligned, which requires PyTorch, cross-attention, and no translation via a pivot."""
        return self.native is not None and self.config.model.is_encoder_decoder and self.first is None

    @cached_property
    def has_confidence(self) -> bool:
        """Whether confidence can be estimated, which requires nmt calibrate."""
        try:
            return self.run is not None and bool(self.estimator)
        except (ConfigError, CheckpointError):
            return False

    @cached_property
    def estimator(self) -> Estimator:
        """The estimator of the confidence in translations with the configured search settings.

        Raises ConfigError for an ensemble and for a translator in two steps, and what `read_calibration` raises.
        """
        if len(self.origins) > 1 or self.first is not None:
            raise ConfigError("--confidence: needs a single run, without --via")
        assert self.run is not None and self.origin is not None, "the translator was loaded from a run"
        calibration = read_calibration(self.run, self.config, self.origin, self.searcher.weights)
        reverse = None
        if calibration.reverse is not None:
            option = f"{calibration_path(self.run, self.config, self.config.search)}: reverse"
            reverse = Translator.load_for(f"{self.config.data.tgt}-{self.source}", option, [Path(calibration.reverse)])
        decoder = None
        expected = calibration.searched
        if self.native is not None:
            decoder = self.forced_decoder()
            expected = calibration.forced
        return Estimator(expected, Measure(self, self.config.search, decoder, reverse, calibration.samples))

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the models, their arithmetic and the languages, which determine the translations of `Options`."""
        engines = [self.searcher] if self.fallback is None else [self.searcher, self.fallback]
        via = self.first and self.first.config.data.tgt
        return f"{' '.join(engine.fingerprint for engine in engines)} {self.source} {via} {self.target}"

    @overload
    def translate(self, texts: Sequence[str], *, n_best: int, **options: Any) -> list[list[str]]: ...
    @overload
    def translate(self, texts: Sequence[str], *, n_best: None = None, **options: Any) -> list[str]: ...
    def translate(
        self, texts: Sequence[str], *, n_best: int | None = None, **options: Any
    ) -> list[str] | list[list[str]]:
        """Return the translation of each text; with `n_best`, a list of up to that many translations, best first.

        The translations are the same as from `nmt translate`. Further arguments and errors are those of `translations`.
        """
        if n_best is None:
            return [best.text for best, *_ in self.translations(texts, **options)]
        by_text = self.translations(texts, n_best, **options)
        return [[translation.text for translation in translations] for translations in by_text]

    def translations(
        self,
        texts: Sequence[str],
        n_best: int = 1,
        *,
        glossary: AnyGlossary | None = None,
        tm: AnyMemory | None = None,
        **settings: Any,
    ) -> list[list[Translation]]:
        """Return up to `n_best` translations of each text, best first, with their scores and token ids.

        glossary: terms with their translations, or the path of a glossary file. tm: a `TranslationMemory`, or the path
        or paths of its files; texts that occur in it get its translation. Further arguments are to, source and via, as
        for `towards`, and search settings by name, such as beam=1.
        Raises ConfigError if settings do not exist or are incompatible, DataError if the glossary or the memory is
        invalid.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts, found a single text; write [text]")
        to, source, via = (settings.pop(name, None) for name in ("to", "source", "via"))
        if (to, source, via) != (None, None, None):
            directed = self.towards(to, source or ANY, via)
            return directed.translations(texts, n_best, glossary=glossary, tm=tm, **settings)
        search = self.search_settings(settings)
        terms = Glossary.of(glossary, self.config.data.tgt) if glossary is not None else None
        memory = self.memory(tm, search) if tm is not None else None
        self.check(search, n_best, has_terms=terms is not None and not search.inline_terms)
        lines = [Line(text, glossary=terms, tm=memory) for text in texts]
        return list(self.translate_lines(lines, search, n_best))

    def attention(self, part: Part) -> dict[str, Tensor]:
        """Return the attention weights of every layer for a part of a translation, such as `translation.parts[0]`.

        See `ForcedDecoder.layer_attention`. Raises what `forced_decoder` raises.
        """
        return self.forced_decoder().layer_attention((part.src_ids, part.tgt_ids))

    def memory(self, tm: AnyMemory, search: SearchConfig) -> TranslationMemory:
        """Return a translation memory in the languages of this translator, or read it from its files.

        Raises ConfigError if the translator has two steps, and what `TranslationMemory.read` raises.
        """
        if self.first is not None:
            raise ConfigError("--via: not available with a translation memory")
        self.config.choose(None)
        memory = TranslationMemory.of(tm, self.config.data.src, search.to or self.config.data.tgt)
        memory.use_for(self.config, search)
        return memory

    def search_settings(self, settings: Mapping[str, object], where: str = "translate") -> SearchConfig:
        """Return the configured search settings with some changed. Raises ConfigError, which begins with `where`."""
        tree = self.config.model_dump()
        tree["search"] |= settings
        leave_out(tree, [f"search.{name}" for name in settings])
        changed = check_config(tree, where)
        return keeping_split(self.config, changed).search

    def with_search(self, overrides: Sequence[Override]) -> Translator:
        """Return a translator with changed search settings. Raises ConfigError."""
        return replace(self, config=keeping_split(self.config, changed_config(self.config, overrides)))

    def check(self, search: SearchConfig, n_best: int, has_terms: bool = False) -> None:
        """Raise ConfigError if the settings are incompatible, or not supported by an engine, and DataError if the
        model has no such target language or tag."""
        self._engine(search, n_best, has_terms)

    def _engine(self, search: SearchConfig, n_best: int, has_terms: bool) -> Searcher:
        """Return the engine for these settings; see `check`."""
        check_search(search, n_best)
        self.config.choose(None)
        if search.context and not self.config.joins_sentences:
            raise ConfigError("search.context: the model was not trained with training.modifiers.join")
        if self.first is not None and (has_terms or search.inline_terms or search.lm is not None):
            raise ConfigError("--via: not available with terms and with a language model (search.lm)")
        if search.inline_terms and "terms" not in self.config.training.modifiers:
            raise ConfigError(NOT_INLINE)
        tokenizer = self.tokenizers[self.source]
        target = self.config.data.tgt
        if search.to is not None:
            tokenizer.tag(search.to)
        tokenizer.tag_ids(search.tags)
        try:
            self.searcher.check(search, has_terms, target)
        except ConfigError:
            if self.fallback is None:
                raise
            self.fallback.check(search, has_terms, target)
            return self.fallback
        return self.searcher

    def forced_decoder(self, search: SearchConfig | None = None) -> ForcedDecoder:
        """Return a forced decoder, which scores given translations and computes attention weights.

        Raises ConfigError if PyTorch is not used, or if the target language is not chosen.
        """
        self.config.choose(None)
        return (self.native or self.searcher).forced_decoder(search or self.config.search)

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        search: SearchConfig | None = None,
        progress: Progress | None = None,
        contexts: Iterable[Context] = (),
    ) -> Iterator[Scored]:
        """Yield the score of each target line as the translation of its source line, in order.

        `progress` counts pairs as they are scored, which is in another order; contexts: see `PairScorer.score`, for
        models trained with training.modifiers.join. Raises what `forced_decoder` raises.
        """
        search = search or self.config.search
        src, tgt = self.tokenizers.sides(self.config.data.direction)
        tagged = search.model_copy(update={"tags": [*self.config.data.language_tag, *(search.tags or ())]})
        scorer = PairScorer(self.forced_decoder(search), src, tgt, tagged, self._segmenter.max_length)
        return scorer.score(pairs, progress=progress, contexts=contexts)

    def translate_lines(
        self,
        lines: Iterable[Line | str],
        search: SearchConfig | None = None,
        n_best: int = 1,
        progress: Progress | None = None,
    ) -> Iterator[list[Translation]]:
        """Yield up to `n_best` translations of each line, in order, best first; a blank line has one blank translation.

        `WINDOW` lines at a time are read ahead and sorted by length; the translations of a line are yielded as soon as
        all earlier lines are translated. A translation contains no line feed. `search` defaults to the configured
        settings. `progress` counts lines as they are searched, which is in another order. The models stay in their mode
        (training or evaluation). Raises ConfigError if the settings are incompatible or not supported.
        """
        search = search or self.config.search
        self.check(search, n_best)
        return self._windows(iter(lines), Options(search, n_best), progress)

    def _windows(
        self, lines: Iterator[Line | str], options: Options, progress: Progress | None
    ) -> Iterator[list[Translation]]:
        first = 0
        while window := list(islice(lines, WINDOW)):
            yield from self.translate_window(window, options, first, progress)
            first += len(window)

    def costs(self, lines: Sequence[Line], first: int, options: Options) -> list[float]:
        """Return the maximum search cost of each line (see `search_cost`).

        first: the number of the first line, from 0. Raises what `translate_window` raises for lines.
        """
        search = self._protecting(options.search)
        n = n_candidates(search, options.n_best)
        by_line = self._segmenter.split_lines(lines, search, first)
        return [sum(search_cost(sentence, search, n) for sentence in of_line) for of_line in by_line]

    def translate_window(
        self,
        window: Sequence[Line | str],
        options: Options,
        first: int = 0,
        progress: Progress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Generator[list[Translation]]:
        """Yield up to `options.n_best` translations of each line of a window, best first.

        The lines are sorted by length together; see `translate_lines`. first: the number of the first line in its text,
        from 0, which seeds sampling. Raises SearchStopped soon after `should_stop` returns True: after the current step
        in PyTorch, after the current batch in CTranslate2. Raises ConfigError if settings are incompatible or not
        supported, and DataError if prefixes and terms are too long.
        """
        lines = [Line(line) if isinstance(line, str) else line for line in window]
        sources = lines
        pivots = list[Translation]()
        if self.first is not None:
            plain = [Line(line.text, is_first=line.is_first, flag=line.flag) for line in lines]
            in_between = self.first.translate_window(plain, Options(options.search), first, None, should_stop)
            pivots = [best for best, *_ in in_between]
            sources = [replace(line, text=pivot.text) for line, pivot in zip(lines, pivots, strict=True)]
        with closing(self._searched(sources, options, first, progress, should_stop)) as by_line:
            translated: Iterator[list[Translation]] = by_line
            if pivots:
                translated = map(_in_two_steps, pivots, by_line)
            if options.confidence:
                translated = self._estimated(lines, by_line, options.n_estimated)
            for line, translations in zip(lines, translated, strict=True):
                stop_if(should_stop)
                yield self._aligned(line, translations, should_stop) if options.align else translations

    def _searched(
        self,
        lines: Sequence[Line],
        options: Options,
        first: int,
        progress: Progress | None,
        should_stop: ShouldStop | None,
    ) -> Generator[list[Translation]]:
        """Split lines into sentences, search these, and join their translations."""
        search = self._protecting(options.search)
        n = n_candidates(search, options.n_best)
        by_line = self._segmenter.split_lines(lines, search, first)
        engines = self._engines(lines, by_line, replace(options, search=search))
        on_found = None
        if progress is not None:
            n_sentences = sum(bool(sentence.src_ids) for of_line in by_line for sentence in of_line)
            on_found = partial(_add_lines, progress, len(lines) / max(n_sentences, 1))
        with ExitStack() as opened:
            hypotheses: dict[Searcher, Iterator[list[Hypothesis]]] = {}
            for engine in dict.fromkeys(engines):
                rows = [row for row, chosen in enumerate(engines) if chosen is engine]
                of_engine = [by_line[row] for row in rows]
                sentences = [sentence for of_line in of_engine for sentence in of_line]
                settings = search if engine is self.native else unprotected(search)  # the other one refuses it
                if self.config.joins_sentences:
                    joint = self._joint(engine, settings, n, should_stop)
                    batches = joint.search([lines[row] for row in rows], of_engine)
                else:
                    batches = engine.search(sentences, settings, n, should_stop)
                hypotheses[engine] = opened.enter_context(closing(in_order(batches, sentences, on_found)))
            for engine, of_line in zip(engines, by_line, strict=True):
                candidates = [next(hypotheses[engine]) for _ in of_line]
                yield self._segmenter.join_hypotheses(of_line, candidates, search, options.n_best)

    def _joint(self, engine: Searcher, search: SearchConfig, n: int, should_stop: ShouldStop | None) -> JointSearch:
        """Return a search for several sentences at once, for a model that joins them."""
        src, tgt = self.tokenizers.sides(self.config.data.direction)
        longest = min(self.config.data.max_pieces, self._segmenter.max_length)
        return JointSearch(engine, src, tgt, longest, search, n, should_stop)

    def _protecting(self, search: SearchConfig) -> SearchConfig:
        """Return search settings without the default protection of placeholders if it is not supported."""
        return search if self.native is not None and takes_terms(search) else unprotected(search)

    def _engines(
        self, lines: Sequence[Line], by_line: Sequence[Sequence[Sentence]], options: Options
    ) -> list[Searcher]:
        """Return the engine that searches each line; all lines that are read in context have the same."""
        search = options.search
        needs = []
        for line, of_line in zip(lines, by_line, strict=True):
            has_terms = not search.inline_terms and bool(line.terms or line.glossary is not None)
            needs.append((any(sentence.phrases for sentence in of_line), has_terms))
        if search.context:
            needs = [(any(protects for protects, _ in needs), any(has_terms for _, has_terms in needs))] * len(lines)
        engines = {}
        for protects, has_terms in {*needs}:
            searched = search if protects else unprotected(search)
            engines[protects, has_terms] = self._engine(searched, options.n_best, has_terms)
        return [engines[need] for need in needs]

    def _estimated(
        self, lines: Sequence[Line], by_line: Iterator[list[Translation]], n: int
    ) -> Iterator[list[Translation]]:
        """Yield the translations of each line with their confidence, which is estimated for `n` lines together."""
        texts = (line.text for line in lines)
        while group := [*islice(by_line, n)]:
            yield from self.estimator.estimated([*islice(texts, len(group))], group)

    def _aligned(
        self, line: Line, translations: Sequence[Translation], should_stop: ShouldStop | None = None
    ) -> list[Translation]:
        """Return the translations of a line with their aligned words."""
        src, tgt = self.tokenizers.sides(self.config.data.direction)
        words = alignments(self._aligner, src, tgt, [line.text] * len(translations), translations, should_stop)
        from_spans = word_spans(line.text)
        aligned = []
        for pairs, translation in zip(words, translations, strict=True):
            to_spans = word_spans(translation.text)
            aligned.append(replace(translation, alignment=tuple((from_spans[i], to_spans[j]) for i, j in pairs)))
        return aligned

    @cached_property
    def _aligner(self) -> ForcedDecoder:
        decoder = self.forced_decoder()
        with_cross_attention(decoder.models)
        return decoder

    def align(self, texts: Sequence[str], translations: Sequence[str], search: SearchConfig) -> Iterator[Translation]:
        """Yield given translations of texts with their aligned words. Requires `aligns`."""
        for text, translation in zip(texts, translations, strict=True):
            [aligned] = self._aligned(Line(text), [self._given_translation(text, translation, search)])
            yield aligned

    def _given_translation(self, text: str, translation: str, search: SearchConfig) -> Translation:
        """Return a given translation of a text, whose sentences are those of the text in order if there are as many."""
        src, tgt = self.tokenizers.sides(self.config.data.direction)
        translated = sentences(translation)
        [of_text] = self._segmenter.split_lines([Line(text)], search)
        if len(of_text) != len(translated):
            translated = [translation]
            [of_text] = self._segmenter.split_lines([Line(text)], search.model_copy(update={"split": "never"}))
        parts = [
            Part(sentence.text, sentence.src_ids or src.encode(sentence.text), ids[: self._segmenter.max_length])
            for sentence, ids in zip(of_text, tgt.encode_all(translated), strict=True)
        ]
        return Translation(translation, parts=tuple(parts))


def _in_two_steps(pivot: Translation, translations: Sequence[Translation]) -> list[Translation]:
    """Return translations of a translation, `pivot`, with what was cut off in the first step."""
    return [
        replace(translation, finished=translation.finished and pivot.finished, cut=translation.cut or pivot.cut)
        for translation in translations
    ]


def _add_lines(progress: Progress, share: float, n_sentences: int) -> None:
    """Count searched sentences as shares of lines."""
    progress.add(n_sentences * share)
