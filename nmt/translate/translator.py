"""The translator, which splits lines into sentences, searches them, and yields translations in order.

Training's validation, `nmt translate` and `nmt evaluate` all call `Translator.translate_lines`; programs call
`Translator.translate`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from nmt.config import Config, SearchConfig
from nmt.config.data import ANY, check_language
from nmt.config.load import check_config, keeping_split
from nmt.console import Progress, say
from nmt.errors import ConfigError
from nmt.model.device import pick_device
from nmt.runs.model import AnyModel, Origin, Saved, choose_precision, open_ensemble
from nmt.search.forced import ForcedDecoder
from nmt.search.rules import ShouldStop
from nmt.text.constraints import AnyGlossary, Glossary
from nmt.text.split import sentences
from nmt.text.vocabularies import Tokenizers
from nmt.translate.joint import JointSearch
from nmt.translate.score import Context, PairScorer, Scored
from nmt.translate.searcher import NativeSearcher, Searcher, in_order, search_cost
from nmt.translate.sentences import Segmenter, n_candidates
from nmt.translate.translation_memory import AnyMemory, TranslationMemory
from nmt.translate.types import NOT_INLINE, WINDOW, Line, Part, Translation, check_search


class Translator:
    """A translator of lines of text, with one model or an ensemble."""

    def __init__(
        self, searcher: Searcher, tokenizers: Tokenizers, config: Config, origins: Sequence[Origin] = ()
    ) -> None:
        """Create a translator. origins: the origin of the weights of each model of an ensemble."""
        self.searcher = searcher
        self.tokenizers = tokenizers
        self.config = config
        self.origin: Origin | None = origins[0] if origins else None
        self.others: Sequence[Origin] = origins[1:]
        self.first: Translator | None = None
        """The translator into another language, from which this one translates, if there are two steps (pivot)."""
        self._segmenter = Segmenter(tokenizers, config, searcher.max_positions)
        self._joint: JointSearch | None = None
        if config.joins_sentences:
            src, tgt = (tokenizers[language] for language in config.data.sides)
            self._joint = JointSearch(searcher, src, tgt, min(config.data.max_pieces, self._segmenter.max_length))

    @classmethod
    def load(cls, model: AnyModel, device: str = "auto", precision: str = "auto") -> Translator:
        """Load a translator from a run or an exported folder, or an ensemble from several.

        model: a path, several, or a `ModelRef`, which chooses weights and languages; device: auto, cpu or cuda;
        precision: auto, float32, bf16 or fp16. Raises CheckpointError if the run or checkpoint is missing or damaged,
        DataError if its tokenizer is, ConfigError if the runs cannot form an ensemble.
        """
        saved = open_ensemble(model)
        torch_device = pick_device(device)
        translator = cls.of(saved, torch_device, choose_precision(saved[0], precision, torch_device))
        for note in filter(None, (each.note for each in saved)):
            say(note)
        return translator

    @classmethod
    def of(cls, saved: Sequence[Saved], device: torch.device, precision: str) -> Translator:
        """Return a translator with loaded models. Raises CheckpointError if their weights do not match."""
        first = saved[0]
        models = [each.translation_model().to(device) for each in saved]
        tokenizer, joins = first.tokenizers[first.config.data.tgt], first.config.joins_sentences
        searcher = NativeSearcher(models, tokenizer, device, precision, joins)
        return cls(searcher, first.tokenizers, first.config, [each.origin for each in saved])

    def towards(self, to: str | None, source: str | None = None, via: str | None = None) -> Translator:
        """Return a translator with the same models into one of several target languages.

        source: the source language if there are several; `ANY` if it makes no difference. via: a language into which
        lines are translated first (pivot); `source` must be given, too. Raises ConfigError.
        """
        origins = [origin for origin in (self.origin, *self.others) if origin is not None]
        config = self.tokenizers.choose(self.config, to, source)
        chosen = Translator(self.searcher, self.tokenizers, config, origins)
        direction, trained = config.data.direction, self.config.data.directions
        if via is None and len(trained) > 1 and direction not in trained:
            say(f"{direction}: a direction without training pairs (zero-shot), so expect more errors")
        if via is not None:
            if source in (None, ANY) or to is None:
                raise ConfigError("--via: needs --from and --to")
            check_language("--via", via, self.config.data.all_languages)
            chosen.first = self.towards(via, source)
            second = self.tokenizers.choose(self.config, to, via)  # the model may read the source language
            chosen._segmenter = Segmenter(self.tokenizers, second, self.searcher.max_positions)
        return chosen

    @classmethod
    def load_for(cls, direction: str, option: str, paths: Sequence[Path], precision: str = "auto") -> Translator:
        """Load the runs of a command line option, which must translate in `direction`, as one of several if need be.

        Raises ConfigError if they do not, and what `load` raises.
        """
        src, tgt = direction.split("-")
        translator = cls.load(paths, precision=precision).opposite_of(f"{tgt}-{src}")
        if (found := translator.config.data.direction) != direction:
            raise ConfigError(f"{option} {paths[0]}: translates {found}; with this --run it must translate {direction}")
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
        pairs = [direction.split("-") for direction in self.config.data.directions]
        found = [pair for pair in pairs if to in (None, pair[1]) and source in (None, pair[0])]
        if len(pairs) > 1 and found:
            return [self.towards(tgt, src) for src, tgt in found]
        return [self] if (to, source) == (None, None) else [self.towards(to, source)]

    @property
    def precision(self) -> str:
        """The precision of matrix products."""
        return self.searcher.precision

    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int,
        to: str | None = None,
        source: str | None = None,
        via: str | None = None,
        glossary: AnyGlossary | None = None,
        tm: AnyMemory | None = None,
        **settings: object,
    ) -> list[list[str]]: ...
    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: None = None,
        to: str | None = None,
        source: str | None = None,
        via: str | None = None,
        glossary: AnyGlossary | None = None,
        tm: AnyMemory | None = None,
        **settings: object,
    ) -> list[str]: ...
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int | None = None,
        to: str | None = None,
        source: str | None = None,
        via: str | None = None,
        glossary: AnyGlossary | None = None,
        tm: AnyMemory | None = None,
        **settings: object,
    ) -> list[str] | list[list[str]]:
        """Return the translation of each text; with `n_best`, a list of up to that many translations, best first.

        The translations are the same as from `nmt translate`. Arguments and errors as for `translations`.
        """
        n = 1 if n_best is None else n_best
        by_text = self.translations(texts, n, to=to, source=source, via=via, glossary=glossary, tm=tm, **settings)
        if n_best is None:
            return [best.text for best, *_ in by_text]
        return [[translation.text for translation in translations] for translations in by_text]

    def translations(
        self,
        texts: Sequence[str],
        n_best: int = 1,
        *,
        to: str | None = None,
        source: str | None = None,
        via: str | None = None,
        glossary: AnyGlossary | None = None,
        tm: AnyMemory | None = None,
        **settings: object,
    ) -> list[list[Translation]]:
        """Return up to `n_best` translations of each text, best first, with their scores and token ids.

        to, source, via: see `towards`. glossary: terms with their translations, or the path of a glossary file. tm: a
        `TranslationMemory`, or the path or paths of its files; texts that occur in it get its translation. `settings`
        are search settings by name, such as beam=1.
        Raises ConfigError if settings do not exist or are incompatible, DataError if the glossary or the memory is
        invalid.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts, found a single text; write [text]")
        if (to, source, via) != (None, None, None):
            one = self.towards(to, source or ANY, via)
            return one.translations(texts, n_best, glossary=glossary, tm=tm, **settings)  # type: ignore[arg-type]
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
        dumped = self.config.model_dump()
        changed = check_config(dumped | {"search": dumped["search"] | dict(settings)}, where)
        return keeping_split(self.config, changed).search

    def check(self, search: SearchConfig, n_best: int, has_terms: bool = False) -> None:
        """Raise ConfigError if the settings are incompatible, or not supported by the searcher, and DataError if the
        model has no such target language or tag."""
        check_search(search, n_best)
        self.config.choose(None)
        if search.context and not self.config.joins_sentences:
            raise ConfigError("search.context: the model was not trained with training.modifiers.join")
        if self.first is not None and (has_terms or search.inline_terms or search.lm is not None):
            raise ConfigError("--via: not available with terms and with a language model (search.lm)")
        if search.inline_terms and "terms" not in self.config.training.modifiers:
            raise ConfigError(NOT_INLINE)
        if search.to is not None:
            self.tokenizers[self.config.data.src].tag(search.to)
        self.tokenizers[self.config.data.src].tag_ids(search.tags)
        self.searcher.check(search, has_terms, self.config.data.tgt)

    def forced_decoder(self, search: SearchConfig | None = None) -> ForcedDecoder:
        """Return a forced decoder, which scores given translations and computes attention weights.

        Raises ConfigError if the engine is not the native one, or if the target language is not chosen.
        """
        self.config.choose(None)
        return self.searcher.forced_decoder(search or self.config.search)

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
        src, tgt = (self.tokenizers[language] for language in self.config.data.sides)
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
        return self._windows(iter(lines), search, n_best, progress)

    def _windows(
        self, lines: Iterator[Line | str], search: SearchConfig, n_best: int, progress: Progress | None
    ) -> Iterator[list[Translation]]:
        first = 0
        while window := list(islice(lines, WINDOW)):
            yield from self.translate_window(window, search, n_best, first, progress)
            first += len(window)

    def costs(self, lines: Sequence[Line], search: SearchConfig, n_best: int = 1, first: int = 0) -> list[float]:
        """Return the maximum search cost of each line (see `search_cost`).

        first: the number of the first line, from 0. Raises what `translate_window` raises for lines.
        """
        n = n_candidates(search, n_best)
        by_line = self._segmenter.split_lines(lines, search, first)
        return [sum(search_cost(sentence, search, n) for sentence in of_line) for of_line in by_line]

    def given_translation(self, text: str, translation: str, search: SearchConfig) -> Translation:
        """Return a given translation of a text, whose sentences are those of the text in order if there are as many."""
        tgt, translated = self.tokenizers[self.config.data.tgt], sentences(translation)
        [found] = self._segmenter.split_lines([Line(text)], search)
        if len(found) != len(translated):
            translated = [translation]
            [found] = self._segmenter.split_lines([Line(text)], search.model_copy(update={"split": "never"}))
        both = zip(found, tgt.encode_all(translated), strict=True)
        parts = (Part(each.text, each.src_ids, ids[: self._segmenter.max_length]) for each, ids in both)
        return Translation(translation, 0.0, 0.0, parts=tuple(parts))

    def translate_window(
        self,
        window: Sequence[Line | str],
        search: SearchConfig,
        n_best: int = 1,
        first: int = 0,
        progress: Progress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Generator[list[Translation]]:
        """Yield the translations of each line of a window, whose lines are sorted by length together.

        See `translate_lines`; `first` is the number of the first line, from 0. The settings are not checked: call
        `check` before the first window. Raises SearchStopped soon after `should_stop` returns True: after the current
        step in PyTorch, after the current batch in CTranslate2.
        """
        lines = [Line(line) if isinstance(line, str) else line for line in window]
        pivots: list[Translation] = []
        if self.first is not None:
            plain = [Line(line.text, is_first=line.is_first, protects=line.protects, flag=line.flag) for line in lines]
            pivots = [best for best, *_ in self.first.translate_window(plain, search, 1, first, None, should_stop)]
            lines = [replace(line, text=pivot.text) for line, pivot in zip(lines, pivots, strict=True)]
        by_line = self._segmenter.split_lines(lines, search, first)
        sentences = [sentence for of_line in by_line for sentence in of_line]
        n_sentences = sum(bool(sentence.src_ids) for sentence in sentences)
        n = n_candidates(search, n_best)
        found = in_order(
            self.searcher.search(sentences, search, n, should_stop)
            if self._joint is None
            else self._joint.search(lines, by_line, search, n, should_stop),
            sentences,
            None if progress is None else lambda n: progress.add(n * len(lines) / n_sentences),
        )
        with closing(found):
            for row, of_line in enumerate(by_line):
                of_sentences = [next(found) for _ in of_line]
                translations = self._segmenter.join_hypotheses(of_line, of_sentences, search, n_best)
                if pivots:
                    is_finished, is_cut = pivots[row].finished, pivots[row].cut
                    translations = [
                        replace(each, finished=each.finished and is_finished, cut=each.cut or is_cut)
                        for each in translations
                    ]
                yield translations
