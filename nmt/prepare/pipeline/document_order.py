"""The order of the pairs of a corpus in their documents; see `data.documents`.

Pairs follow each other if they have consecutive line numbers in one document: a pair that was dropped between them,
such as a blank line, separates them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.prepare.pipeline.work import Rows

BLOCK = 64
"""Longer documents are divided into blocks of this many pairs, which are held out and shuffled as documents are."""


def follows(lines: Rows, documents: Rows) -> npt.NDArray[np.bool_]:
    """Return whether each pair (N,) follows the one before it, given line numbers and numbers of documents (N,)."""
    found = np.zeros(len(lines), np.bool_)
    found[1:] = (np.diff(lines) == 1) & (np.diff(documents) == 0)
    return found


def block_starts(follows: npt.NDArray[np.bool_]) -> Rows:
    """Return the index of the first pair of the block of each pair (N,)."""
    index = np.arange(len(follows))
    first: Rows = np.maximum.accumulate(np.where(follows, 0, index))
    return first + (index - first) // BLOCK * BLOCK
