"""Encoding of much text: a word is encoded once, and then found again.

No piece spans a space, so the ids of a line are those of its words, each with the space before it. Two spaces in a row
have an empty word between them. A line without spaces is one long word: scripts without them gain nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.text.labels import Labels
from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.text.word_cache import Ids, Numbers, WordCache, id_dtype

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
