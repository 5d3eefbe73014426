"""Decoder-only translation: source, separator and target are one sequence, of which the target is learned
(Raffel et al., 2020, section 3.2: a prefix language model).
"""

from __future__ import annotations

import numpy as np

from nmt.data.batching import Indices, Pairs, unpadded
from nmt.data.corpus import Lines
from nmt.data.pair_sequences import joined
from nmt.data.streams import Segments


class OneSequence:
    """Puts the source of each pair before its target."""

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:  # noqa: ARG002 (the protocol's)
        """Return the pairs `rows` (N,) with targets `source SEPARATOR target`; row i of the result is row `rows[i]`.

        The loss is of what follows the separator, the end of sentence counted. The sources stay: their lengths say how
        long the prefixes are.
        """
        batch = pairs.batch(rows)
        sources, targets = unpadded(batch.src), unpadded(batch.tgt_out)
        both = list(zip(sources, targets, strict=True))
        sequences = [joined(src, tgt) for src, tgt in both]
        scored = [np.arange(len(src) + len(tgt) + 2) > len(src) for src, tgt in both]
        corpus_rows = pairs.corpus_rows(rows)
        return Pairs.of_sides(Lines.of(sources), Lines.of(sequences), Segments.single(corpus_rows), scored)
