"""Texts of requests: taken apart into lines for the models, and put together again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nmt.serve.models import Alignment, Candidate
from nmt.text.constraints import Glossary
from nmt.translate.types import Line


@dataclass(frozen=True)
class Wish:
    """What a client may ask for beside the translation itself."""

    n_best: int = 1
    align: bool = False
    prefix: str = ""
    terms: Mapping[str, str] = field(default_factory=dict)
    search: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Rendered:
    """A translation of a text."""

    text: str
    score: float
    """Of a text of several lines the mean of theirs."""
    log_prob: float
    """Of a text of several lines the sum of theirs."""
    alignment: Alignment | None


def lines_of(texts: Sequence[str], wish: Wish) -> list[Line]:
    """Return the lines of all texts. Lines end at a line feed; a carriage return before it is not part of them."""
    glossary = Glossary(wish.terms, "terms") if wish.terms else None
    return [
        Line(line.removesuffix("\r"), wish.prefix if number == 0 else "", glossary=glossary)
        for text in texts
        for number, line in enumerate(text.split("\n"))
    ]


def joined(texts: Sequence[str], by_line: Sequence[Sequence[Candidate]]) -> list[list[Rendered]]:
    """Return for each text its translations, best first, given those of all `lines_of` the texts.

    The second best of a text has the second best translation of each line, if it has one.
    """
    rendered, end = [], 0
    for text in texts:
        lines = text.split("\n")
        start, end = end, end + len(lines)
        rendered.append(_renderings(lines, by_line[start:end]))
    return rendered


def _renderings(lines: Sequence[str], by_line: Sequence[Sequence[Candidate]]) -> list[Rendered]:
    n_ranks = max(map(len, by_line))
    ranks = [[candidates[min(rank, len(candidates) - 1)] for candidates in by_line] for rank in range(n_ranks)]
    return [_rendered(lines, candidates) for candidates in ranks]


def _rendered(lines: Sequence[str], candidates: Sequence[Candidate]) -> Rendered:
    texts, pairs = [], []
    source = target = 0
    for line, candidate in zip(lines, candidates, strict=True):
        texts.append(candidate.text + ("\r" if line.endswith("\r") else ""))
        for (start, stop), (to_start, to_stop) in candidate.alignment or ():
            pairs.append(((source + start, source + stop), (target + to_start, target + to_stop)))
        source += len(line) + 1
        target += len(texts[-1]) + 1
    translated = [candidate for candidate in candidates if candidate.text]
    return Rendered(
        text="\n".join(texts),
        score=math.fsum(candidate.score for candidate in translated) / max(len(translated), 1),
        log_prob=math.fsum(candidate.log_prob for candidate in translated),
        alignment=None if any(candidate.alignment is None for candidate in candidates) else tuple(pairs),
    )
