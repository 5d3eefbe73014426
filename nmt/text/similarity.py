"""Similar texts: an index that finds the text with the smallest edit distance in words.

The similarity of two texts of m and n words is 1 - distance / max(m, n), where distance is the number of words to
insert, delete or replace. Texts with at least a given similarity t share so many words that one of the rarest
m - t * m + 1 words of each is common to both (prefix filtering; Chaudhuri et al., 2006), so only these are indexed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from nmt.errors import ConfigError
from nmt.text.ids import ranges
from nmt.text.words import words as words_of

MOST_TEXTS = 4096
"""Words that are among the rarest words of more texts than this lead to no text: they are in too many."""
MOST_COMPARED = 32
"""Maximum number of texts, those with the most common words, whose distance is computed."""
_ROUNDING = 1e-9
_UNKNOWN = -1

_BLOCK = 1 << 16  # texts

_Integers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.int32]


class SimilarTexts:
    """An index of texts by their words. A text of ten words takes about 200 bytes."""

    def __init__(self, texts: Iterable[str], threshold: float) -> None:
        """Index texts, to find those with a similarity of at least `threshold`, above 0 and at most 1.

        Raises ConfigError if rapidfuzz is not installed.
        """
        try:
            from rapidfuzz.distance.Levenshtein import distance
        except ImportError:
            raise ConfigError(
                "similar lines need rapidfuzz; install it with pip install rapidfuzz, or with nmt-train[memory]"
            ) from None
        self._distance = distance
        self.threshold = threshold
        self._ids: dict[str, int] = {}
        words = array("i")
        ends = array("q", [0])
        for text in texts:
            words.extend(self._ids.setdefault(word, len(self._ids)) for word in words_of(text))
            ends.append(len(words))
        self._words = np.array(words)
        self._ends = np.array(ends)
        self._frequency = np.bincount(self._words, minlength=len(self._ids))
        self._lengths = np.diff(self._ends)
        self._n_needed = self._n_common(self._lengths)
        blocks = [self._rarest(start) for start in range(0, max(len(self._lengths), 1), _BLOCK)]
        rare, rows = map(np.concatenate, zip(*blocks, strict=True))
        by_word = np.argsort(rare, kind="stable")
        self._rows = rows[by_word]
        self._starts = np.searchsorted(rare[by_word], np.arange(len(self._ids) + 1))

    def _rarest(self, start: int) -> tuple[_Words, _Words]:
        """Return the rarest words of the texts of a block, and the row of the text of each."""
        ends = self._ends[start : start + _BLOCK + 1]
        words = self._words[ends[0] : ends[-1]]
        lengths = np.diff(ends)
        rows = np.repeat(np.arange(start, start + len(lengths), dtype=np.int32), lengths)
        order = np.lexsort((words, self._frequency[words], rows))  # the rarest words of each text first
        places = ranges(0, lengths)  # within the text
        is_rare = places < np.repeat(self._n_rare(lengths), lengths)
        return words[order][is_rare], rows[is_rare]

    def _n_common(self, lengths: _Integers) -> _Integers:
        """Return how many words a text of these lengths has at least in common with a similar text."""
        n_common: _Integers = np.ceil(lengths * self.threshold - _ROUNDING).astype(np.int64)
        return n_common

    def _n_rare(self, lengths: _Integers) -> _Integers:
        return lengths - self._n_common(lengths) + 1

    def find(self, text: str, or_equal: bool = True) -> int | None:
        """Return the row of the most similar text; None if no text is similar enough; or_equal: see `nearest`."""
        return next(iter(self.nearest(text, 1, or_equal)), None)

    def nearest(self, text: str, n: int, or_equal: bool = True) -> list[int]:
        """Return the rows of up to `n` texts that are similar enough, the most similar first.

        or_equal: whether texts with the same words count.
        """
        words = [self._ids.get(word, _UNKNOWN) for word in words_of(text)]
        rows = self._candidates(words)
        starts = self._ends[rows]
        lengths = self._lengths[rows]
        is_known = np.zeros(len(self._ids), np.bool_)
        is_known[[word for word in words if word != _UNKNOWN]] = True
        longest = np.maximum(lengths, len(words))
        before = np.cumsum(lengths) - lengths
        are_known = is_known[self._words[ranges(starts, lengths)]]
        n_common = np.add.reduceat(are_known, before, dtype=np.int64) if len(rows) else lengths
        bounds = n_common / np.maximum(longest, 1)
        nearest: list[tuple[float, int]] = []
        least = self.threshold - _ROUNDING
        for i in np.argsort(-bounds, kind="stable")[:MOST_COMPARED].tolist():
            if bounds[i] <= least:
                break
            distance = self._distance(words, self._words[starts[i] : starts[i] + lengths[i]].tolist())
            similarity = 1 - distance / int(longest[i])
            if similarity > least and (or_equal or distance):
                nearest = sorted([*nearest, (-similarity, int(rows[i]))], key=itemgetter(0))[:n]
                if len(nearest) == n:
                    least = -nearest[-1][0]
        return [row for _, row in nearest]

    def _candidates(self, words: Sequence[int]) -> _Integers:
        """Return the rows of texts of a suitable length which share one of the rarest words."""
        n = np.array([len(words)])
        by_rarity = sorted(words, key=lambda word: (0 if word == _UNKNOWN else self._frequency[word], word))
        rarest = {word for word in by_rarity[: int(self._n_rare(n)[0])] if word != _UNKNOWN}
        rows_of_words = [np.zeros(0, np.int64)]
        for word in sorted(rarest):
            start = self._starts[word]
            stop = self._starts[word + 1]
            if stop - start <= MOST_TEXTS:
                rows_of_words.append(self._rows[start:stop])
        rows = np.concatenate(rows_of_words)
        return np.unique(rows[(self._lengths[rows] >= self._n_common(n)) & (self._n_needed[rows] <= n)])
