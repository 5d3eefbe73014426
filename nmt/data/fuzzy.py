"""Translations of similar training pairs beside the sources of a split; see `training.modifiers.fuzzy`.

`nmt prepare` stores for each line the row of the most similar other line of the training text, or -1. A model learns to
use the translation of that line, which follows the source after a separator (neural fuzzy repair; Bulté and Tezcan,
2019, aclanthology.org/P19-1175).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.config import Config
from nmt.data.batching import Pairs, unpadded
from nmt.data.corpus import Corpus, Integers, Lines, lines_of
from nmt.data.pair_sequences import joined
from nmt.errors import DataError

_Ids = npt.NDArray[np.int64]


class FuzzyMatches:
    """The translations of the similar training pairs of each line of a split."""

    def __init__(self, rows: Integers, targets: Lines, max_pieces: int) -> None:
        """`rows` (P,): the row of each match in `targets`, or -1; `max_pieces`: the maximum length with a match."""
        self._rows, self._targets, self._max_pieces = rows, targets, max_pieces

    @classmethod
    def of(cls, corpus: Corpus, config: Config, split: str = "train") -> FuzzyMatches:
        """Read the matches of a split of a data directory. Raises DataError if it has none, or if they are damaged."""
        data, directory = config.data, corpus.directory
        if directory.matches(split, data.src).name not in corpus.manifest.files:
            raise DataError(
                f"{directory.path}: has no similar lines for training.modifiers.fuzzy; set data.fuzzy_threshold and "
                "run nmt prepare again"
            )
        corpus.verify(split, ("matches",))
        targets = lines_of(corpus.in_one_file("train"), data.tgt)
        return cls(corpus.split(split).matches(data.src), targets, data.max_pieces)

    def target(self, row: int) -> _Ids | None:
        """Return the ids of the translation for line `row`; None if it has no match."""
        match = np.array([self._rows[row]], np.int64)
        return self._targets.between(match, match + 1).astype(np.int64) if match[0] >= 0 else None

    def beside(self, source: _Ids, row: int) -> _Ids:
        """Return the source of line `row` with its match; without it if there is none or both are too long."""
        target = self.target(row)
        return source if target is None or len(source) + len(target) >= self._max_pieces else joined(source, target)

    def with_sources(self, pairs: Pairs) -> Pairs:
        """Return the pairs of the whole split with the matches beside their sources."""
        rows = np.arange(len(pairs))
        batch = pairs.batch(rows)
        sources = [self.beside(source, row) for row, source in enumerate(unpadded(batch.src))]
        return Pairs.changed(sources, unpadded(batch.tgt_out), rows)
