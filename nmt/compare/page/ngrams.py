"""N-grams of the references that one system translates more often than another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from nmt.compare.page.view import Words
from nmt.compare.page.words import join_words
from nmt.significance.n_grams import count_common, line_n_grams, number_words

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
    found = []
    for order, (n_kinds, keys) in enumerate(line_n_grams(number_words([references, baseline, other]), ORDERS)):
        own, first, n_own = np.unique(keys[0], return_index=True, return_counts=True)
        _, where, kind = np.unique(own % n_kinds, return_index=True, return_inverse=True)
        counts = [n_own, *(count_common(own, n_own, translated) for translated in keys[1:])]
        n_reference, n_baseline, n_other = (np.bincount(kind, n).astype(int) for n in counts)
        names = [
            *chain.from_iterable(
                zip(*(words[start:] for start in range(order + 1)), strict=False) for words in references
            )
        ]
        found += [
            NGram(names[first[where[i]]], int(n_reference[i]), int(n_baseline[i]), int(n_other[i]))
            for i in np.flatnonzero(n_baseline != n_other)
        ]
    found.sort(key=lambda each: (-abs(each.gain), -len(each.words)))
    return _distinct(each for each in found if each.gain > 0), _distinct(each for each in found if each.gain < 0)


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
