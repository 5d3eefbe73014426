"""Denoising: spans of a line's pieces are masked, and the model restores the line (BART; Lewis et al., 2019,
arXiv:1910.13461).

The pairs have the same line on both sides; the source of each update is masked anew. What is masked is a function of
(seed, epoch, row of the line), so that a resumed run learns from the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.config import TrainingConfig
from nmt.data.batching import Indices, Pairs, unpadded
from nmt.data.corpus import Lines
from nmt.data.random_numbers import hashed, key_of
from nmt.data.streams import Segments
from nmt.text.tokenizer import MASK

_STREAM = 3  # BPE-dropout draws from 0 and 1, modifiers from 2

_Ids = npt.NDArray[np.int64]


def infill(ids: _Ids, share: float, span: float, rng: np.random.Generator) -> _Ids:
    """Return ids (L,) with spans of them replaced by one MASK each: text infilling.

    share: of the ids, the part that is masked, on average; span: mean length of a span, drawn from a Poisson
    distribution. A span of length 0 inserts a MASK.
    """
    n_masked = min(len(ids), int(share * len(ids) + rng.random()))
    lengths: list[int] = []
    while (left := n_masked - sum(lengths)) > 0:
        lengths.append(min(int(rng.poisson(span)), left))
    while len(lengths) > n_masked:  # so many are of length 0; no line becomes longer
        lengths.remove(0)
    is_span = rng.permutation(np.arange(len(lengths) + len(ids) - n_masked) < len(lengths))
    noised, place, spans = np.full(len(is_span), MASK, np.int64), 0, iter(lengths)
    for i, masks in enumerate(is_span.tolist()):
        if masks:
            place += next(spans)
        else:
            noised[i] = ids[place]
            place += 1
    return noised


class Noise:
    """Masks the sources of updates."""

    def __init__(self, settings: TrainingConfig, seed: int) -> None:
        self._seed, self._share, self._span = seed, settings.masked_share, settings.mask_span

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) with masked sources; row i of the result is row `rows[i]`."""
        corpus_rows = pairs.corpus_rows(rows)
        key = key_of(self._seed, epoch, _STREAM)
        lines = unpadded(pairs.batch(rows).tgt_out)
        seeds = hashed(key, corpus_rows).tolist()
        noised = [
            infill(ids, self._share, self._span, np.random.default_rng(seed))
            for ids, seed in zip(lines, seeds, strict=True)
        ]
        return Pairs.of_sides(Lines.of(noised), Lines.of(lines), Segments.single(corpus_rows))
