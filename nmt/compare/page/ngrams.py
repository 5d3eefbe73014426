"""N-grams of the references that one system translates more often than another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nmt.compare.page.view import Words
from nmt.compare.page.words import join_words

ORDERS = 4
MOST = 15


class NGram(NamedTuple):
    """How often an n-gram is in the references, and in the translations of these lines: there at most as often."""

    words: Words
    n_reference: int
    n_baseline: int
    n_other: int

    @property
    def shown(self) -> str:
        """The n-gram as text."""
        return join_words(self.words)

    @property
    def gain(self) -> int:
        """How much more often the other system has it than the baseline."""
        return self.n_other - self.n_baseline


def won_and_lost(
    references: Sequence[Words], baseline: Sequence[Words], other: Sequence[Words]
) -> tuple[list[NGram], list[NGram]]:
    """Return the n-grams that the other system has more often, and those that the baseline has more often.

    An n-gram that is part of a longer one with the same gain, or the other way round, is left out.
    """
    in_references: Counter[Words] = Counter()
    in_baseline: Counter[Words] = Counter()
    in_other: Counter[Words] = Counter()
    for reference, first, second in zip(references, baseline, other, strict=True):
        wanted = Counter(_n_grams(reference))
        in_references.update(wanted)
        counted = [(in_baseline, first)] if first == second else [(in_baseline, first), (in_other, second)]
        for counter, words in counted:
            found = Counter(_n_grams(words))
            matches = {n_gram: min(n, found[n_gram]) for n_gram, n in wanted.items() if n_gram in found}
            counter.update(matches)
            if first == second:
                in_other.update(matches)
    changed = [
        NGram(words, n, in_baseline[words], in_other[words])
        for words, n in in_references.items()
        if in_baseline[words] != in_other[words]
    ]
    won = sorted((each for each in changed if each.gain > 0), key=lambda each: (-each.gain, -len(each.words)))
    lost = sorted((each for each in changed if each.gain < 0), key=lambda each: (each.gain, -len(each.words)))
    return _distinct(won), _distinct(lost)


def _n_grams(words: Words) -> Iterator[Words]:
    for order in range(1, ORDERS + 1):
        yield from zip(*(words[start:] for start in range(order)), strict=False)


def _distinct(n_grams: Iterable[NGram]) -> list[NGram]:
    """Return the first n-grams of which none is part of another that has the same gain."""
    chosen: list[NGram] = []
    for each in n_grams:
        if len(chosen) == MOST:
            break
        if not any(other.gain == each.gain and _overlap(other.words, each.words) for other in chosen):
            chosen.append(each)
    return chosen


def _overlap(first: Words, second: Words) -> bool:
    short, long = sorted((first, second), key=len)
    return any(long[start : start + len(short)] == short for start in range(len(long) - len(short) + 1))
