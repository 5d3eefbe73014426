"""Indices of items of different lengths, such as lines of tokens, that are stored one after another in an array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def ranges(starts: Ints | int, lengths: Ints) -> Ints:
    """Return the concatenated ranges of the given lengths, each from its start, or all from the same start."""
    before = np.cumsum(lengths) - lengths
    indices: Ints = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return indices
