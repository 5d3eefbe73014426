"""Minimum Bayes risk decoding: of several translations of a sentence, the one most similar to all of them.

The expected utility of a candidate is its mean sentence-level chrF or BLEU against every candidate as the reference
(Eikema and Aziz, 2022, arXiv:2108.04718). Values equal sacrebleu's `sentence_score`, computed for all pairs at once
from n-grams that are counted once.

Legend: N distinct candidates, C symbols of all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER
from sacrebleu.metrics.chrf import CHRF

from nmt.evaluate.metrics import default_tokenizer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_COUNTS = 2**20
"""Maximum number of counts, texts x n-grams, in memory at once."""


def choose(
    candidates: Sequence[str],
    metric: Literal["chrf", "bleu"],
    tgt_lang: str | None = None,
) -> int:
    """Return the index of the candidate of highest expected utility, the first one on ties. There is at least one.

    A candidate is a reference as often as it occurs, and for itself, too, since the expectation is over the model's
    distribution, of which it is a sample. (That adds the same to each, except to a blank one, which is never chosen
    before others.) tgt_lang: the target language, which determines BLEU's tokenizer.
    """
    different = list(dict.fromkeys(candidates))
    row = {candidate: i for i, candidate in enumerate(different)}
    rows = [row[candidate] for candidate in candidates]
    utility = pairwise(different, metric, tgt_lang) @ np.bincount(rows)  # (N,)
    # ignore differences by rounding
    best = int(np.flatnonzero(utility >= utility.max() - 1e-9 * len(rows))[0])
    return rows.index(best)


def pairwise(candidates: Sequence[str], metric: Literal["chrf", "bleu"], tgt_lang: str | None = None) -> Floats:
    """Return the score (N, N), 0-100, of each candidate (row) against each as the reference (column)."""
    match metric:
        case "chrf":
            return _chrf([[ord(letter) for letter in "".join(text.split())] for text in candidates])
        case "bleu":
            tokenize = _tokenizer(tgt_lang)
            ids: dict[str, int] = {}
            return _bleu([[ids.setdefault(t, len(ids)) for t in tokenize(text).split()] for text in candidates])


@cache
def _tokenizer(tgt_lang: str | None) -> Callable[[str], str]:
    """Return BLEU's tokenizer, from a text to tokens separated by spaces."""
    scorer = BLEU(tokenize=default_tokenizer(tgt_lang))
    return lambda text: scorer.tokenizer(text.rstrip())


def _chrf(texts: Sequence[Sequence[int]]) -> Floats:
    """See `pairwise`, for texts of letters without spaces: an F-score of mean precision and recall (Popović, 2015)."""
    precision, recall, orders = np.zeros((3, len(texts), len(texts)))
    for total, common in _ngrams(texts, CHRF.CHAR_ORDER):
        n_hyp, n_ref = total[:, None], total
        both = (n_hyp > 0) & (n_ref > 0)
        precision += common / np.maximum(n_hyp, 1)
        recall += common / np.maximum(n_ref, 1)
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    factor = CHRF.BETA**2
    weighted = factor * precision + recall
    return 100 * (1 + factor) * precision * recall / np.where(weighted > 0, weighted, 1)


def _bleu(texts: Sequence[Sequence[int]]) -> Floats:
    """See `pairwise`, for texts of tokens. As sacrebleu recommends for sentences, only orders for which the candidate
    has n-grams count (effective order), and orders without a match count 1/2, 1/4, … match (exponential smoothing)."""
    log_precision, orders = np.zeros((2, len(texts), len(texts)))
    smooth = np.ones_like(orders)
    matched = np.zeros_like(orders, dtype=bool)
    for total, common in _ngrams(texts, MAX_NGRAM_ORDER):
        n_hyp = total[:, None]
        matched |= common > 0
        smooth = np.where(common > 0, smooth, smooth / 2)
        precision = np.where(common > 0, common, smooth) / np.maximum(n_hyp, 1)
        log_precision += np.where(n_hyp > 0, np.log(precision), 0)
        orders += n_hyp > 0
    length = np.array([len(text) for text in texts])
    log_brevity = np.minimum(1 - length / np.maximum(length[:, None], 1), 0)
    return np.where(matched, 100 * np.exp(log_brevity + log_precision / np.maximum(orders, 1)), 0)


def _ngrams(texts: Sequence[Sequence[int]], max_order: int) -> Iterator[tuple[Ints, Floats]]:
    """Yield for each order the number of n-grams of each text (N,), and of those common to two texts (N, N)."""
    lengths = np.array([len(text) for text in texts])
    symbols = np.concatenate([np.asarray(text, dtype=np.int64) for text in texts])
    owner = np.repeat(np.arange(len(texts)), lengths)  # (C,) the text of each symbol
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(symbols))  # (C,) symbols of the text from this one on
    symbols = _numbered(symbols)
    starts, ngrams = np.arange(len(symbols)), np.zeros_like(symbols)
    for order in range(1, max_order + 1):
        longer = left[starts] >= order
        starts = starts[longer]
        ngrams = _numbered(ngrams[longer] * len(symbols) + symbols[starts + order - 1])
        yield np.maximum(lengths - order + 1, 0), _common(owner[starts], ngrams, len(texts))


def _numbered(values: Ints) -> Ints:
    """Replace values by consecutive numbers from 0, equal values by equal numbers."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _common(owner: Ints, ngrams: Ints, n_texts: int) -> Floats:
    """Count the n-grams (N, N) that each two texts have in common; one that occurs twice in both counts twice."""
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
