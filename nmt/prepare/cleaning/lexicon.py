"""A lexicon of which words translate each other, learned from parallel text by IBM model 1 (Brown et al., 1993)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.prepare.cleaning.words import ID_BITS, Floats, Longs, Tokens, Vocabulary

Keys = npt.NDArray[np.uint32]
Singles = npt.NDArray[np.float32]

_CHUNK_CELLS = 2**20
_LEARN_CELLS = 10 * 2**20  # more need more memory than they are worth
_LEARN_WORDS = 12  # the rarest words of a sentence stand for all: frequent ones go with everything, and cost the most
_ITERATIONS = 4
_NO_COUNTERPART = 0.3
_MIN_PROBABILITY = 0.01
_MAX_ENTRIES = 2**19
_SLOT_BITS = 22
_MULTIPLIER = np.uint32(2654435769)  # odd: multiplication only reorders the keys
_SHIFT, _LOW = np.uint32(ID_BITS), np.uint32(2**ID_BITS - 1)


@dataclass(frozen=True)
class Cells:
    """Each word of a sentence with each of its translation, for several pairs of sentences."""

    keys: Keys
    """Number of the source word in the upper bits, that of the target word in the lower."""
    rows: Longs
    """Index of the source word among all of them."""
    columns: Longs
    """Index of the target word among all of them."""

    @classmethod
    def of(cls, src: Tokens, tgt: Tokens) -> Cells:
        """Return the cells of these sentences."""
        widths = np.repeat(tgt.lengths, src.lengths)
        starts = np.cumsum(widths) - widths
        rows = np.repeat(np.arange(len(src.ids)), widths)
        columns = np.arange(len(rows)) + np.repeat(np.repeat(tgt.starts, src.lengths) - starts, widths)
        return cls((src.ids.astype(np.uint32) << _SHIFT)[rows] | tgt.ids.astype(np.uint32)[columns], rows, columns)


def chunks(src: Tokens, tgt: Tokens) -> Iterator[tuple[Tokens, Tokens, Cells]]:
    """Yield the pairs of sentences by some thousands, so that their cells need little memory."""
    done = np.cumsum(src.lengths * tgt.lengths)
    first = 0
    while first < len(done):
        before = int(done[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(done, before + _CHUNK_CELLS, side="right")))
        src_part, tgt_part = src.part(first, last), tgt.part(first, last)
        yield src_part, tgt_part, Cells.of(src_part, tgt_part)
        first = last


@dataclass(frozen=True)
class Entries:
    """Pairs of words that translate each other."""

    keys: Keys
    forward: Singles
    """Probability of the target word, given the source word."""
    backward: Singles
    """Probability of the source word, given the target word."""

    @classmethod
    def learn(cls, src: Tokens, tgt: Tokens, src_words: Vocabulary, tgt_words: Vocabulary) -> Entries:
        """Learn the entries from sentences and their translations."""
        src, tgt = src.rarest(_LEARN_WORDS), tgt.rarest(_LEARN_WORDS)
        n_cells = int((src.lengths * tgt.lengths).sum())
        if n_cells > _LEARN_CELLS:
            n = len(src.ends) * _LEARN_CELLS // n_cells
            chosen = np.arange(n) * len(src.ends) // n
            src, tgt = src.take(chosen), tgt.take(chosen)
        keys, entry = _different([cells.keys for _, _, cells in chunks(src, tgt)])
        src_counts = np.bincount(src.ids, minlength=len(src_words.stems))[keys >> _SHIFT]
        tgt_counts = np.bincount(tgt.ids, minlength=len(tgt_words.stems))[keys & _LOW]
        forward = backward = np.ones(len(keys))
        for _ in range(_ITERATIONS):
            forward_sums, backward_sums = np.zeros(len(keys)), np.zeros(len(keys))
            start = 0
            for s, t, cells in chunks(src, tgt):
                e = entry[start : start + len(cells.keys)]
                start += len(e)
                np.add.at(forward_sums, e, _posterior(forward[e], cells.columns, tgt_words.share[t.ids], s, t))
                np.add.at(backward_sums, e, _posterior(backward[e], cells.rows, src_words.share[s.ids], t, s))
            # less one: what a single pair of sentences says, perhaps one that is misaligned, does not count
            forward = np.maximum(forward_sums - 1, 0) / src_counts
            backward = np.maximum(backward_sums - 1, 0) / tgt_counts
        return cls(keys, forward.astype(np.float32), backward.astype(np.float32)).strongest()

    def strongest(self) -> Entries:
        """Return the entries that are worth keeping, the strongest last."""
        strength = np.maximum(self.forward, self.backward)
        order = np.argsort(strength, kind="stable")
        order = order[strength[order] > _MIN_PROBABILITY][-_MAX_ENTRIES:]
        return Entries(self.keys[order], self.forward[order], self.backward[order])


def _different(parts: list[Keys]) -> tuple[Keys, npt.NDArray[np.int32]]:
    """Return the different keys, and the index of each key among them."""
    keys = np.concatenate([np.zeros(0, np.uint32), *parts])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    index = np.empty(len(keys), np.int32)
    index[order] = np.cumsum(new, dtype=np.int32) - 1
    return keys[new], index


def _posterior(probability: Floats, at: Longs, share: Floats, given: Tokens, words: Tokens) -> Floats:
    """Return of each cell how likely its word of `words`, the one with index `at`, is a translation of the other."""
    nothing = _NO_COUNTERPART / (1 - _NO_COUNTERPART) * share * np.repeat(given.lengths, words.lengths)
    return probability / (np.bincount(at, probability, minlength=len(share)) + nothing)[at]


class Table:
    """Entries in a hash table, in which many words are looked up at once."""

    def __init__(self, entries: Entries) -> None:
        slots, tags = self._place(entries.keys)
        packed = [np.rint(np.sqrt(p) * 255).astype(np.uint32) for p in (entries.forward, entries.backward)]
        self._table = np.zeros(2**_SLOT_BITS, np.uint32)
        self._table[slots] = tags << np.uint32(16) | packed[0] << np.uint32(8) | packed[1]  # the strongest is the last

    @staticmethod
    def _place(keys: Keys) -> tuple[Keys, Keys]:
        mixed = keys * _MULTIPLIER
        return mixed >> np.uint32(32 - _SLOT_BITS), mixed & np.uint32(2 ** (32 - _SLOT_BITS) - 1)

    def find(self, keys: Keys) -> tuple[Longs, Floats, Floats]:
        """Return the indices of the keys that are in the table, and their probabilities, forward and backward."""
        slots, tags = self._place(keys)
        values = self._table[slots]
        at = np.flatnonzero((values >> np.uint32(16) == tags) & (values != 0))
        forward, backward = (((values[at] >> np.uint32(bits)) & np.uint32(255)) / 255 for bits in (8, 0))
        return at, forward**2, backward**2
