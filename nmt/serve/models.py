"""The translators of a server, and the routes between their languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from nmt.config import Config
from nmt.config.load import changed_search
from nmt.errors import ConfigError, DataError
from nmt.languages.codes import parts_of, side_of
from nmt.runs.model import ModelRef
from nmt.search.settings import SearchConfig
from nmt.serve.limits import Refusal
from nmt.share import EngineName
from nmt.share.export import load_translator
from nmt.translate.loading import Translator, for_texts
from nmt.translate.memory_files import read_memory
from nmt.translate.types import unprotected

BATCH_TOKENS = 1024
"""Default of `search.batch_tokens` on a CPU; it is small because CTranslate2 cannot be stopped within a batch."""


class Models:
    """The directions of a server, and the routes between its languages."""

    def __init__(self, directions: Sequence[Translator]) -> None:
        """Index the directions by their languages. Raises ConfigError if two translate the same languages."""
        self.directions: dict[tuple[str, str], Translator] = {}
        self._by_parts: dict[object, str] = {}  # `en` and `eng` are one language, by the code that comes first
        for direction in directions:
            codes = [self._by_parts.setdefault(parts_of(code), code) for code in (direction.source, direction.target)]
            pair = codes[0], codes[1]
            other = self.directions.setdefault(pair, direction)
            if other.run != direction.run:  # one model may have several tags of a language, such as pt_BR and pt_br
                runs = f"{direction.run} and {other.run}"
                raise ConfigError(f"{runs} both translate {'-'.join(pair)}; specify only one")
        self.languages = sorted(self._by_parts.values())

    def language(self, code: str) -> str:
        """Return the language of the models that a code belongs to, see `side_of`: pt_BR or else pt for `pt-BR`.

        Codes of two and of three letters match, with the usual script or without it: de, `deu` and `deu_Latn`. Raises
        Refusal if there is no match.
        """
        side = side_of(code[:50], self.languages)  # the cache keeps codes
        if side is None:
            raise Refusal(400, f"{code} is not supported")
        return self.languages[side]

    def route(self, source: str, target: str) -> list[Translator] | None:
        """Return the directions from source to target: one, or two through a third language; None if there are none.

        There are none from a language to itself.
        """
        if source == target:
            return None
        if (source, target) in self.directions:
            return [self.directions[source, target]]
        for middle in self.languages:
            if (source, middle) in self.directions and (middle, target) in self.directions:
                return [self.directions[source, middle], self.directions[middle, target]]
        return None

    def routes(self) -> Iterator[tuple[str, str, list[Translator]]]:
        """Yield source, target and route of each possible translation."""
        for source in self.languages:
            for target in self.languages:
                if route := self.route(source, target):
                    yield source, target, route

    def targets(self, source: str) -> list[str]:
        """Return the languages that a language can be translated into."""
        return [target for target in self.languages if self.route(source, target)]

    @property
    def alternatives(self) -> int:
        """Number of alternatives to the best translation that every direction can return."""
        searches = [direction.search for direction in self.directions.values()]
        return min((search.beam if search.mbr == "none" else 1 for search in searches), default=1) - 1


# --- loading --------------------------------------------------------------------------------------


def load_models(
    paths: Sequence[Path],
    engine: EngineName,
    int8: bool,
    overrides: Sequence[str],
    zero_shot: bool = False,
    tm: Sequence[str] = (),
) -> Models:
    """Load the runs and exported folders of a server.

    overrides: search settings, `search.key=value`. zero_shot: whether a model with several directions also translates
    directly between languages for which it was not trained, in place of two steps. tm: files of translation memories,
    each of which has the languages of some direction.
    Raises ConfigError, CheckpointError or DataError if one cannot be loaded.
    """
    resolved: dict[Path, Path] = {}
    for path in paths:
        if (first := resolved.setdefault(path.resolve(), path)) is not path:
            raise ConfigError(f"{first} and {path} are the same; specify only one")
    directions = []
    for path in paths:
        directions += load_directions(path, engine, int8, overrides, zero_shot)
    models = Models(directions)
    return _with_memories(models, tm) if tm else models


def _with_memories(models: Models, tm: Sequence[str]) -> Models:
    """Return models whose directions have the translation memories in their languages."""
    directions = []
    for (source, target), direction in models.directions.items():
        memory = read_memory(tm, source, target, is_required=len(models.directions) == 1)
        if len(memory):
            memory.use_for(direction.conventions.fuzzy_threshold, direction.search)
            direction = replace(direction, tm=memory)
        directions.append(direction)
    if all(direction.tm is None for direction in directions):
        raise DataError(f"--tm: no memory has the languages of {', '.join(map('-'.join, models.directions))}")
    return Models(directions)


def load_directions(
    path: Path, engine: EngineName, int8: bool, overrides: Sequence[str], zero_shot: bool = False
) -> list[Translator]:
    """Load a run or an exported folder, with all its directions; see `load_models`.

    An imported model with several target languages has its own direction, in which a line may begin with the tag of
    its target language, and one for each language, unless one was chosen for all.
    """
    translator = load_direction(path, engine, int8, overrides)
    pairs = translator.config.data.all_sides
    if zero_shot and pairs:
        sources, targets = zip(*pairs, strict=True)
        untrained = [(src, tgt) for src in sources for tgt in targets if src != tgt]
        pairs = [*dict.fromkeys([*pairs, *untrained])]
    if len(pairs) > 1:
        return [translator.towards(tgt, src) for src, tgt in pairs]
    return [translator, *(translator.towards(language) for language in translator.other_targets)]


def load_direction(path: Path, engine: EngineName, int8: bool, overrides: Sequence[str]) -> Translator:
    """Load the own direction of a run or an exported folder; see `load_directions`.

    With `auto`, a run is converted for CTranslate2 if possible, and PyTorch stands by for what CTranslate2 does not
    support. The model of `search.lm` is loaded as well.
    """
    if engine == "native" and int8:
        raise ConfigError("--int8 needs CTranslate2; remove --engine native")
    settings = partial(_search_settings, overrides)
    translator = load_translator(
        ModelRef((path,)), engine, settings, int8=int8, converts=True, falls_back=engine == "auto"
    )
    search = settings(translator.config)
    translator = translator.searching(search)
    translator.by_direction()[0].check(unprotected(search), 1)
    return translator


def _search_settings(overrides: Sequence[str], config: Config) -> SearchConfig:
    """Return the search settings of a run with the defaults of a server and with `overrides`. Raises ConfigError."""
    problems = [override for override in overrides if not override.startswith("search.")]
    if problems:
        raise ConfigError(*[f"--set {override}: only search.* settings can be changed here" for override in problems])
    defaults = for_texts(config.search)
    if config.search.batch_tokens == "auto" and not torch.cuda.is_available():
        defaults.append(("search.batch_tokens", BATCH_TOKENS))
    return changed_search(config, {}, [*defaults, *overrides], "config")
