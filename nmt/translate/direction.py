"""A direction in which texts are translated, by CTranslate2, PyTorch, or both, with word alignments."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path

from nmt.config import SearchConfig
from nmt.documents import Translated
from nmt.errors import CheckpointError, ConfigError
from nmt.search.forced import ForcedDecoder, with_cross_attention
from nmt.search.rules import ShouldStop, stop_if
from nmt.text.constraints import constraint_spans
from nmt.translate.align import Span, alignments, word_spans
from nmt.translate.confidence import Estimator
from nmt.translate.translation_memory import MatchKind, TranslationMemory
from nmt.translate.translator import Translator
from nmt.translate.types import Confidence, Line, Translation, takes_terms, unprotected

Alignment = tuple[tuple[Span, Span], ...]
"""Pairs of a source word and a target word, each as start and end in code points."""

ESTIMATED = 64
"""Number of lines whose confidence is estimated in one batch."""
PLACEHOLDERS, PLACEHOLDER_CHARACTERS = 10, 60
"""Maximum number of placeholders of a line that are protected by default, and of characters in all of them."""
NATIVE_ONLY = "needs PyTorch's engine, which is not used for this direction"


def for_texts(search: SearchConfig) -> list[str]:
    """Return changes, `search.key=value`, to the configured settings for texts of several sentences: each sentence is
    translated separately, and placeholders are protected, unless `split` is never or `protect` is set."""
    changes = [] if search.protect else ["search.protect=placeholders"]
    return changes if search.split == "never" else [*changes, "search.split=always"]


@dataclass(frozen=True)
class How:
    """Options of a translation; lines with the same `key` may share a batch."""

    search: SearchConfig
    n_best: int = 1
    align: bool = False
    confidence: bool = False

    @cached_property
    def key(self) -> str:
        """Hash of the options of a translation."""
        wanted = f"{self.n_best} {self.align} {self.confidence} {self.search.model_dump_json()}"
        return sha256(wanted.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Candidate(Translated):
    """A translation of a line or a text."""

    score: float = 0.0
    log_prob: float = 0.0
    confidence: Confidence | None = None
    match: MatchKind | None = None
    """How the text matches the translation memory; None if the model has translated a part of it."""


class Direction:
    """A thread-safe translator from one language to another, which runs CTranslate2, PyTorch, or both.

    With both, CTranslate2 translates. PyTorch aligns words, and translates lines with terms, placeholders or search
    settings that CTranslate2 does not support.
    """

    tm: TranslationMemory | None = None
    """The translation memory of a server for this direction, if any."""

    def __init__(self, name: str, engine: Translator | None, native: Translator | None, to: str | None = None) -> None:
        """Create a direction.

        name: the name of the run in messages; one of the two translators may be None. to: one of the target languages
        of an imported model that has several.
        """
        main = engine or native
        assert main is not None, f"{name} has no engine"
        self._main, self._native = main, native
        self.name, self.config, self.search = name, main.config, main.config.search
        self.source, self.target = main.config.data.sides
        if to is not None:
            self.target, self.search = to, self.search.model_copy(update={"to": to})
        self.engine = main.precision

    @property
    def others(self) -> list[str]:
        """The target languages among which the source of an imported model chooses by a tag."""
        tokenizer = self._main.tokenizers[self.source]
        is_chosen = self.search.to is not None or tokenizer.to is not None
        return [] if is_chosen else [name for name in tokenizer.target_languages if name != self.target]

    def towards(self, language: str) -> Direction:
        """Return a direction of the same translators into another of their target languages."""
        return Direction(self.name, None if self._main is self._native else self._main, self._native, language)

    def between(self, source: str, target: str) -> Direction:
        """Return one of several directions of the same translators."""
        engine, native = (each and each.towards(target, source) for each in (self._main, self._native))
        return Direction(self.name, None if self._main is self._native else engine, native)

    @property
    def has_native(self) -> bool:
        """Whether a PyTorch translator is available, which terms require."""
        return self._native is not None

    @property
    def aligns(self) -> bool:
        """Whether words can be aligned, which requires PyTorch, cross-attention, and no translation via a pivot."""
        return self.has_native and self.config.model.is_encoder_decoder and self._main.first is None

    @cached_property
    def has_confidence(self) -> bool:
        """Whether confidence can be estimated, which requires nmt calibrate."""
        try:
            return bool(self.estimator)
        except (ConfigError, CheckpointError):
            return False

    def search_settings(self, changes: Mapping[str, object]) -> SearchConfig:
        """Return the search settings with `changes` applied. Raises ConfigError if the result is invalid."""
        return self._main.search_settings(self.search.model_dump() | dict(changes), "request")

    @property
    def native(self) -> Translator:
        """The PyTorch translator of the direction. Raises ConfigError if there is none."""
        if self._native is None:
            raise ConfigError(NATIVE_ONLY)
        return self._native

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the models, their arithmetic and the languages, which determine the translations of a `How`."""
        translators = (self._main, self._native)
        searchers = {id(each): each.searcher.fingerprint for each in translators if each is not None}
        via = self._main.first and self._main.first.config.data.tgt
        return f"{' '.join(searchers.values())} {self.source} {via} {self.target}"

    def costs(self, lines: Sequence[Line], first: int, how: How) -> list[float]:
        """Return the maximum cost of the search of each line; see `Translator.costs`. first: as for `translate`."""
        hows = {True: how.search, False: unprotected(how.search)}
        searches = [hows[self._protects(line, how.search)] for line in lines]
        numbered = enumerate(zip(lines, searches, strict=True), start=first)
        return [self._main.costs([line], each, how.n_best, number)[0] for number, (line, each) in numbered]

    def translate(
        self,
        lines: Sequence[Line],
        how: How,
        first: int = 0,
        should_stop: ShouldStop | None = None,
        watch: Callable[[Line, Sequence[Translation]], None] | None = None,
    ) -> Generator[tuple[list[Candidate], int]]:
        """Yield up to `how.n_best` translations of each line, best first, and the number of its source pieces.

        first: the number of the first line in its text, which seeds sampling; should_stop: see
        `Translator.translate_window`; watch: called with each line and its translations, before they are yielded.

        Raises ConfigError if settings are incompatible or unsupported, DataError if prefixes and terms are too long,
        and SearchStopped.
        """
        hows = {True: how, False: replace(how, search=unprotected(how.search))}
        protected = [self._protects(line, how.search) for line in lines]
        if how.search.context and any(protected):  # the lines must stay in one search
            lines = [replace(line, protects=each) for line, each in zip(lines, protected, strict=True)]
            protected = [True] * len(lines)
        with ExitStack() as opened:
            windows = {}
            for is_protected in {*protected}:
                own = [line for line, each in zip(lines, protected, strict=True) if each is is_protected]
                search = self._translator(hows[is_protected], own).translate_window
                windows[is_protected] = opened.enter_context(
                    closing(search(own, hows[is_protected].search, how.n_best, first, should_stop=should_stop))
                )
            found: Iterable[tuple[Line, Sequence[Translation]]] = (
                (line, next(windows[is_protected])) for line, is_protected in zip(lines, protected, strict=True)
            )
            for line, translations in self._estimated(found) if how.confidence else found:
                stop_if(should_stop)
                if watch is not None:
                    watch(line, translations)
                aligned: Sequence[Alignment | None] = [None] * len(translations)
                if how.align:
                    aligned = self._alignments(line, translations, should_stop)
                candidates = [
                    Candidate(each.text, alignment, each.score, each.log_prob, each.confidence, each.match)
                    for each, alignment in zip(translations, aligned, strict=True)
                ]
                yield candidates, sum(len(part.src_ids) for part in translations[0].parts)

    def _estimated(
        self, found: Iterable[tuple[Line, Sequence[Translation]]]
    ) -> Iterator[tuple[Line, Sequence[Translation]]]:
        """Yield each line and its translations, with their confidence."""
        rest = iter(found)
        while group := [*islice(rest, ESTIMATED)]:
            lines, by_line = zip(*group, strict=True)
            yield from zip(lines, self.estimator.estimated([line.text for line in lines], by_line), strict=True)

    def _protects(self, line: Line, search: SearchConfig) -> bool:
        """Return whether to protect the placeholders of a line: protection is supported and they are not too many."""
        if search.protect != "placeholders" or not self.has_native or not takes_terms(search):
            return False
        wanted = [span.wanted for span in constraint_spans(line.text, search, flag=line.flag)]
        return 0 < len(wanted) <= PLACEHOLDERS and sum(map(len, wanted)) <= PLACEHOLDER_CHARACTERS

    def _translator(self, how: How, lines: Sequence[Line]) -> Translator:
        has_terms = not how.search.inline_terms and any(line.terms or line.glossary is not None for line in lines)
        try:
            self._main.check(how.search, how.n_best, has_terms)
            return self._main
        except ConfigError:
            if self._native in (None, self._main):
                raise
        self.native.check(how.search, how.n_best, has_terms)
        return self.native

    @cached_property
    def estimator(self) -> Estimator:
        """The estimator of the confidence in translations. Raises what `Estimator.load` raises."""
        return Estimator.load(Path(self.name), self._main, self._native, self.search)

    @cached_property
    def _decoder(self) -> ForcedDecoder:
        decoder = self.native.forced_decoder(self.search)
        with_cross_attention(decoder.models)
        return decoder

    def align(self, texts: Sequence[str], translations: Sequence[str], search: SearchConfig) -> Iterator[Alignment]:
        """Yield the alignment of each text with a given translation. Requires `aligns`."""
        for text, translation in zip(texts, translations, strict=True):
            given = self.native.given_translation(text, translation, search)
            yield self._alignments(Line(text), [given], None)[0]

    def _alignments(
        self, line: Line, translations: Sequence[Translation], should_stop: ShouldStop | None
    ) -> list[Alignment]:
        src, tgt = (self.native.tokenizers[language] for language in self.config.data.sides)
        words = alignments(self._decoder, src, tgt, [line.text] * len(translations), translations, should_stop)
        from_spans = word_spans(line.text)
        aligned: list[Alignment] = []
        for pairs, translation in zip(words, translations, strict=True):
            to_spans = word_spans(translation.text)
            aligned.append(tuple((from_spans[i], to_spans[j]) for i, j in pairs))
        return aligned
