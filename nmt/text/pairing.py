"""Samples of pairs of lines, and a check that lines are paired with their translations, not with other lines."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise, tee
from statistics import median
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from nmt.console import Item
from nmt.text.lines import TextPair

N_PAIRS = 1000
"""Maximum number of pairs in a sample; a large corpus gives at least half as many."""

_MOST_CHARS = 300  # of a line
_STRETCH, _MOST_STRETCHES = 100, 8  # pairs of a stretch, at least
# share of pairs that are more alike than with another line: 0.78 or more of good text, 0.5 by chance
_ALIKE = 0.6
_UNALIKE = 0.56
_WORDS = re.compile(r"\d+|[^\W\d_]+")

_Floats: TypeAlias = npt.NDArray[np.float64]
_Pair = TypeVar("_Pair", bound=tuple[Any, ...])


class Place(NamedTuple):
    """The position of a pair in its corpus."""

    line: int
    before: str
    """The second side of the line before it; empty if unknown."""
    after: str
    """The second side of the line after it; empty if unknown."""


@dataclass
class Sample:
    """A sample of pairs, spread evenly over a corpus."""

    pairs: list[TextPair] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    """The position of each pair."""

    @classmethod
    def of(cls, pairs: Iterable[TextPair]) -> Sample:
        """Return a sample of the pairs of a corpus."""
        return cls.of_placed(with_places(pairs))

    @classmethod
    def of_placed(cls, pairs: Iterable[tuple[TextPair, Place]]) -> Sample:
        """Return a sample of pairs, which are given with their positions."""
        sample = cls()
        for (src, tgt), (line, before, after) in at_intervals(pairs, N_PAIRS):
            sample.pairs.append((src[:_MOST_CHARS], tgt[:_MOST_CHARS]))
            sample.places.append(Place(line, before[:_MOST_CHARS], after[:_MOST_CHARS]))
        return sample


def at_intervals(items: Iterable[Item], most: int) -> list[Item]:
    """Return at most `most` items at regular intervals; of many, at least half as many."""
    chosen: list[Item] = []
    stride = 1
    for number, item in enumerate(items):
        if number % stride == 0:
            if len(chosen) == most:
                chosen = chosen[::2]
                stride *= 2
            if number % stride == 0:
                chosen.append(item)
    return chosen


def with_places(pairs: Iterable[_Pair]) -> Iterator[tuple[_Pair, Place]]:
    """Yield each pair of a corpus with its position."""
    pairs, before, after = tee(pairs, 3)
    befores = chain([""], (pair[1] for pair in before))
    afters = chain((pair[1] for pair in islice(after, 1, None)), [""])
    for line, (pair, *sides) in enumerate(zip(pairs, befores, afters, strict=False), start=1):
        yield pair, Place(line, *sides)


def unaligned(where: str, sample: Sample, language: str, remedy: str = "") -> Iterator[str]:
    """Yield a warning if lines are less similar to their translations than to other lines, adjacent or distant.

    language: the name of the second side; remedy: advice on training text of which only a part is affected. There must
    be at least 100 pairs.
    """
    n = len(sample.pairs)
    targets = [tgt for _, tgt in sample.pairs]
    neighbours = {
        "after": [place.after for place in sample.places],
        "before": [place.before for place in sample.places],
        "random": targets[n // 2 :] + targets[: n // 2],
    }
    counts = Counter[str]()
    for line in chain(*sample.pairs, targets, *neighbours.values()):
        counts.update(_words(line))
    likenesses = {"own": _likenesses(sample.pairs, targets, counts)}
    for kind, lines in neighbours.items():
        different = ["" if line == tgt else line for line, tgt in zip(lines, targets, strict=True)]
        likenesses[kind] = _likenesses(sample.pairs, different, counts)
    most = 1.0 if _wins(likenesses["own"], likenesses["random"]) < _UNALIKE else 0.5  # stretches vary
    n_stretches = min(_MOST_STRETCHES, n // _STRETCH)
    rows_of = dict[str, list[int]]()
    for first, last in pairwise(i * n // max(1, n_stretches) for i in range(n_stretches + 1)):
        stretch = {kind: values[first:last] for kind, values in likenesses.items()}
        fitting = _fitting(stretch, most)
        if fitting is not None:
            rows_of.setdefault(fitting, []).extend(range(first, last))
    for kind, rows in rows_of.items():
        place = "the lines"
        advice = "check the files for missing, extra or reordered lines"
        if len(rows) < n:
            place = f"about lines {sample.places[rows[0]].line:,} to {sample.places[rows[-1]].line:,}"
            advice += remedy
        what = "are no more alike than lines paired at random, by lengths, names and numbers"
        if kind:
            what = f"look shifted: the {language} line {kind} its own fits most lines better"
            advice += "; nmt align pairs the lines of two files anew"
        yield f"{where}: {place} {what}; {advice}"


def _fitting(likenesses: Mapping[str, _Floats], most: float) -> str | None:
    """Return which line fits better than the translation: `after` or `before` it, or empty for lines at random, if
    fewer translations than a share `most` fit better than these; None if no other line fits better."""
    kind = ""
    for near, far in (("after", "before"), ("before", "after")):
        if _wins(likenesses[near], likenesses[far]) > _ALIKE < _wins(likenesses[near], likenesses["own"]):
            kind += near
    return kind if kind or _wins(likenesses["own"], likenesses["random"]) < most else None


def _likenesses(pairs: Sequence[TextPair], texts: Sequence[str], counts: Mapping[str, int]) -> _Floats:
    """Return the similarity of the first side of each pair to another text, by length and by common words; NaN if that
    is empty. Rare words, such as numbers and names, count most; `counts` says how many texts have a word.
    """
    ratios = []
    shared = []
    for (src, _), text in zip(pairs, texts, strict=True):
        ratio = math.nan
        if text:
            ratio = math.log((len(src) + 5) / (len(text) + 5))
        ratios.append(ratio)
        shared.append(min(1.0, sum(3 / counts[word] for word in _words(src) & _words(text))))
    usual = median([ratio for ratio in ratios if not math.isnan(ratio)] or [0.0])
    likenesses = 3 * np.array(shared) - np.abs(np.array(ratios) - usual)
    return np.array([round(likeness, 9) for likeness in likenesses.tolist()])


def _wins(values: _Floats, compared: _Floats) -> float:
    """Return the share of values that exceed the other value, ties counting half; NaN if most pairs contain a NaN."""
    is_known = ~np.isnan(values + compared)
    if not len(values) or 2 * is_known.sum() < len(values):
        return math.nan
    wins = (values > compared) + (values == compared) / 2
    return float(wins[is_known].mean())


def _words(text: str) -> set[str]:
    return set(_WORDS.findall(text.lower()))
