"""The runs whose scores are features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import SearchConfig
from nmt.errors import ConfigError
from nmt.rerank.features import Feature, channel, direct, fluency, length, rescored
from nmt.translate.language_model import LanguageModel
from nmt.translate.translator import Translator

OWN_NAMES = ("direct", "channel", "length")


@dataclass(frozen=True)
class Runs:
    """The translators that score candidates."""

    direct: Translator
    """Makes the candidates, too, unless they are read."""
    reverse: Translator
    others: Mapping[str, Translator]
    """Further ones of the direction of `direct`, by the names of their features."""
    language_models: Mapping[str, LanguageModel]
    """Of the language of the candidates, by the names of their features."""

    @classmethod
    def load(
        cls,
        run: Sequence[Path],
        reverse: Sequence[Path],
        others: Sequence[Path],
        language_models: Sequence[Path],
        precision: str,
    ) -> Runs:
        """Load runs; several for `run` or `reverse` are an ensemble.

        Raises ConfigError for a run of the wrong direction or language or two of one name, and as `Translator.load`.
        """
        named = [("--rescore", path) for path in others] + [("--lm", path) for path in language_models]
        names = [path.resolve().name for _, path in named]
        for name, (option, path) in zip(names, named, strict=True):
            if name in OWN_NAMES or names.count(name) > 1:
                of = "a feature" if name in OWN_NAMES else "another --rescore or --lm"
                raise ConfigError([f"{option} {path}: its weight is named {name}, as that of {of}; rename the run"])
        translator = Translator.load(run, precision=precision)
        data = translator.config.data
        opposite = _load("--reverse", reverse, f"{data.tgt}-{data.src}", precision)
        scorers = [_load("--rescore", [path], data.direction, precision) for path in others]
        models = [_load_language_model(path, data.tgt, precision) for path in language_models]
        return cls(
            translator,
            opposite,
            dict(zip(names[: len(scorers)], scorers, strict=True)),
            dict(zip(names[len(scorers) :], models, strict=True)),
        )

    def features(self, search: SearchConfig) -> list[Feature]:
        """Return the features, the score of search first."""
        others = [rescored(name, translator, search) for name, translator in self.others.items()]
        fluent = [fluency(name, model, search) for name, model in self.language_models.items()]
        return [direct(), channel(self.reverse, search), *others, *fluent, length(self.direct, search)]


def _load(option: str, paths: Sequence[Path], direction: str, precision: str) -> Translator:
    translator = Translator.load(paths, precision=precision)
    found = translator.config.data.direction
    if found != direction:
        raise ConfigError([f"{option} {paths[0]}: translates {found}, beside this --run it must be {direction}"])
    return translator


def _load_language_model(path: Path, language: str, precision: str) -> LanguageModel:
    model = LanguageModel.load(path, precision=precision)
    learned = model.config.learned_languages
    if language not in learned:
        raise ConfigError([f"--lm {path}: has learned {' and '.join(learned)}, the candidates are {language}"])
    return model
