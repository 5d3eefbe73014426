"""Masking of pieces of a line, for masked language modelling and denoising.

* masked: some pieces of a line are masked, and the model predicts them from all other pieces (BERT; Devlin et al.,
  2019, arXiv:1810.04805). With `training.masked.pair_task` a line is a pair, `source SEPARATOR target` (translation
  language modelling; Conneau and Lample, 2019, arXiv:1901.07291), which may be wrong. Of the pieces that are chosen in
  a line, 80 % become MASK, 10 % a random learned piece, and 10 % stay.
* denoising: spans of a line's pieces are masked, and the model restores the line (BART; Lewis et al., 2019,
  arXiv:1910.13461). The pairs have the same line on both sides; the source is masked anew in each update.

The masks are a function of (seed, epoch, row of the line), so that a resumed run learns from the same examples.

Legend: N lines of an update, L pieces of all lines.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.config.objectives import DenoisingConfig, MaskedConfig
from nmt.data.batching import Indices, Pairs, unpadded
from nmt.data.pair_sequences import PairExamples
from nmt.data.random_numbers import Hashes, fractions, hashed, key_of
from nmt.text.blocks import ranges
from nmt.text.tokenizer import MASK, N_SPECIAL, Tokenizer

MASKED, REPLACED = 0.8, 0.1
"""Shares of the chosen pieces that become MASK and a random piece."""

_MASKING_STREAM = 4  # BPE-dropout draws from 0 and 1, modifiers from 2, denoising from 3

_Ids = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class Masking:
    """Masking of the lines, or of the pairs, of an update."""

    def __init__(self, settings: MaskedConfig, tokenizer: Tokenizer, max_pieces: int, seed: int) -> None:
        """`tokenizer`: the tokenizer of both languages; `max_pieces`: the maximum number of pieces of each side of a
        wrong pair."""
        self._share, self._seed = settings.mask_share, seed
        self._first_learned, self._n_learned = tokenizer.first_learned, tokenizer.n_pieces - tokenizer.first_learned
        self._examples = PairExamples(settings.pair_task, tokenizer, max_pieces) if settings.pair_task else None

    def masked(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the lines `rows` (N,) with masks; row i of the result is row `rows[i]`.

        The target is the same line without masks, of which the chosen pieces are scored. With the pair task, lines are
        `PairSequences` and get labels: 1 for a translation, 0 for a wrong pair, which is made from other pairs of
        `rows`.
        """
        corpus_rows = pairs.corpus_rows(rows)
        keys = hashed(key_of(self._seed, epoch, _MASKING_STREAM), corpus_rows)
        lines, labels = unpadded(pairs.batch(rows).tgt_out), None
        if self._examples is not None:
            lines, labels = self._examples.made(lines, _numbered(keys, 0))
        ids, ends = np.concatenate(lines), np.cumsum([len(line) for line in lines])
        masked, is_chosen = self._masked(ids, ends, keys)
        scored = np.split(np.insert(is_chosen, ends, values=False), ends[:-1] + np.arange(1, len(ends)))
        return Pairs.changed(np.split(masked, ends[:-1]), lines, corpus_rows, scored, labels)

    def _masked(self, ids: _Ids, ends: _Ids, keys: Hashes) -> tuple[_Ids, _Bools]:
        """Return masked ids (L,), and a mask of the chosen pieces; `ends`, `keys` (N,): the end and the key of each
        line."""
        lengths = np.diff(ends, prepend=0)
        line, position = np.repeat(np.arange(len(ends)), lengths), ranges(0, lengths)
        is_chosen = self._chosen(line, position, ids >= N_SPECIAL, keys)
        places = np.flatnonzero(is_chosen)
        numbers = hashed(_numbered(keys, 1)[line[places]], position[places])
        kind = fractions(numbers)
        drawn = self._first_learned + (_numbered(numbers, 0) % self._n_learned).astype(np.int64)
        masked = ids.copy()
        masked[places] = np.where(kind < MASKED, MASK, np.where(kind < MASKED + REPLACED, drawn, ids[places]))
        return masked, is_chosen

    def _chosen(self, line: Indices, position: Indices, is_text: _Bools, keys: Hashes) -> _Bools:
        """Return a mask (L,) of the chosen pieces: the given share of the text of each line, but at least one piece.

        `line`, `position`, `is_text` (L,): for each piece its line, its position there, and whether it is text.
        """
        order = np.lexsort((hashed(_numbered(keys, 2)[line], position), ~is_text, line))
        n_all, n_text = (np.bincount(line, counted, len(keys)) for counted in (None, is_text))
        n_chosen = np.floor(self._share * n_text + fractions(_numbered(keys, 3)))
        n_chosen = np.minimum(np.maximum(n_chosen, 1), n_text)
        rank = ranges(0, n_all)  # lines stay together in the order
        is_chosen = np.empty(len(line), np.bool_)
        is_chosen[order] = rank < n_chosen[line]
        return is_chosen


def _numbered(keys: Hashes, number: int) -> Hashes:
    """Return random number `number` of each key."""
    return hashed(keys, np.array([number]))


_DENOISING_STREAM = 3  # BPE-dropout draws from 0 and 1, modifiers from 2


def infill(ids: _Ids, share: float, span: float, rng: np.random.Generator) -> _Ids:
    """Return ids (L,) in which each of some spans is replaced by one MASK (text infilling).

    `share`: the average share of the ids that are masked; `span`: the mean length of a span, which is drawn from a
    Poisson distribution. A span of length 0 inserts a MASK.
    """
    n_masked = min(len(ids), int(share * len(ids) + rng.random()))
    lengths: list[int] = []
    while (left := n_masked - sum(lengths)) > 0:
        lengths.append(min(int(rng.poisson(span)), left))
    while len(lengths) > n_masked:  # spans of length 0 must not make the line longer
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


def infilled(settings: DenoisingConfig, seed: int, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
    """Return the pairs `rows` (N,) with spans of the sources masked; row i of the result is row `rows[i]`."""
    corpus_rows, lines = pairs.corpus_rows(rows), unpadded(pairs.batch(rows).tgt_out)
    seeds = hashed(key_of(seed, epoch, _DENOISING_STREAM), corpus_rows).tolist()
    noised = [
        infill(ids, settings.mask_share, settings.mask_span, np.random.default_rng(own))
        for ids, own in zip(lines, seeds, strict=True)
    ]
    return Pairs.changed(noised, lines, corpus_rows)
