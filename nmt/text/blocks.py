"""Encoding of many lines into one array.

`nmt prepare` encodes with a `BlockEncoder`. No piece spans a space, so the ids of a line are the ids of its words, and
each word is encoded only once. Two spaces in a row have an empty word between them.
"""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.text.ids import N_SPECIAL, Ids, Numbers, id_dtype, ranges
from nmt.text.tokenizer import CONTROL, LosslessTokenizer, Tokenizer
from nmt.text.vocabularies import Labels

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
_LINES = 2048  # encoded at a time: what is computed of them stays in the cache of the processor


class _WordCache:
    """A cache of the ids of words, which is cleared when it becomes too large.

    A word has one slot in a table, given by a hash of its bytes. If it is long, or if another word has taken the slot,
    it is looked up in a dictionary of all words.
    """

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
        """The ids of all words. A reference to them must not be held at the next call of `find`."""
        return np.frombuffer(self._ids, self._dtype)

    def find(self, text: bytes, starts: Numbers, stops: Numbers) -> Numbers:
        """Return for each word text[start:stop] the start and number of its ids and two counts of its text, (N, 4).

        The counts are the words, if the text is divided at any white space, and the characters without white space.
        """
        if self._n_bytes > _CACHED_BYTES:
            self._clear()
        lengths = stops - starts
        windows = np.ndarray(len(text) + _MOST_BYTES - 7, "<u8", text + bytes(_MOST_BYTES), strides=(1,))
        keys = np.zeros((_WINDOWS, len(starts)), np.uint64)  # the first bytes of words, followed by zeros
        hashes = np.zeros(1, np.uint64)
        compared = np.minimum(lengths, _MOST_BYTES)
        keys[0] = windows[starts] & _MASKS[0][compared]
        for i, (key, mask) in enumerate(zip(keys, _MASKS, strict=True)):
            longer = np.flatnonzero(lengths > 8 * i) if i else np.zeros(0, np.int64)
            key[longer] = windows[starts[longer] + 8 * i] & mask[compared[longer]]
            hashes = (hashes ^ key) * _FACTOR
            hashes ^= hashes >> np.uint64(32)
        slots = (hashes >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
        rows = self._slots.take(slots, axis=0)
        hit = (rows[:, _WINDOWS] > 0) & (lengths <= _MOST_BYTES)
        for i, key in enumerate(keys):
            hit &= rows[:, i] == key
        numbers = rows[:, _WINDOWS].astype(np.int64) - 1
        missed = np.flatnonzero(~hit)
        if len(missed):
            bounds = zip(starts[missed].tolist(), stops[missed].tolist(), strict=True)
            numbers[missed] = self._look_up([text[start:stop] for start, stop in bounds])
            new = missed[lengths[missed] <= _MOST_BYTES]
            # of several words in one slot, the last stays
            self._slots[slots[new]] = np.stack([*keys[:, new], numbers[new].astype(np.uint64) + 1], axis=1)
        return np.frombuffer(self._facts, np.int64).reshape(-1, 4).take(numbers, axis=0)

    def _look_up(self, words: Sequence[bytes]) -> Numbers:
        """Return the indices of words, after encoding new words."""
        n_known = len(self._number_of)
        numbers = np.fromiter(map(self._number_of.__getitem__, words), np.int64, len(words))
        n_new = len(self._number_of) - n_known
        new = [word.decode() for word in itertools.islice(reversed(self._number_of), n_new)][::-1]
        for word, ids in zip(new, self._tokenizer.encode_parts([f" {word}" for word in new]), strict=True):
            parts = word.split()
            self._facts.extend((len(self._ids), len(ids), len(parts), sum(map(len, parts))))
            self._ids.extend(ids)
        self._n_bytes += n_new * _BYTES_OF_WORD + sum(map(len, new))
        return numbers


class Encoded(NamedTuple):
    """The ids of N lines, and counts of their text."""

    ids: Ids
    """The ids of all lines, concatenated."""
    ends: Numbers
    """(N,) The end of each line in `ids`."""
    words: Numbers
    """(N,) The number of words, separated by any white space or control character; 0 for a label."""
    characters: Numbers
    """(N,) The number of characters in the words; 0 for a label."""
    first_learned: int
    """Smaller ids are special pieces and bytes."""

    @property
    def lengths(self) -> Numbers:
        """The number of ids of each line, (N,)."""
        return np.diff(self.ends, prepend=0)

    def take(self, rows: Numbers) -> Encoded:
        """Return the lines with the indices `rows`, in this order; an index may be repeated."""
        lengths = self.lengths
        starts = (self.ends - lengths)[rows]
        lengths = lengths[rows]
        ids = self.ids[ranges(starts, lengths)]
        return Encoded(ids, np.cumsum(lengths), self.words[rows], self.characters[rows], self.first_learned)


class BlockEncoder:
    """A single-threaded encoder of many lines or labels, with a cache of words and the same ids as `Tokenizer`."""

    def __init__(self, tokenizer: Tokenizer | Labels) -> None:
        self._encoder = _WordCache(tokenizer) if isinstance(tokenizer, LosslessTokenizer) else tokenizer

    def encode(self, lines: Sequence[str]) -> Encoded:
        """Encode lines, without special ids; an empty line has none. Raises DataError for an unknown label."""
        match self._encoder:
            case Labels() as labels:
                none = np.zeros(len(lines), np.int64)
                ids = np.array([*map(labels.id_of, lines)], np.uint16)
                return Encoded(ids, np.arange(len(lines)) + 1, none, none, N_SPECIAL)
            case Tokenizer() as tokenizer:
                return _encoded(tokenizer, lines)
            case cache:
                starts = range(0, max(1, len(lines)), _LINES)
                blocks = [_block(cache, lines[start : start + _LINES]) for start in starts]
                ids, lengths, words, characters = map(np.concatenate, zip(*blocks, strict=True))
                return Encoded(ids, np.cumsum(lengths), words, characters, LosslessTokenizer.first_learned)


def _encoded(tokenizer: Tokenizer, lines: Sequence[str]) -> Encoded:
    """Encode lines without a cache."""
    by_line = tokenizer.encode_all(lines, threads=1)
    ids: Ids = np.fromiter(itertools.chain.from_iterable(by_line), id_dtype(len(tokenizer)))
    ends = np.cumsum([*map(len, by_line)], dtype=np.int64)
    texts = [CONTROL.sub(" ", line).split() for line in lines]
    words = np.array([*map(len, texts)], np.int64)
    characters = np.array([len("".join(text)) for text in texts], np.int64)
    return Encoded(ids, ends, words, characters, tokenizer.first_learned)


def _block(cache: _WordCache, lines: Sequence[str]) -> tuple[Ids, Numbers, Numbers, Numbers]:
    """Return the fields of `Encoded`, with the length of each line in place of its end."""
    raw = "\n".join([*lines, ""]).encode()
    if _has_control(raw, len(lines)):
        raw = "\n".join([*(CONTROL.sub(" ", line) for line in lines), ""]).encode()
    text = np.frombuffer(raw, np.uint8)
    stops = np.flatnonzero((text == ord(" ")) | (text == ord("\n")))  # each ends a word
    last = np.flatnonzero(text[stops] == ord("\n"))  # the last word of each line
    starts = np.concatenate(([0], stops + 1))[:-1]
    first = np.concatenate(([0], last + 1))[:-1]
    facts = cache.find(raw, starts, stops)
    is_empty = starts[first] == stops[last]
    facts[last[is_empty], 1] = 0  # an empty line has no ids, while an empty word is a space
    ids = cache.ids[ranges(facts[:, 0], facts[:, 1])]
    lengths, words, characters = np.add.reduceat(facts[:, 1:], first).T
    return ids, lengths, words, characters


def _has_control(raw: bytes, n_lines: int) -> bool:
    """Return whether lines have a control character (see CONTROL); U+0080 to U+009F begin with the byte C2."""
    text = np.frombuffer(raw, np.uint8)
    n_low = np.count_nonzero(text < ord(" ")) - np.count_nonzero(text == ord("\t"))
    is_high = (text[:-1] == 0xC2) & (text[1:] < 0xA0)
    return bool(n_low > n_lines or (text == 0x7F).any() or is_high.any())
