"""Translators of runs and exported folders, whose configuration has their languages and search settings."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch

from nmt.config import Config
from nmt.config.load import Override, changed_search
from nmt.console import Progress, say
from nmt.errors import CheckpointError, ConfigError
from nmt.languages.directions import ANY, check_language
from nmt.model.device import pick_device
from nmt.runs.model import (
    AnyModel,
    ModelRef,
    Origin,
    Saved,
    choose_precision,
    config_of_direction,
    open_ensemble,
    open_saved,
)
from nmt.search.rules import ShouldStop
from nmt.search.settings import SearchConfig
from nmt.text.glossaries import AnyGlossary, glossary_of
from nmt.text.vocabularies import Tokenizers
from nmt.translate.confidence import Estimator, Measure, calibration_path, read_calibration
from nmt.translate.configured import conventions_of
from nmt.translate.memory import TranslationMemory
from nmt.translate.memory_files import AnyMemory, read_memory
from nmt.translate.search import LanguageModelRun, NativeSearcher, Searcher
from nmt.translate.translator import LineTranslator
from nmt.translate.types import Line, Options, Translation


def open_language_model(run: str) -> LanguageModelRun:
    """Read the language model of a run for shallow fusion. Raises what `open_saved` raises, and ConfigError if the run
    is not a language model."""
    saved = open_saved(run)
    languages = saved.config.learned_languages
    return LanguageModelRun(saved.language_model(), saved.tokenizers[languages[-1]], languages)


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
class Translator(LineTranslator):
    """A translator with the configuration of its model. It is immutable and thread-safe."""

    config: Config = field(kw_only=True)
    """The configuration; in two steps, the configuration of the direct way. Its search settings are `search`."""
    origins: Sequence[Origin] = ()
    """The origin of the weights of each model of an ensemble."""
    run: Path | None = None
    """The run or exported folder, the first of an ensemble; None for a model that was not loaded."""
    first: Translator | None = None
    """The translator into another language, from which this one translates, if there are two steps (pivot)."""
    tm: TranslationMemory | None = None
    """The translation memory of a server."""

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
        config = first.config
        models = [member.translation_model().to(device) for member in saved]
        tokenizer = first.tokenizers[config.data.tgt]
        searcher = NativeSearcher(models, tokenizer, device, precision, config.joins_sentences, open_language_model)
        return cls.configured(searcher, first.tokenizers, config, [member.origin for member in saved], first.path)

    @classmethod
    def configured(
        cls,
        searcher: Searcher,
        tokenizers: Tokenizers,
        config: Config,
        origins: Sequence[Origin] = (),
        run: Path | None = None,
    ) -> Translator:
        """Return a translator with an engine, in the direction and with the search settings of a configuration."""
        conventions = conventions_of(config.data, config.training)
        return cls(searcher, tokenizers, conventions, config.search, config=config, origins=origins, run=run)

    def towards(self, to: str | None, source: str | None = None, via: str | None = None) -> Translator:
        """Return a translator with the same models into one of several target languages.

        source: the source language if there are several; `ANY` if it makes no difference. via: a language into which
        lines are translated first (pivot); `source` must be given, too. Raises ConfigError.
        """
        config = config_of_direction(self.config, self.tokenizers, to, source)
        chosen_tag = to if config.search.to == to else None
        conventions = conventions_of(config.data, config.training)
        chosen = replace(self, config=config, search=config.search, conventions=conventions, first=None, to=chosen_tag)
        direction = config.data.direction
        trained = self.config.data.all_directions
        if via is None and len(trained) > 1 and direction not in trained:
            say(f"{direction}: a direction without training pairs (zero-shot), so expect more errors")
        if via is None:
            return chosen
        if source in (None, ANY) or to is None:
            raise ConfigError("--via: needs --from and --to")
        check_language("--via", via, self.config.data.all_languages)
        second = config_of_direction(self.config, self.tokenizers, to, via)  # the model may read the source language
        return replace(
            chosen, first=self.towards(via, source), conventions=conventions_of(second.data, second.training)
        )

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
    def other_targets(self) -> list[str]:
        """The target languages among which the source of an imported model chooses by a tag."""
        tokenizer = self.tokenizers[self.source]
        if self.search.to is not None or tokenizer.to is not None:
            return []
        return [name for name in tokenizer.target_languages if name != self.target]

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
        return Estimator(expected, Measure(self, self.search, decoder, reverse, calibration.samples))

    @overload
    def translate(self, texts: Sequence[str], *, n_best: int, **options: Any) -> list[list[str]]: ...
    @overload
    def translate(self, texts: Sequence[str], *, n_best: None = None, **options: Any) -> list[str]: ...
    def translate(
        self, texts: Sequence[str], *, n_best: int | None = None, **options: Any
    ) -> list[str] | list[list[str]]:
        """Return the translation of each text; with `n_best`, a list of up to that many translations, best first.

        The translations are the same as from `nmt translate`. For further arguments and errors, see `translations`.
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
        terms = glossary_of(glossary, self.config.data.tgt) if glossary is not None else None
        memory = self.memory(tm, search) if tm is not None else None
        self.check(search, n_best, has_terms=terms is not None and not search.inline_terms)
        lines = [Line(text, glossary=terms, tm=memory) for text in texts]
        return list(self.translate_lines(lines, search, n_best))

    def memory(self, tm: AnyMemory, search: SearchConfig) -> TranslationMemory:
        """Return a translation memory in the languages of this translator, or read it from its files.

        Raises ConfigError if the translator has two steps, and what `read_memory` raises.
        """
        if self.first is not None:
            raise ConfigError("--via: not available with a translation memory")
        self.conventions.check_chosen()
        if not isinstance(tm, TranslationMemory):
            files = [tm] if isinstance(tm, (Path, str)) else tm
            tm = read_memory(files, self.source, search.to or self.conventions.tgt)
        tm.use_for(self.conventions.fuzzy_threshold, search)
        return tm

    def search_settings(self, settings: Mapping[str, object], where: str = "translate") -> SearchConfig:
        """Return the configured search settings with some changed. Raises ConfigError, which begins with `where`."""
        return changed_search(self.config, settings, where=where)

    def with_search(self, overrides: Sequence[Override]) -> Translator:
        """Return a translator with changed search settings. Raises ConfigError."""
        return self.searching(changed_search(self.config, {}, overrides, "config"))

    def searching(self, search: SearchConfig) -> Translator:
        """Return a translator with other search settings as the configured ones."""
        return replace(self, config=self.config.model_copy(update={"search": search}), search=search)

    def translate_window(
        self,
        window: Sequence[Line | str],
        options: Options,
        first: int = 0,
        progress: Progress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Generator[list[Translation]]:
        """Yield translations as `LineTranslator.translate_window` does, with their confidence if it is asked for."""
        with closing(super().translate_window(window, options, first, progress, should_stop)) as by_line:
            if not options.confidence:
                yield from by_line
                return
            texts = (line if isinstance(line, str) else line.text for line in window)
            while group := [*islice(by_line, options.n_estimated)]:
                yield from self.estimator.estimated([*islice(texts, len(group))], group)
