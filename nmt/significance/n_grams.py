"""N-grams that lines have in common, counted for many lines at once.

Shapes are written with L lines, N symbols of all lines of all texts, and O orders of n-grams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_LINES = 1000
"""Counted at once."""
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Symbols:
    """The words or characters of lines, by number."""

    numbers: Ints
    """Of all lines, one after another."""
    lengths: Ints
    """(L,)"""

    def lines(self, start: int, end: int) -> Symbols:
        """Return some of the lines."""
        first, n = self.lengths[:start].sum(), self.lengths[start:end].sum()
        return Symbols(self.numbers[first : first + n], self.lengths[start:end])

    def n_grams(self, orders: int) -> Ints:
        """Return the number of n-grams of each line, (L, O)."""
        return np.maximum(self.lengths[:, None] - np.arange(orders), 0)


def number_words(texts: Sequence[Sequence[Sequence[str]]]) -> list[Symbols]:
    """Return the words of each line of several texts."""
    numbers: dict[str, int] = {}
    return [
        Symbols(
            np.array([numbers.setdefault(word, len(numbers)) for words in lines for word in words], np.int64),
            np.array([*map(len, lines)], np.int64),
        )
        for lines in texts
    ]


def number_characters(texts: Sequence[Sequence[str]]) -> list[Symbols]:
    """Return the characters of each line of several texts."""
    return [
        Symbols(
            np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64),
            np.array([*map(len, lines)], np.int64),
        )
        for lines in texts
    ]


def count_matches(reference: Symbols, others: Sequence[Symbols], orders: int) -> list[Ints]:
    """Return how many n-grams of each order each line of other texts has in common with the reference, (L, O).

    An n-gram counts as often as both lines have it.
    """
    n_lines = len(reference.lengths)
    chunks = [
        _count(*(text.lines(start, start + _LINES) for text in (reference, *others)), orders=orders)
        for start in range(0, n_lines, _LINES)
    ]
    return [np.concatenate(of_text) for of_text in zip(*chunks, strict=True)]


def _count(*texts: Symbols, orders: int) -> list[Ints]:
    """Count the matches of the first text with each of the others."""
    lengths, n_lines = np.concatenate([text.lengths for text in texts]), len(texts[0].lengths)
    numbers = np.concatenate([text.numbers for text in texts])
    rank = np.cumsum(np.bincount(numbers, minlength=1) > 0) - 1  # of the numbers that occur
    numbers, n_symbols = rank[numbers], int(rank[-1]) + 1
    line = np.repeat(np.tile(np.arange(n_lines), len(texts)), lengths)
    rest = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(numbers))  # symbols from each one to its line's end
    borders = np.cumsum([len(text.numbers) for text in texts])[:-1]
    n_grams, n_kinds = np.zeros(len(numbers) + 1, np.int64), 1  # n-grams by where they begin
    matches = np.zeros((len(texts) - 1, n_lines, orders), np.int64)
    for order in range(min(orders, len(numbers))):
        if n_kinds * n_symbols * n_lines > _LARGEST:
            kinds, n_grams = np.unique(n_grams, return_inverse=True)
            n_kinds = len(kinds)
        n_grams, n_kinds = n_grams[:-1] * n_symbols + numbers[order:], n_kinds * n_symbols
        n = len(n_grams)
        parts = zip(np.split(line[:n] * n_kinds + n_grams, borders), np.split(rest[:n] > order, borders), strict=True)
        (own, n_own), *others = (np.unique(keys[is_whole], return_counts=True) for keys, is_whole in parts)
        for number, (keys, n_there) in enumerate(others):
            if len(own):
                at = np.minimum(np.searchsorted(own, keys), len(own) - 1)
                both = own[at] == keys
                n_both = np.minimum(n_own[at], n_there)[both]
                matches[number, :, order] = np.bincount(keys[both] // n_kinds, n_both, n_lines)
    return [*matches]
