"""Minimum Bayes risk decoding: choose the translation of a sentence that is most similar to all its candidates.

The expected utility of a candidate is its mean sentence-level chrF against every candidate as the reference (Eikema and
Aziz, 2022, arXiv:2108.04718). Scores equal sacrebleu's `sentence_score`, computed for all pairs at once from n-grams
that are counted only once.

Legend: N distinct candidates, C characters of all candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF

from nmt.evaluate.metrics import chrf

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_COUNTS = 2**20
"""Maximum number of counts (texts x n-grams) in memory at once."""


def least_risk(candidates: Sequence[str]) -> int:
    """Return the index of the candidate with the highest expected utility, the first one on ties.

    A candidate is a reference as often as it occurs, and also for itself, since the candidates are a sample of the
    model's distribution. (This adds the same utility to all candidates but a blank one, which is never preferred.)
    """
    different = list(dict.fromkeys(candidates))
    row = {candidate: i for i, candidate in enumerate(different)}
    rows = [row[candidate] for candidate in candidates]
    utility = pairwise(different) @ np.bincount(rows)  # (N,)
    # ignore rounding differences
    best = int(np.flatnonzero(utility >= utility.max() - 1e-9 * len(rows))[0])
    return rows.index(best)


def pairwise(candidates: Sequence[str]) -> Floats:
    """Return the chrF scores (N, N), 0-100, of each candidate (row) with each candidate as the reference (column)."""
    texts = ["".join(text.split()) for text in candidates]
    totals, in_common = (np.stack(counts, -1) for counts in zip(*_ngrams(texts), strict=True))
    return chrf(totals[:, None], totals, in_common)


def _ngrams(texts: Sequence[str]) -> Iterator[tuple[Ints, Floats]]:
    """Yield for each n-gram order the number of n-grams of each text (N,), and of each pair in common (N, N)."""
    lengths = np.array([len(text) for text in texts])
    symbols = _numbered(np.array([ord(letter) for letter in "".join(texts)], np.int64))
    owner = np.repeat(np.arange(len(texts)), lengths)  # (C,) index of the text of each symbol
    starts = np.arange(len(symbols))
    left = np.repeat(lengths.cumsum(), lengths) - starts  # (C,) symbols to the end of the text
    ngrams = np.zeros_like(symbols)
    for order in range(1, CHRF.CHAR_ORDER + 1):
        longer = left[starts] >= order
        starts = starts[longer]
        ngrams = _numbered(ngrams[longer] * len(symbols) + symbols[starts + order - 1])
        yield np.maximum(lengths - order + 1, 0), _common(owner[starts], ngrams, len(texts))


def _numbered(values: Ints) -> Ints:
    """Replace the distinct values by consecutive numbers from 0."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _common(owner: Ints, ngrams: Ints, n_texts: int) -> Floats:
    """Count the n-grams that each pair of texts has in common (N, N), with repetitions."""
    common = np.zeros((n_texts, n_texts))
    n_ngrams = int(ngrams.max(initial=-1)) + 1
    width = max(min(MAX_COUNTS // n_texts, n_ngrams), 1)
    for first in range(0, n_ngrams, width):
        some = (first <= ngrams) & (ngrams < first + width)
        counts = np.bincount(owner[some] * width + ngrams[some] - first, minlength=n_texts * width)
        counts = counts.reshape(n_texts, width)
        # min(a, b) is the number of times t = 1, 2, ... for which both a >= t and b >= t
        for times in range(1, int(counts.max()) + 1):
            counts = counts[:, (counts >= times).any(0)]
            has = (counts >= times).astype(np.float32)
            common += has @ has.T
    return common
