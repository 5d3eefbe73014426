"""Words with their ids, which are found by the bytes of the words, many at a time.

A word has one slot in a table, given by a hash of its bytes. It is there unless it is long, or another word has taken
the slot; then it is looked up in a dictionary, which has all words.
"""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nmt.text.tokenizer import Tokenizer

Ids: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
"""In the smallest type that holds every id of the vocabulary, see `id_dtype`."""
Numbers: TypeAlias = npt.NDArray[np.int64]
_Keys: TypeAlias = npt.NDArray[np.uint64]

_CACHED_BYTES = 1 << 27  # of words
_BYTES_OF_WORD = 200  # beyond its characters, about
_WINDOWS = 3  # a word of at most so many times eight bytes is found by comparing these
_MOST_BYTES = 8 * _WINDOWS
_MASKS = np.array(  # of a window and a length: the bytes that belong to a word
    [[2 ** (8 * min(max(n - i, 0), 8)) - 1 for n in range(_MOST_BYTES + 1)] for i in range(0, _MOST_BYTES, 8)],
    np.uint64,
)
_SLOT_BITS = 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
_HALF = np.uint64(32)


def id_dtype(n_pieces: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest type that holds every id of a vocabulary of `n_pieces`."""
    return np.uint16 if n_pieces <= 2**16 else np.uint32


class WordCache:
    """Encodes each word once, until there are too many."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._dtype = np.dtype(id_dtype(len(tokenizer)))
        self._clear()

    def _clear(self) -> None:
        self._number_of: defaultdict[bytes, int] = defaultdict(itertools.count().__next__)
        self._ids = array(self._dtype.char)
        self._facts = array("q")
        self._n_bytes = 0
        self._slots = np.zeros((1 << _SLOT_BITS, _WINDOWS + 1), np.uint64)  # the bytes of a word, and its number + 1

    @property
    def ids(self) -> Ids:
        """The ids of all words. To be let go before the next call of `find`."""
        return np.frombuffer(self._ids, self._dtype)

    def find(self, text: bytes, starts: Numbers, stops: Numbers) -> Numbers:
        """Return (N, 4) of each word text[start:stop] the start and number of its ids, and two counts of its text.

        These are words, if it is divided at any white space, and characters without white space.
        """
        if self._n_bytes > _CACHED_BYTES:
            self._clear()
        keys, lengths = _keys(text, starts, stops), stops - starts
        slots = _hashed(keys)
        rows = self._slots.take(slots, axis=0)
        hit = (rows[:, _WINDOWS] > 0) & (lengths <= _MOST_BYTES)
        for i, key in enumerate(keys):
            hit &= rows[:, i] == key
        numbers = rows[:, _WINDOWS].astype(np.int64) - 1
        missed = np.flatnonzero(~hit)
        if len(missed):
            words = [
                text[start:stop] for start, stop in zip(starts[missed].tolist(), stops[missed].tolist(), strict=True)
            ]
            numbers[missed] = self._find_one_by_one(words)
            new = missed[lengths[missed] <= _MOST_BYTES]
            columns = [*(key[new] for key in keys), numbers[new].astype(np.uint64) + 1]
            self._slots[slots[new]] = np.stack(columns, axis=1)  # of words in one slot the last stays
        return np.frombuffer(self._facts, np.int64).reshape(-1, 4).take(numbers, axis=0)

    def _find_one_by_one(self, words: Sequence[bytes]) -> Numbers:
        """Return the numbers of words, after encoding those that are new."""
        n_known = len(self._number_of)
        numbers = np.fromiter(map(self._number_of.__getitem__, words), np.int64, len(words))
        n_new = len(self._number_of) - n_known
        if not n_new:
            return numbers
        new = [word.decode() for word in itertools.islice(reversed(self._number_of), n_new)][::-1]
        for word, ids in zip(new, self._tokenizer.encode_words(new), strict=True):
            parts = word.split()
            self._facts.extend((len(self._ids), len(ids), len(parts), sum(map(len, parts))))
            self._ids.extend(ids)
        self._n_bytes += n_new * _BYTES_OF_WORD + sum(map(len, new))
        return numbers


def _keys(text: bytes, starts: Numbers, stops: Numbers) -> list[_Keys]:
    """Return the first bytes of words, eight by eight, with zeros in place of those after the word."""
    padded = text + bytes(_MOST_BYTES)
    windows = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))  # one begins at each byte
    lengths = np.minimum(stops - starts, _MOST_BYTES)
    keys = [windows[starts] & _MASKS[0][lengths]]
    for i in range(1, _WINDOWS):
        longer = np.flatnonzero(lengths > 8 * i)
        keys.append(np.zeros(len(starts), np.uint64))
        keys[i][longer] = windows[starts[longer] + 8 * i] & _MASKS[i][lengths[longer]]
    return keys


def _hashed(keys: Sequence[_Keys]) -> Numbers:
    """Return the numbers of slots."""
    x = np.zeros(1, np.uint64)
    for key in keys:
        x = (x ^ key) * _FACTOR
        x ^= x >> _HALF
    return (x >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
