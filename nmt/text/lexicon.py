"""Learning of which words translate each other, from pairs of sentences, by IBM model 1 (Brown et al., 1993).

In model 1 (aclanthology.org/J93-2003), each word of a sentence translates one word of the other sentence. Any two words
of a pair of sentences are a link.

Legend: W words of one side of all pairs, L links, K different links.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.text.blocks import ranges
from nmt.text.tokenizer import Numbers

Floats = npt.NDArray[np.float64]


def links(lengths: Numbers, other_lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Return the words of all links, (L,) on each side, ordered by the words of the first side.

    Words are numbered across sentences, whose numbers of words are given.
    """
    n_links = np.repeat(other_lengths, lengths)  # (W,) of each word of the first side
    starts = np.repeat(np.cumsum(other_lengths) - other_lengths, lengths)
    return np.repeat(np.arange(len(n_links)), n_links), ranges(starts, n_links)


def expected_counts(kinds: Numbers, words: Numbers, sources: Numbers, n_iterations: int) -> tuple[Floats, Floats]:
    """Return how often model 1 expects each different link to be a translation, and any link of its source, both (K,).

    The quotient is the probability of the target word given the source word.

    Args:
        kinds: which of the different links each link is, (L,).
        words: the target word of each link, (L,).
        sources: the source of each different link, (K,).
        n_iterations: the number of iterations of expectation maximization, at least one.
    """
    probabilities: Floats = np.ones(len(sources))
    for _ in range(n_iterations):
        shares = probabilities[kinds]
        shares /= np.bincount(words, shares)[words]
        counts = np.bincount(kinds, shares).astype(np.float64, copy=False)
        totals = np.bincount(sources, counts).astype(np.float64, copy=False)[sources]
        probabilities = counts / totals
    return counts, totals
