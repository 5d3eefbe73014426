"""Ids of pieces: the special ones, which all vocabularies have, and arrays of ids.

Ids 0-3 are padding, unknown, `<s>` and `</s>`; 4-6 mark terms in a source (`nmt.text.constraints`); 7 stands for masked
pieces (`nmt.training.objectives.masked`); 8 separates two lines of one sequence; 9-19 are reserved for later uses.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

PAD = 0
UNK = 1
BOS = 2
EOS = 3
FIRST_RESERVED = 4
N_RESERVED = 16
N_SPECIAL = FIRST_RESERVED + N_RESERVED
MASK = 7
SEPARATOR = 8

Ids: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
"""Ids in the smallest type that holds every id of the vocabulary, see `id_dtype`."""
Numbers: TypeAlias = npt.NDArray[np.int64]


def id_dtype(n_pieces: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest type that can represent every id of a vocabulary of `n_pieces`."""
    return np.uint16 if n_pieces <= 2**16 else np.uint32


def ranges(starts: Numbers | int, lengths: Numbers) -> Numbers:
    """Return the concatenated ranges of the given lengths, each from its start, or all from the same start."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
