"""Comparison of an exported CTranslate2 model with its run: the same lines translated by both engines."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.config import SearchConfig
from nmt.console import Progress
from nmt.errors import CheckpointError, ConfigError
from nmt.evaluate.metrics import Score, corpus_score
from nmt.search.step import length_penalty
from nmt.share.engine import Engine, check_supported, engine_translator
from nmt.text.tokenizer import Tokenizer
from nmt.translate.translator import Translator
from nmt.translate.types import Translation

# With default settings a score is the mean log-probability of a piece.
TOLERANCE = {"float32": 1e-3, "float16": 0.02, "int8": 0.2}
"""Maximum difference between scores of a translation; in float32 they differ by 1e-6."""


@dataclass(frozen=True)
class Comparison:
    """Differences between the translations of the same lines by two engines."""

    n_lines: int
    n_identical: int
    """Translations that consist of the same pieces."""
    search_difference: float
    """The largest difference between the scores of identical translations, from search."""
    forced_difference: float
    """The largest difference between both engines' scores of the native translations, by forced decoding."""
    bleu: Score
    """BLEU of the engine's translations against the native ones."""

    def __str__(self) -> str:
        share = f"{self.n_identical} of {self.n_lines} translations identical ({self.n_identical / self.n_lines:.1%})"
        scores = (
            f"their scores differ by at most {self.search_difference:.1e}, forced ones by {self.forced_difference:.1e}"
        )
        return f"{share}, {scores}; BLEU between the engines {self.bleu.value:.2f}"


def compare(native: Translator, engine: Engine, lines: Sequence[str], search: SearchConfig) -> Comparison:
    """Translate `lines`, at least one of them not blank, with both engines. `native` runs in float32."""
    with Progress("comparing the engines", 2 * len(lines)) as progress:
        expected, actual = (
            [best for best, *_ in translator.translate_lines(lines, search, progress=progress)]
            for translator in (native, engine_translator(engine))
        )
    return compare_translations(native, engine, expected, actual, search)


def compare_translations(
    native: Translator,
    engine: Engine,
    expected: Sequence[Translation],
    actual: Sequence[Translation],
    search: SearchConfig,
) -> Comparison:
    """Compare the translations of the same lines by the native engine (`expected`) and by CTranslate2 (`actual`)."""
    same = [(a, b) for a, b in zip(expected, actual, strict=True) if _pieces(a) == _pieces(b)]
    hyps, refs = ([translation.text for translation in translations] for translations in (actual, expected))
    return Comparison(
        n_lines=len(expected),
        n_identical=len(same),
        search_difference=_largest([abs(a.score - b.score) for a, b in same]),
        forced_difference=_forced_difference(native, engine, expected, search),
        bleu=corpus_score("bleu", hyps, refs, native.config.data.tgt),
    )


def _forced_difference(
    native: Translator, engine: Engine, translations: Sequence[Translation], search: SearchConfig
) -> float:
    pairs = [(part.src_ids, part.tgt_ids) for translation in translations for part in translation.parts]
    both = zip(native.forced_decoder(search).log_probs(pairs), engine.log_probs(pairs), strict=True)
    return _largest([abs(math.fsum(a) - math.fsum(b)) / length_penalty(len(a), search) for a, b in both])


def _largest(differences: Sequence[float]) -> float:
    """Return the maximum, NaN if any is NaN, which `max` may ignore."""
    return math.nan if any(map(math.isnan, differences)) else max(differences, default=0.0)


def _pieces(translation: Translation) -> list[tuple[int, ...]]:
    return [tuple(part.tgt_ids) for part in translation.parts]


def check_tolerance(comparison: Comparison, quantization: str) -> None:
    """Raise CheckpointError if the engines differ by more than rounding explains."""
    tolerance = TOLERANCE[quantization]
    if not _largest([comparison.forced_difference, comparison.search_difference]) <= tolerance:
        raise CheckpointError(
            f"the exported model is not that of the run: {comparison}; "
            f"{quantization} should differ by less than {tolerance}"
        )


def search_for_check(config: SearchConfig) -> SearchConfig:
    """Return the run's settings if both engines support them and should agree, else the defaults."""
    try:
        check_supported(config)
    except ConfigError:
        return SearchConfig()
    return SearchConfig() if config.sample or config.mbr != "none" else config


def made_up_lines(tokenizer: Tokenizer, n: int) -> list[str]:
    """Return lines of random words of the vocabulary, to compare two models where no text is available."""
    rng = random.Random(1)
    words = [piece for piece in tokenizer.pieces(range(len(tokenizer))) if piece[0] == "\u2581" and piece[1:].isalpha()]
    return [" ".join(word[1:] for word in rng.choices(words or ["\u2581a"], k=rng.randint(1, 12))) for _ in range(n)]
