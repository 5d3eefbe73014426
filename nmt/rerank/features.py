"""Features of candidates, which are weighted and summed. A further feature is a further function here.

All that are log-probabilities are divided by the length penalty of the search, as the scores of search are: with the
default settings they are means per piece (Yee et al., 2019), with `search.length_penalty` 0 they are sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nmt.config import SearchConfig
from nmt.console import Progress, say
from nmt.rerank.candidates import Candidate
from nmt.search.step import length_penalty
from nmt.translate.language_model import LanguageModel
from nmt.translate.score import Scored
from nmt.translate.translator import Translator

Pairs = Sequence[tuple[str, Candidate]]
"""Lines, each with one of its candidates."""


@dataclass(frozen=True)
class Feature:
    """A number for each candidate, by which those of a line are compared."""

    name: str
    values: Callable[[Pairs], Sequence[float]]
    """NaN where a side is blank."""
    default: float = 1.0
    """The weight if none is tuned."""
    is_signed: bool = False
    """Whether the weight may be negative."""


def direct() -> Feature:
    """The score of the search that found the candidate."""
    return Feature("direct", lambda pairs: [candidate.score for _, candidate in pairs])


def channel(reverse: Translator, search: SearchConfig) -> Feature:
    """How probable a run of the other direction finds the line as the translation of the candidate."""

    def values(pairs: Pairs) -> list[float]:
        return _scores("channel", reverse, [(candidate.text, line) for line, candidate in pairs], search)

    return Feature("channel", values)


def rescored(name: str, translator: Translator, search: SearchConfig) -> Feature:
    """How probable another run of the same direction finds the candidate."""

    def values(pairs: Pairs) -> list[float]:
        return _scores(name, translator, [(line, candidate.text) for line, candidate in pairs], search)

    return Feature(name, values)


def fluency(name: str, language_model: LanguageModel, search: SearchConfig) -> Feature:
    """How probable a language model finds the candidate."""

    def values(pairs: Pairs) -> list[float]:
        with Progress(f"scoring, {name}", len(pairs), "candidates") as progress:
            lines = [candidate.text for _, candidate in pairs]
            return _values(name, language_model.score(lines, search, progress))

    return Feature(name, values)


def length(translator: Translator, search: SearchConfig) -> Feature:
    """The pieces of the candidate, `</s>` counted, divided by the length penalty of the line."""
    src, tgt = translator.tokenizers[translator.config.data.src], translator.tokenizers[translator.config.data.tgt]

    def values(pairs: Pairs) -> list[float]:
        lines = src.encode_all([line for line, _ in pairs])
        candidates = tgt.encode_all([candidate.text for _, candidate in pairs])
        return [(len(t) + 1) / length_penalty(len(s) + 1, search) for s, t in zip(lines, candidates, strict=True)]

    return Feature("length", values, default=0.0, is_signed=True)


def _scores(name: str, translator: Translator, pairs: Sequence[tuple[str, str]], search: SearchConfig) -> list[float]:
    with Progress(f"scoring, {name}", len(pairs), "candidates") as progress:
        return _values(name, translator.score(pairs, search, progress))


def _values(name: str, scored: Iterable[Scored]) -> list[float]:
    """Return the scores, and say how many are of candidates that were cut."""
    scores, n_cut = [], 0
    for each in scored:
        scores.append(each.score)
        n_cut += each.cut
    if n_cut:
        say(f"{name}: candidates scored as far as the model takes, since they or their lines are longer: {n_cut:,}")
    return scores
