"""The words of many sentences at once, as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ID_BITS = 16
"""Numbers of words have at most this many bits."""
_STEM = 5  # inflected forms that begin alike share what is learned about them
_MIN_COUNT = 3
_MARKS = "?!„“”»«’–—…。、，？！"
_SPACES = bytes(32 if i < 128 and not chr(i).isalnum() and chr(i) not in "\n?!" else i for i in range(256))
# scripts written without spaces: Han characters one by one, others by three
_UNSPACED = re.compile("[\u3400-\u9fff\U00020000-\U000323af]|[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff]{1,3}")


def split_words(lines: Sequence[str]) -> tuple[list[str], Longs]:
    """Return the lower-cased words of all lines, and where each line ends among them."""
    ends = np.zeros(len(lines), np.int64)
    if not lines:
        return [], ends
    text = "\n".join(lines).lower()
    for mark in _MARKS:
        text = text.replace(mark, f" {mark} ")
    text = text.encode(errors="surrogatepass").translate(_SPACES).decode(errors="surrogatepass")
    if _UNSPACED.search(text):
        text = _UNSPACED.sub(r" \g<0> ", text)
    words: list[str] = []
    for i, line in enumerate(text.split("\n")):
        words += line.split()
        ends[i] = len(words)
    return words, ends


@dataclass(frozen=True)
class Tokens:
    """Words of some sentences, as numbers."""

    ids: Longs
    ends: Longs
    """Where each sentence ends in `ids`."""

    @property
    def starts(self) -> Longs:
        """Where each sentence starts."""
        return np.concatenate((np.zeros(len(self.ends[:1]), np.int64), self.ends[:-1]))

    @property
    def lengths(self) -> Longs:
        """The number of words of each sentence."""
        return self.ends - self.starts

    @property
    def sentence(self) -> Longs:
        """The sentence of each word."""
        return np.repeat(np.arange(len(self.ends)), self.lengths)

    def where(self, keep: Bools) -> Tokens:
        """Return the words for which this is true."""
        return Tokens(self.ids[keep], np.concatenate(([0], np.cumsum(keep)))[self.ends])

    def rarest(self, n: int) -> Tokens:
        """Return the `n` different words of each sentence with the lowest numbers, in their order."""
        sentence = self.sentence
        order = np.argsort(sentence << ID_BITS | self.ids, kind="stable")
        ids, sentence = self.ids[order], sentence[order]
        new = np.ones(len(ids), bool)
        new[1:] = (ids[1:] != ids[:-1]) | (sentence[1:] != sentence[:-1])
        different = np.cumsum(new)
        before = np.concatenate(([0], different))[self.starts]
        keep = np.zeros(len(ids), bool)
        keep[order] = new & (different - before[sentence] <= n)
        return self.where(keep)

    def part(self, first: int, last: int) -> Tokens:
        """Return the words of a range of sentences."""
        start = self.ends[first - 1] if first else 0
        return Tokens(self.ids[start : self.ends[last - 1]], self.ends[first:last] - start)

    def take(self, sentences: Longs) -> Tokens:
        """Return the words of these sentences."""
        lengths = self.lengths[sentences]
        ends = np.cumsum(lengths)
        at = np.arange(lengths.sum()) - np.repeat(ends - lengths - self.starts[sentences], lengths)
        return Tokens(self.ids[at], ends)


class Vocabulary:
    """The words of one language that are frequent enough to learn something about, numbered from the rarest."""

    def __init__(self, stems: Sequence[str], counts: Longs) -> None:
        self.stems, self.counts = stems, counts
        self.share: Floats = counts / max(1, counts.sum())
        """How much of the text each word makes up."""
        self._ids = {stem: i for i, stem in enumerate(stems)}

    @classmethod
    def of(cls, words: Sequence[str]) -> Vocabulary:
        """Return the vocabulary of some text."""
        counts: Counter[str] = Counter()
        for word, n in Counter(words).items():
            counts[word[:_STEM]] += n
        chosen = sorted((n, stem) for stem, n in counts.items() if n >= _MIN_COUNT)[-(2**ID_BITS) :]
        return cls([stem for _, stem in chosen], np.array([n for n, _ in chosen], np.int64))

    def numbers(self, words: Sequence[str]) -> Longs:
        """Return the number of each word; -1 if it is not in this vocabulary."""
        known = {word: self._ids.get(word[:_STEM], -1) for word in set(words)}
        return np.fromiter(map(known.__getitem__, words), np.int64, len(words))
