"""The package ctranslate2, an extra without type annotations."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Protocol, TypedDict

from nmt.errors import ConfigError
from nmt.search.stopping import ShouldStop, stop_if

INSTALL = "CTranslate2 is not installed; pip install ctranslate2 installs it, and so does nmt's extra of that name"


class Options(TypedDict, total=False):
    """Options of `ctranslate2.Translator.translate_batch`."""

    max_input_length: int
    min_decoding_length: int
    max_decoding_length: int
    no_repeat_ngram_size: int
    length_penalty: float
    return_scores: bool
    return_end_token: bool
    beam_size: int
    num_hypotheses: int
    patience: float
    sampling_topk: int
    sampling_topp: float
    sampling_temperature: float
    suppress_sequences: list[list[str]]


class TranslationResult(Protocol):
    """Translations of a line: `ctranslate2.TranslationResult`."""

    hypotheses: list[list[str]]
    scores: list[float]


class AsyncResult(Protocol):
    """A result to wait for: `ctranslate2.AsyncTranslationResult`."""

    def result(self) -> TranslationResult:
        """Wait for the result and return it."""


class ScoringResult(Protocol):
    """Log-probabilities of the tokens of a given translation: `ctranslate2.ScoringResult`."""

    log_probs: list[float]


class Model(Protocol):
    """The methods of `ctranslate2.Translator` that are used."""

    def translate_batch(
        self, source: list[list[str]], target_prefix: list[list[str]] | None, *, asynchronous: bool, **options: object
    ) -> list[AsyncResult]:
        """Translate lines of tokens."""

    def score_batch(
        self, source: Sequence[list[str]], target: Sequence[list[str]], *, max_batch_size: int, max_input_length: int
    ) -> list[ScoringResult]:
        """Score given translations."""


def stoppable(model: Model, should_stop: ShouldStop | None) -> Model:
    """Return a model that raises SearchStopped instead of translating once the search should stop.

    CTranslate2 itself stops within a batch in greedy search alone, by a function that it calls for each token of each
    line. That needs Python's global interpreter lock, and is up to four times slower beside a busy thread.
    """
    return model if should_stop is None else _Stoppable(model, should_stop)


class _Stoppable:
    def __init__(self, model: Model, should_stop: ShouldStop) -> None:
        self._model, self._should_stop = model, should_stop
        self.score_batch = model.score_batch

    def translate_batch(
        self, source: list[list[str]], target_prefix: list[list[str]] | None, *, asynchronous: bool, **options: object
    ) -> list[AsyncResult]:
        stop_if(self._should_stop)
        return self._model.translate_batch(source, target_prefix, asynchronous=asynchronous, **options)


def library() -> ModuleType:
    """Import the package ctranslate2. Raises ConfigError if it is not installed."""
    try:
        import ctranslate2  # optional
    except ImportError as error:
        raise ConfigError([INSTALL]) from error
    module: ModuleType = ctranslate2
    return module
