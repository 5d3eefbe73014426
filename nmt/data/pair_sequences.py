"""Pairs of lines as one sequence each: `source SEPARATOR target`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Rows, Side
from nmt.text.tokenizer import PAD, SEPARATOR

_Ids = npt.NDArray[np.int64]
_SEPARATOR = np.array([SEPARATOR])


def joined(src: _Ids, tgt: _Ids) -> _Ids:
    """Return a pair as one sequence."""
    return np.concatenate((src, _SEPARATOR, tgt))


def divided(sequence: _Ids) -> tuple[_Ids, _Ids]:
    """Return source and target of a sequence."""
    middle = int(np.argmax(sequence == SEPARATOR))
    return sequence[:middle], sequence[middle + 1 :]


class PairSequences:
    """A side whose lines are the pairs of two sides."""

    def __init__(self, src: Side, tgt: Side) -> None:
        self._src, self._tgt = src, tgt

    def __len__(self) -> int:
        return len(self._src)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each sequence, (P,)."""
        n_ids: npt.NDArray[np.int32] = self._src.n_ids() + self._tgt.n_ids() + 1
        return n_ids

    def gather(self, rows: Rows, last: int) -> _Ids:
        """Return sequences `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        src, tgt = self._src.gather(rows, SEPARATOR), self._tgt.gather(rows, last)
        ends = np.cumsum([(side != PAD).sum(1) for side in (src, tgt)], axis=0)[..., None]
        column = np.arange(int(ends[1].max(initial=0)))
        gathered = np.full((len(rows), len(column)), PAD, np.int64)
        gathered[column < ends[0]] = src[src != PAD]
        gathered[(column >= ends[0]) & (column < ends[1])] = tgt[tgt != PAD]
        return gathered
