"""Pairs joined with the pairs that follow them in their document; see `training.modifiers.join`.

A separator is between the lines on both sides. A model that learns such pairs translates lines of several sentences,
and sentences with the ones before them as context (Tiedemann and Scherrer, 2017, aclanthology.org/W17-4811).
"""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt

from nmt.config import DataConfig
from nmt.data.corpus import Corpus, lines_of
from nmt.data.pair_sequences import joined

MOST = 3
"""Maximum number of pairs that are joined to one."""

_Ids = npt.NDArray[np.int64]


class FollowingPairs:
    """The training pairs of a corpus that follow others in their documents."""

    def __init__(self, corpus: Corpus, data: DataConfig) -> None:
        """Raises DataError if the data directory has no order of documents, or if it is damaged."""
        splits = corpus.train_splits
        self._ends = np.cumsum([split.n for split in splits])
        self._follows = [corpus.follows(split) for split in splits]
        self._sides = [[lines_of(split, language) for language in data.sides] for split in splits]
        self._max_pieces = data.max_pieces

    def after(self, src: _Ids, tgt: _Ids, row: int, rng: Random) -> tuple[_Ids, _Ids]:
        """Return pair `row`, given by its ids, joined with up to `MOST` following ones.

        Their number is drawn. There are fewer where the document ends or a side would exceed `data.max_pieces`.
        """
        number = int(np.searchsorted(self._ends, row, side="right"))
        follows = self._follows[number]
        first = row + 1 - (int(self._ends[number]) - len(follows))
        for place in range(first, min(first + rng.randint(1, MOST), len(follows))):
            at = np.array([place])
            more = [lines.between(at, at + 1).astype(np.int64) for lines in self._sides[number]]
            both = joined(src, more[0]), joined(tgt, more[1])
            if not follows[place] or max(map(len, both)) > self._max_pieces:
                break
            src, tgt = both
        return src, tgt
