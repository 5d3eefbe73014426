"""Whether an exported CTranslate2 model is the run: the same lines through both engines."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.config import SearchConfig
from nmt.console import Progress
from nmt.engine.search import check_search
from nmt.engine.translator import EngineTranslator
from nmt.errors import CheckpointError, ConfigError
from nmt.evaluate.metrics import Score, corpus_score
from nmt.search.step import length_penalty
from nmt.text.tokenizer import Tokenizer
from nmt.translate.translator import Translator
from nmt.translate.types import Translation

# A score is the mean log-probability of a piece, with the settings a run has by default.
TOLERANCE = {"float32": 1e-3, "float16": 0.02, "int8": 0.2}
"""By how much the score of a translation may differ at most; in float32 they differ by 1e-6."""


@dataclass(frozen=True)
class Comparison:
    """What two engines made of the same lines."""

    n_lines: int
    n_identical: int
    """Translations of the same pieces throughout."""
    search_difference: float
    """The largest between the scores of identical translations, as the searches found them."""
    forced_difference: float
    """The largest between the scores that both give to the native translations, by forced decoding."""
    bleu: Score
    """Of the engine's translations against the native ones."""

    def __str__(self) -> str:
        share = f"{self.n_identical} of {self.n_lines} translations identical ({self.n_identical / self.n_lines:.1%})"
        scores = (
            f"their scores differ by at most {self.search_difference:.1e}, forced ones by {self.forced_difference:.1e}"
        )
        return f"{share}, {scores}; BLEU between the engines {self.bleu.value:.2f}"


def compare(native: Translator, other: EngineTranslator, lines: Sequence[str], search: SearchConfig) -> Comparison:
    """Translate `lines`, of which one at least is not blank, through both engines. `native` calculates in float32."""
    with Progress("comparing the engines", 2 * len(lines)) as progress:
        wanted, found = (
            [each[0] for each in one.translate_lines(lines, search, progress=progress)] for one in (native, other)
        )
    return compare_translations(native, other, wanted, found, search)


def compare_translations(
    native: Translator,
    other: EngineTranslator,
    wanted: Sequence[Translation],
    found: Sequence[Translation],
    search: SearchConfig,
) -> Comparison:
    """What the native engine and the other made of the same lines."""
    same = [(a, b) for a, b in zip(wanted, found, strict=True) if _pieces(a) == _pieces(b)]
    hyps, refs = ([each.text for each in translations] for translations in (found, wanted))
    return Comparison(
        n_lines=len(wanted),
        n_identical=len(same),
        search_difference=_largest([abs(a.score - b.score) for a, b in same]),
        forced_difference=_forced_difference(native, other, wanted, search),
        bleu=corpus_score("bleu", hyps, refs, native.config.data.tgt),
    )


def _forced_difference(
    native: Translator, other: EngineTranslator, translations: Sequence[Translation], search: SearchConfig
) -> float:
    pairs = [(part.src_ids, part.tgt_ids) for each in translations for part in each.parts]
    both = zip(native.forced_decoder(search).log_probs(pairs), other.engine.log_probs(pairs), strict=True)
    return _largest([abs(math.fsum(a) - math.fsum(b)) / length_penalty(len(a), search) for a, b in both])


def _largest(differences: Sequence[float]) -> float:
    """NaN, which max may overlook, is the largest."""
    return math.nan if any(map(math.isnan, differences)) else max(differences, default=0.0)


def _pieces(translation: Translation) -> list[tuple[int, ...]]:
    return [tuple(part.tgt_ids) for part in translation.parts]


def judge(found: Comparison, quantization: str) -> None:
    """Raise CheckpointError if the engines differ by more than rounding explains."""
    tolerance = TOLERANCE[quantization]
    if not _largest([found.forced_difference, found.search_difference]) <= tolerance:
        raise CheckpointError(
            f"the exported model is not that of the run: {found}; {quantization} should differ by less than {tolerance}"
        )


def search_for_check(config: SearchConfig) -> SearchConfig:
    """The run's settings, where both engines can carry them out with one result, else the defaults."""
    try:
        check_search(config)
    except ConfigError:
        return SearchConfig()
    return SearchConfig() if config.sample or config.mbr != "none" else config


def made_up_lines(tokenizer: Tokenizer, n: int) -> list[str]:
    """Lines of words of the vocabulary, where no text is at hand: as good to see that two models are one."""
    rng = random.Random(1)
    words = [piece for piece in tokenizer.pieces(range(len(tokenizer))) if piece[0] == "\u2581" and piece[1:].isalpha()]
    return [" ".join(word[1:] for word in rng.choices(words or ["\u2581a"], k=rng.randint(1, 12))) for _ in range(n)]
