"""N-grams that lines have in common, counted for many lines at once.

Shapes are written with L lines, N symbols of all lines of all texts, and O orders of n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    matches = np.zeros((len(others), n_lines, orders), np.int64)
    for start in range(0, n_lines, _LINES):
        part = slice(start, start + _LINES)
        texts = [text.lines(start, start + _LINES) for text in (reference, *others)]
        for order, (n_kinds, (own, *keys)) in enumerate(line_n_grams(texts, orders)):
            own, n_own = np.unique(own, return_counts=True)
            for number, of_text in enumerate(keys):
                n_both = count_common(own, n_own, of_text)
                matches[number, part, order] = np.bincount(own // n_kinds, n_both, len(texts[0].lengths))
    return [*matches]


def line_n_grams(texts: Sequence[Symbols], orders: int) -> Iterator[tuple[int, list[Ints]]]:
    """Yield for each order how many kinds of n-grams there may be, and the n-grams of each text in their order.

    An n-gram is the number of its kind, and that of its line times the number of kinds.
    """
    lengths, n_lines = np.concatenate([text.lengths for text in texts]), len(texts[0].lengths)
    numbers = np.concatenate([text.numbers for text in texts])
    rank = np.cumsum(np.bincount(numbers, minlength=1) > 0) - 1  # of the numbers that occur
    numbers, n_symbols = rank[numbers], int(rank[-1]) + 1
    line = np.repeat(np.tile(np.arange(n_lines), len(texts)), lengths)
    rest = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(numbers))  # symbols from each one to its line's end
    borders = np.cumsum([len(text.numbers) for text in texts])[:-1]
    kinds, n_kinds = np.zeros(len(numbers) + 1, np.int64), 1  # by where an n-gram begins
    for order in range(min(orders, len(numbers))):
        if n_kinds * n_symbols * n_lines > _LARGEST:
            distinct, kinds = np.unique(kinds, return_inverse=True)
            n_kinds = len(distinct)
        kinds, n_kinds = kinds[:-1] * n_symbols + numbers[order:], n_kinds * n_symbols
        keys = np.split(line[: len(kinds)] * n_kinds + kinds, borders)
        whole = np.split(rest[: len(kinds)] > order, borders)
        yield n_kinds, [of_text[is_whole] for of_text, is_whole in zip(keys, whole, strict=True)]


def count_common(own: Ints, n_own: Ints, others: Ints) -> Ints:
    """Return how often each n-gram is in both texts, where the first has those of `own`, sorted, `n_own` times."""
    if not len(others):
        return np.zeros(len(own), np.int64)
    others, n_others = np.unique(others, return_counts=True)
    at = np.minimum(np.searchsorted(others, own), len(others) - 1)
    return np.where(others[at] == own, np.minimum(n_own, n_others[at]), 0)
