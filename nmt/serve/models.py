"""The translators of a server, and the routes between their languages."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from nmt.config import SearchConfig
from nmt.config.load import changed_config, check_config
from nmt.console import say
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.search.forced import ForcedDecoder, with_cross_attention
from nmt.search.rules import ShouldStop, stop_if
from nmt.text.constraints import constraint_spans
from nmt.text.language_names import normalized
from nmt.text.tokenizer import CONTROL
from nmt.translate.align import alignments
from nmt.translate.translator import Translator
from nmt.translate.types import Line, Translation, takes_terms

EngineName = Literal["auto", "native", "ctranslate2"]
Span = tuple[int, int]
Alignment = tuple[tuple[Span, Span], ...]
"""Pairs of a source word and a target word, each as start and end in code points."""

_REGIONAL = re.compile(r"(_hans)?(_(?!tw|hk|mo)([a-z]{2}|[0-9]{3}))?$")
_WORD = re.compile(r"\S+")
BATCH_TOKENS = 1024
"""Default of `search.batch_tokens` on a CPU; it is small because CTranslate2 cannot be stopped within a batch."""
PLACEHOLDERS, PLACEHOLDER_CHARACTERS = 10, 60
"""Maximum number of placeholders of a line that are protected by default, and of characters in all of them."""
NATIVE_ONLY = "needs PyTorch's engine, which this server does not use for this direction"


@dataclass(frozen=True)
class How:
    """Options of a translation; lines with the same `key` may share a batch."""

    search: SearchConfig
    n_best: int = 1
    align: bool = False

    @cached_property
    def key(self) -> str:
        """Hash of the options of a translation."""
        return sha256(f"{self.n_best} {self.align} {self.search.model_dump_json()}".encode()).hexdigest()


class Candidate(NamedTuple):
    """A translation of a line or a text."""

    text: str
    score: float
    log_prob: float
    alignment: Alignment | None


class Direction:
    """A thread-safe translator from one language to another, which runs CTranslate2, PyTorch, or both.

    With both, CTranslate2 translates. PyTorch aligns words, and translates lines with terms, placeholders or search
    settings that CTranslate2 does not support.
    """

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
        """Whether words can be aligned, which requires cross-attention and PyTorch."""
        return self.has_native and self.config.model.kind == "translation"

    def search_settings(self, changes: Mapping[str, object]) -> SearchConfig:
        """Return the search settings with `changes` applied. Raises ConfigError if the result is invalid."""
        tree = self.config.model_dump()
        return check_config(tree | {"search": self.search.model_dump() | dict(changes)}, "request").search

    @property
    def native(self) -> Translator:
        """The PyTorch translator of the direction. Raises ConfigError if there is none."""
        if self._native is None:
            raise ConfigError([NATIVE_ONLY])
        return self._native

    def costs(self, lines: Sequence[Line], how: How) -> list[float]:
        """Return the maximum cost of the search of each line; see `Translator.costs`."""
        hows = {True: how.search, False: _unprotected(how.search)}
        searches = [hows[self._protects(line.text, how.search)] for line in lines]
        return [self._main.costs([line], each, how.n_best)[0] for line, each in zip(lines, searches, strict=True)]

    def translate(
        self, lines: Sequence[Line], how: How, first: int = 0, should_stop: ShouldStop | None = None
    ) -> Generator[tuple[list[Candidate], int]]:
        """Yield up to `how.n_best` translations of each line, best first, and the number of its source pieces.

        first: the number of the first line in its text, which seeds sampling; should_stop: see
        `Translator.translate_window`.

        Raises ConfigError if settings are incompatible or unsupported, DataError if prefixes and terms are too long,
        and SearchStopped.
        """
        hows = {True: how, False: replace(how, search=_unprotected(how.search))}
        protected = [self._protects(line.text, how.search) for line in lines]
        with ExitStack() as opened:
            windows = {}
            for is_protected in {*protected}:
                own = [line for line, each in zip(lines, protected, strict=True) if each is is_protected]
                search = self._translator(hows[is_protected], own).translate_window
                windows[is_protected] = opened.enter_context(
                    closing(search(own, hows[is_protected].search, how.n_best, first, should_stop=should_stop))
                )
            for line, is_protected in zip(lines, protected, strict=True):
                translations = next(windows[is_protected])
                stop_if(should_stop)
                aligned: Sequence[Alignment | None] = [None] * len(translations)
                if how.align:
                    aligned = self._alignments(line, translations, should_stop)
                candidates = [
                    Candidate(each.text, each.score, each.log_prob, alignment)
                    for each, alignment in zip(translations, aligned, strict=True)
                ]
                yield candidates, sum(len(part.src_ids) for part in translations[0].parts)

    def _protects(self, text: str, search: SearchConfig) -> bool:
        """Return whether to protect the placeholders of a line: protection is supported and they are not too many."""
        if search.protect != "placeholders" or not self.has_native or not takes_terms(search):
            return False
        wanted = [span.wanted for span in constraint_spans(text, search)]
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
    def _decoder(self) -> ForcedDecoder:
        decoder = self.native.forced_decoder(self.search)
        with_cross_attention(decoder.models)
        return decoder

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


def word_spans(text: str) -> list[Span]:
    """Return the start and end of each word in code points; words are the same as in `nmt.translate.align`."""
    return [match.span() for match in _WORD.finditer(CONTROL.sub(" ", text))]


class Models:
    """The directions of a server, and the routes between its languages."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        """Index the directions by their languages. Raises ConfigError if two translate the same languages."""
        self.directions: dict[tuple[str, str], Direction] = {}
        for direction in directions:
            pair = direction.source, direction.target
            if pair in self.directions:
                both = f"{direction.name} and {self.directions[pair].name}"
                raise ConfigError([f"{both} both translate {'-'.join(pair)}; specify only one"])
            self.directions[pair] = direction
        self.languages = sorted({language for pair in self.directions for language in pair})
        self._codes = {normalized(language): language for language in self.languages}

    def language(self, code: str) -> str | None:
        """Return the language of the models that matches a code: pt_BR or else pt for `pt-BR`; None if none matches.

        A code with an unusual script, such as zh-Hant, matches only models with the same script.
        """
        return self._codes.get(normalized(code)) or self._codes.get(_REGIONAL.sub("", normalized(code)))

    def route(self, source: str, target: str) -> list[Direction] | None:
        """Return the directions from source to target: one, or two through a third language; None if there are none."""
        if (source, target) in self.directions:
            return [self.directions[source, target]]
        for middle in self.languages:
            if (source, middle) in self.directions and (middle, target) in self.directions:
                return [self.directions[source, middle], self.directions[middle, target]]
        return None

    def routes(self) -> Iterator[tuple[str, str, list[Direction]]]:
        """Yield source, target and route of each possible translation."""
        for source in self.languages:
            for target in self.languages:
                route = self.route(source, target) if source != target else None
                if route is not None:
                    yield source, target, route

    def targets(self, source: str) -> list[str]:
        """Return the languages that a language can be translated into."""
        return [each for each in self.languages if each != source and self.route(source, each) is not None]

    def sources_of(self, target: str) -> list[str]:
        """Return the languages that can be translated into a language."""
        return [each for each in self.languages if each != target and self.route(each, target) is not None]

    @property
    def alternatives(self) -> int:
        """Number of alternatives to the best translation that every direction can return."""
        return min((direction.search.beam for direction in self.directions.values()), default=1) - 1


# --- loading --------------------------------------------------------------------------------------


def load_models(
    paths: Sequence[Path], engine: EngineName, int8: bool, overrides: Sequence[str], zero_shot: bool = False
) -> Models:
    """Load the runs and exported folders of a server.

    overrides: search settings, `search.key=value`. zero_shot: whether a model with several directions also translates
    directly between languages for which it was not trained, in place of two steps.
    Raises ConfigError, CheckpointError or DataError if one cannot be loaded.
    """
    resolved: dict[Path, Path] = {}
    for path in paths:
        if (first := resolved.setdefault(path.resolve(), path)) is not path:
            raise ConfigError([f"{first} and {path} are the same; specify only one"])
    return Models([each for path in paths for each in load_directions(path, engine, int8, overrides, zero_shot)])


def load_directions(
    path: Path, engine: EngineName, int8: bool, overrides: Sequence[str], zero_shot: bool = False
) -> list[Direction]:
    """Load a run or an exported folder, with all its directions; see `load_models`.

    An imported model with several target languages has its own direction, in which a line may begin with the tag of
    its target language, and one for each language, unless one was chosen for all.
    """
    own = load_direction(path, engine, int8, overrides)
    pairs = [tuple(direction.split("-")) for direction in own.config.data.directions]
    if zero_shot and pairs:
        sources, targets = (dict.fromkeys(languages) for languages in zip(*pairs, strict=True))
        pairs = list(dict.fromkeys([*pairs, *((src, tgt) for src in sources for tgt in targets if src != tgt)]))
    if len(pairs) > 1:
        return [own.between(src, tgt) for src, tgt in pairs]
    return [own, *(own.towards(language) for language in own.others)]


def load_direction(path: Path, engine: EngineName, int8: bool, overrides: Sequence[str]) -> Direction:
    """Load the own direction of a run or an exported folder; see `load_directions`."""
    if engine == "native":
        if int8:
            raise ConfigError(["--int8 needs CTranslate2; remove --engine native"])
        return Direction(str(path), None, _checked(Translator.load(path), overrides))
    import torch

    is_alone = engine == "ctranslate2" or _is_ctranslate2(path)
    found = None
    if is_alone or not torch.cuda.is_available():  # CTranslate2 runs only on the CPU
        from nmt.share.export import engine_for

        try:
            found = _checked(engine_for([path], int8=int8), overrides)
        except (ConfigError, CheckpointError, DataError) as error:
            # the package is missing, the run is not writable, or its model or settings are not supported
            if is_alone:
                raise
            say(f"{path}: translating with PyTorch: {error.args[0]}")
    return Direction(str(path), found, None if is_alone else _checked(Translator.load(path), overrides))


def _checked(translator: Translator, overrides: Sequence[str]) -> Translator:
    """Change and check the search settings of a translator; the check also loads the model of `search.lm`."""
    translator = _searching(translator, overrides)
    translator.by_direction()[0].check(_unprotected(translator.config.search), 1)
    return translator


def _searching(translator: Translator, overrides: Sequence[str]) -> Translator:
    """Apply the server's defaults and `overrides` to the search settings of a translator. Raises ConfigError."""
    import torch

    others = [override for override in overrides if not override.startswith("search.")]
    if others:
        raise ConfigError([f"--set {other}: only search.* settings can be changed here" for other in others])
    search = translator.config.search
    defaults = ["search.protect=" + ("true" if search.protect else "placeholders")]
    if search.split == "long":
        defaults.append("search.split=always")
    if search.batch_tokens == "auto" and not torch.cuda.is_available():
        defaults.append(f"search.batch_tokens={BATCH_TOKENS}")
    translator.config = changed_config(translator.config, [*defaults, *overrides])
    return translator


def _unprotected(search: SearchConfig) -> SearchConfig:
    """Return search settings without the default protection of placeholders."""
    return search.model_copy(update={"protect": False}) if search.protect == "placeholders" else search


def _is_ctranslate2(path: Path) -> bool:
    from nmt.runs.folder import is_folder, load_folder

    return is_folder(path) and load_folder(path).info.kind == "ctranslate2"
