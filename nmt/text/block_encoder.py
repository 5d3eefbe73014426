"""Encoding of much text: a word is encoded once, and then found again by its bytes.

A word has one slot in a table, given by a hash of its bytes. It is there unless it is long, or another word has taken
the slot; then it is looked up in a dictionary, which has all words.

No piece spans a space, so the ids of a line are those of its words, each with the space before it. Two spaces in a row
have an empty word between them. A line without spaces is one long word: scripts without them gain nothing.
"""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from nmt.text.labels import Labels
from nmt.text.tokenizer import CONTROL, Tokenizer

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


_LINES = 2048  # encoded at a time: what is computed of them stays in the cache of the processor


class Encoded(NamedTuple):
    """The ids of N lines, and counts of their text."""

    ids: Ids
    """Of all lines, concatenated."""
    ends: Numbers
    """(N,) The end of each line in `ids`."""
    words: Numbers
    """(N,) Words, separated by any white space."""
    characters: Numbers
    """(N,) Characters of words: without white space."""

    @property
    def lengths(self) -> Numbers:
        """(N,) The number of ids of each line."""
        return np.diff(self.ends, prepend=0)

    def take(self, rows: Numbers) -> Encoded:
        """Return these lines, in this order; a line may be taken more than once."""
        lengths = self.lengths
        ids, ends = _concatenated(self.ids, (self.ends - lengths)[rows], lengths[rows])
        return Encoded(ids, ends, self.words[rows], self.characters[rows])


class BlockEncoder:
    """Encodes lines as `Tokenizer.encode_all` does, in one thread, and keeps the words for the next call; or labels."""

    def __init__(self, tokenizer: Tokenizer | Labels) -> None:
        self._tokenizer = tokenizer
        self._words: WordCache | None = None
        if isinstance(tokenizer, Tokenizer) and tokenizer.splits_at_spaces:
            self._words = WordCache(tokenizer)

    def encode(self, lines: Sequence[str]) -> Encoded:
        """Encode lines, without special ids; an empty line has none."""
        if self._words is None or not lines:
            return self._encode_whole(lines)
        blocks = [self._block(self._words, lines[start : start + _LINES]) for start in range(0, len(lines), _LINES)]
        ids, _, words, characters = zip(*blocks, strict=True)
        ends = np.cumsum(np.concatenate([block.lengths for block in blocks]))
        return Encoded(np.concatenate(ids), ends, np.concatenate(words), np.concatenate(characters))

    def _encode_whole(self, lines: Sequence[str]) -> Encoded:
        ids = self._tokenizer.encode_all(lines)
        flat: npt.NDArray[Any] = np.fromiter(itertools.chain.from_iterable(ids), id_dtype(len(self._tokenizer)))
        return Encoded(flat, np.cumsum([len(line) for line in ids], dtype=np.int64), *_counts(lines))

    def _block(self, cache: WordCache, lines: Sequence[str]) -> Encoded:
        raw = _joined(lines)
        has_control = _has_control(raw, len(lines))
        if has_control:
            raw = _joined([CONTROL.sub(" ", line) for line in lines])
        text = np.frombuffer(raw, np.uint8)
        stops = np.flatnonzero((text == ord(" ")) | (text == ord("\n")))  # a word is what is before one of them
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1] + 1])
        last = np.flatnonzero(text[stops] == ord("\n"))  # the last word of each line
        facts = cache.find(raw, starts, stops)
        first = np.concatenate([np.zeros(1, np.int64), last[:-1] + 1])
        is_empty = starts[first] == stops[last]
        facts[last[is_empty], 1] = 0
        ids, ends = _concatenated(cache.ids, facts[:, 0], facts[:, 1])
        words, characters = _counts(lines) if has_control else np.add.reduceat(facts[:, 2:], first).T
        return Encoded(ids, ends[last], words, characters)


def _joined(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _has_control(raw: bytes, n_lines: int) -> bool:
    """Whether lines have a control character, see CONTROL; U+0080 to U+009F begin with the byte C2."""
    text = np.frombuffer(raw, np.uint8)
    n_low = np.count_nonzero(text < ord(" ")) - np.count_nonzero(text == ord("\t"))
    if n_low > n_lines or (text == 0x7F).any():
        return True
    return bool(((text[:-1] == 0xC2) & (text[1:] < 0xA0)).any())


def _counts(lines: Sequence[str]) -> Numbers:
    """Return (2, N) words and characters of lines; control characters may be white space or not."""
    counts = [(len(words), sum(map(len, words))) for words in map(str.split, lines)]
    return np.array(counts, np.int64).reshape(-1, 2).T


def _concatenated(ids: Ids, starts: Numbers, lengths: Numbers) -> tuple[Ids, Numbers]:
    """Concatenate parts of `ids`; return their ends, too."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return ids[np.repeat(starts - ends + lengths, lengths) + np.arange(total)], ends
