"""The translation of lines: they are split into sentences, which are searched and joined, in order.

Lines of text, documents and requests to a server all pass `LineTranslator.translate_window`; training's validation and
`nmt evaluate` call `translate_lines`. `nmt.translate.loading.Translator` is a line translator of a run.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

from torch import Tensor

from nmt.console import Progress
from nmt.errors import ConfigError
from nmt.search.forced import ForcedDecoder, with_cross_attention
from nmt.search.rules import ShouldStop, stop_if
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis
from nmt.text.split import sentences
from nmt.text.vocabularies import Tokenizers
from nmt.translate.align import alignments, word_spans
from nmt.translate.score import Context, PairScorer, Scored
from nmt.translate.search import JointSearch, NativeSearcher, Searcher, in_order, search_cost
from nmt.translate.segment import Segmenter, n_candidates
from nmt.translate.types import (
    NOT_INLINE,
    WINDOW,
    Conventions,
    Line,
    Options,
    Part,
    Sentence,
    Translation,
    check_search,
    takes_terms,
    unprotected,
)


@dataclass(frozen=True, eq=False)
class LineTranslator:
    """A translator of lines from one language into another, with one model or an ensemble. It is immutable and
    thread-safe."""

    searcher: Searcher
    """The engine that translates: CTranslate2's or PyTorch's."""
    tokenizers: Tokenizers
    conventions: Conventions
    """The languages, and the conventions of lines; if there are two steps (pivot), the second step's conventions."""
    search: SearchConfig
    """The configured search settings."""
    fallback: Searcher | None = None
    """PyTorch's engine beside CTranslate2's: it aligns words, and translates lines with terms, placeholders or search
    settings that CTranslate2 does not support."""
    first: LineTranslator | None = None
    """The translator into another language, from which this one translates, if there are two steps (pivot)."""
    to: str | None = None
    """One of the target languages of an imported model, if it was chosen."""

    @cached_property
    def _segmenter(self) -> Segmenter:
        return Segmenter(self.tokenizers, self.conventions, self.searcher.max_positions)

    @property
    def source(self) -> str:
        """The source language."""
        return self.conventions.src if self.first is None else self.first.source

    @property
    def target(self) -> str:
        """The target language, by the name in which it was chosen."""
        return self.to or self.conventions.tgt

    @property
    def precision(self) -> str:
        """The precision of matrix products."""
        return self.searcher.precision

    @property
    def native(self) -> Searcher | None:
        """PyTorch's engine, which terms require; None if only CTranslate2 is used."""
        return self.searcher if isinstance(self.searcher, NativeSearcher) else self.fallback

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the models, their arithmetic and the languages, which determine the translations of `Options`."""
        engines = [self.searcher] if self.fallback is None else [self.searcher, self.fallback]
        via = self.first and self.first.conventions.tgt
        return f"{' '.join(engine.fingerprint for engine in engines)} {self.source} {via} {self.target}"

    def attention(self, part: Part) -> dict[str, Tensor]:
        """Return the attention weights of every layer for a part of a translation, such as `translation.parts[0]`.

        See `ForcedDecoder.layer_attention`. Raises what `forced_decoder` raises.
        """
        return self.forced_decoder().layer_attention((part.src_ids, part.tgt_ids))

    def check(self, search: SearchConfig, n_best: int, has_terms: bool = False) -> None:
        """Raise ConfigError if the settings are incompatible, or not supported by an engine, and DataError if the
        model has no such target language or tag."""
        self._engine(search, n_best, has_terms)

    def _engine(self, search: SearchConfig, n_best: int, has_terms: bool) -> Searcher:
        """Return the engine for these settings; see `check`."""
        check_search(search, n_best)
        self.conventions.check_chosen()
        if search.context and not self.conventions.joins:
            raise ConfigError("search.context: the model was not trained with training.modifiers.join")
        if self.first is not None and (has_terms or search.inline_terms or search.lm is not None):
            raise ConfigError("--via: not available with terms and with a language model (search.lm)")
        if search.inline_terms and not self.conventions.inline_terms:
            raise ConfigError(NOT_INLINE)
        tokenizer = self.tokenizers[self.conventions.src]
        target = self.conventions.tgt
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
        self.conventions.check_chosen()
        return (self.native or self.searcher).forced_decoder(search or self.search)

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
        search = search or self.search
        src, tgt = self.tokenizers.sides(self.conventions.direction)
        tagged = search.model_copy(update={"tags": [*self.conventions.language_tag, *(search.tags or ())]})
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
        search = search or self.search
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
        pivots = []
        if self.first is not None:
            of_first, search = searches_by_leg([self.first, self], [options.search] * 2)
            plain = [Line(line.text, is_first=line.is_first, flag=line.flag) for line in lines]
            in_between = self.first.translate_window(plain, Options(of_first), first, None, should_stop)
            pivots = [best for best, *_ in in_between]
            sources = [replace(line, text=pivot.text) for line, pivot in zip(lines, pivots, strict=True)]
            options = replace(options, search=search)
        with closing(self._searched(sources, options, first, progress, should_stop)) as by_line:
            translated: Iterator[list[Translation]] = by_line
            if pivots:
                translated = map(_in_two_steps, pivots, by_line)
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
                if self.conventions.joins:
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
        src, tgt = self.tokenizers.sides(self.conventions.direction)
        longest = min(self.conventions.max_pieces, self._segmenter.max_length)
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

    def _aligned(
        self, line: Line, translations: Sequence[Translation], should_stop: ShouldStop | None = None
    ) -> list[Translation]:
        """Return the translations of a line with their aligned words."""
        src, tgt = self.tokenizers.sides(self.conventions.direction)
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
        """Yield given translations of texts with their aligned words. Requires `Translator.aligns`."""
        for text, translation in zip(texts, translations, strict=True):
            [aligned] = self._aligned(Line(text), [self._given_translation(text, translation, search)])
            yield aligned

    def _given_translation(self, text: str, translation: str, search: SearchConfig) -> Translation:
        """Return a given translation of a text; its sentences match the text's in order if there are as many."""
        src, tgt = self.tokenizers.sides(self.conventions.direction)
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


def searches_by_leg(route: Sequence[LineTranslator], searches: Sequence[SearchConfig]) -> list[SearchConfig]:
    """Return the search settings of each of the successive translators of a route through other languages (pivot).

    searches: the settings of each, of which only the last must choose its own target language by `to`. A tag belongs to
    the translators whose training corpora have it, or which are configured with it, or to the last one if none has it.
    """
    known = set[str]().union(*(leg.conventions.tag_names for leg in route))
    fitting = []
    for leg, search in zip(route, searches, strict=True):
        is_last = leg is route[-1]
        tag_names = {*leg.conventions.tag_names, *(leg.search.tags or ())}
        tags = [tag for tag in search.tags or () if tag in tag_names or (is_last and tag not in known)]
        to = search.to if is_last else leg.search.to
        fitting.append(search.model_copy(update={"to": to, "tags": tags or None}))
    return fitting
