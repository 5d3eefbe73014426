"""Denoising: spans of a line's pieces are masked, and the model restores the line (BART; Lewis et al., 2019,
arXiv:1910.13461), or one span, and it restores that (MASS; Song et al., 2019, arXiv:1905.02450).

The pairs have the same line on both sides; the source of each update is masked anew. What is masked is a function of
(seed, epoch, row of the line), so that a resumed run learns from the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nmt.config import TrainingConfig
from nmt.data.batching import Indices, Pairs, unpadded
from nmt.data.corpus import Lines
from nmt.data.masking import MASKED, REPLACED
from nmt.data.mixing import Segments
from nmt.data.random_numbers import hashed, key_of
from nmt.text.tokenizer import FIRST_LEARNED, MASK

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


def mask_one_span(ids: _Ids, share: float, n_pieces: int, rng: np.random.Generator) -> tuple[_Ids, int, int]:
    """Return ids (L,) with a span of them masked one by one, and where it starts and ends.

    share: of the ids, the length of the span, rounded up or down at random, and at least one; it starts anywhere. As in
    BERT, 80 % of its pieces become MASK, 10 % a random one of the vocabulary of `n_pieces`, and 10 % stay.
    """
    length = min(len(ids), max(1, int(share * len(ids) + rng.random())))
    start = int(rng.integers(len(ids) - length + 1))
    end = start + length
    kind, drawn = rng.random(length), rng.integers(FIRST_LEARNED, n_pieces, length)
    noised = ids.astype(np.int64)
    noised[start:end] = np.where(kind < MASKED, MASK, np.where(kind < MASKED + REPLACED, drawn, noised[start:end]))
    return noised, start, end


class Infilling:
    """Masks spans in the sources of updates; the targets are the whole lines."""

    def __init__(self, settings: TrainingConfig, seed: int) -> None:
        self._seed, self._share, self._span = seed, settings.masked_share, settings.mask_span

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) with masked sources; row i of the result is row `rows[i]`."""
        corpus_rows, lines = pairs.corpus_rows(rows), unpadded(pairs.batch(rows).tgt_out)
        generators = _generators(self._seed, epoch, corpus_rows)
        noised = [infill(ids, self._share, self._span, rng) for ids, rng in zip(lines, generators, strict=True)]
        return Pairs.of_sides(Lines.of(noised), Lines.of(lines), Segments.single(corpus_rows))


class OneSpan:
    """Masks a span in each source of updates; the loss is of its pieces."""

    def __init__(self, settings: TrainingConfig, n_pieces: int, seed: int) -> None:
        """`n_pieces`: of the vocabulary of both languages."""
        self._seed, self._share, self._n_pieces = seed, settings.masked_share, n_pieces

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) with masked sources; row i of the result is row `rows[i]`.

        The targets are the lines up to the end of the span: what follows is neither scored nor read for what is. Their
        pieces are at their places in the line, and those before the span are masked in the decoder's input.
        """
        corpus_rows, lines = pairs.corpus_rows(rows), unpadded(pairs.batch(rows).tgt_out)
        generators = _generators(self._seed, epoch, corpus_rows)
        spans = [
            mask_one_span(ids, self._share, self._n_pieces, rng) for ids, rng in zip(lines, generators, strict=True)
        ]
        noised, targets, scored = [], [], []
        for ids, (source, start, end) in zip(lines, spans, strict=True):
            noised.append(source)
            targets.append(ids[:end])
            places = np.arange(end + 1)  # the end of sentence counted
            scored.append((places >= start) & (places < end))
        return Pairs.of_sides(
            Lines.of(noised), Lines.of(targets), Segments.single(corpus_rows), scored, masks_inputs=True
        )


def _generators(seed: int, epoch: int, corpus_rows: Indices) -> Iterator[np.random.Generator]:
    """Yield the random numbers of each line."""
    return map(np.random.default_rng, hashed(key_of(seed, epoch, _STREAM), corpus_rows).tolist())
