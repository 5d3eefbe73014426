"""Lexicons: which words translate each other, learned from pairs of sentences by IBM model 1 (Brown et al., 1993).

In model 1 (aclanthology.org/J93-2003), each word of a sentence translates one word of the other sentence. Any two words
of a pair of sentences are a link.

Legend: W words of one side of all pairs, L links, K different links.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.languages.codes import KANA, character_class
from nmt.text.ids import Numbers, ranges
from nmt.text.lines import TextPair
from nmt.text.split import CLAUSE_MARKS, COMMAS, SENTENCE_MARKS
from nmt.text.words import UNSPACED

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def links(lengths: Numbers, other_lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Return the words of all links, (L,) on each side, ordered by the words of the first side.

    Words are numbered across sentences, whose numbers of words are given.
    """
    n_links = np.repeat(other_lengths, lengths)  # (W,) of each word of the first side
    starts = np.repeat(np.cumsum(other_lengths) - other_lengths, lengths)
    return np.repeat(np.arange(len(n_links)), n_links), ranges(starts, n_links)


def expected_counts(kinds: Numbers, words: Numbers, sources: Numbers, n_iterations: int) -> tuple[Floats, Floats]:
    """Return how often model 1 expects each different link to be a translation, and any link of its source, both (K,).

    The quotient is the probability of the target word given the source word.

    Args:
        kinds: which of the different links each link is, (L,).
        words: the target word of each link, (L,).
        sources: the source of each different link, (K,).
        n_iterations: the number of iterations of expectation maximization, at least one.
    """
    probabilities = np.ones(len(sources))
    for _ in range(n_iterations):
        shares = shares_of(probabilities[kinds], words)
        counts = np.bincount(kinds, shares).astype(np.float64, copy=False)
        totals = np.bincount(sources, counts).astype(np.float64, copy=False)[sources]
        probabilities = counts / totals
    return counts, totals


def shares_of(probabilities: Floats, words: Numbers, unexplained: Floats | float = 0.0) -> Floats:
    """Return the probability of each link among the links of its target word, (L,), by its words' probability, (L,).

    Overwrites the probabilities. unexplained: the probability of each target word (W,) without any link.
    """
    totals = np.bincount(words, probabilities, minlength=np.size(unexplained)) + unexplained
    probabilities /= totals[words]
    return probabilities


ID_BITS = 16
"""The maximum number of bits in the number of a word."""
_STEM = 5  # inflected forms with the same beginning share their statistics
_MIN_COUNT = 3
_BLOCK_LINES = 8192  # processed at a time: words need far more memory than their numbers
_MARKS = {*f"„“”»«’–—{SENTENCE_MARKS}{CLAUSE_MARKS}{COMMAS}"}
_SPACES = bytes(32 if i < 128 and not chr(i).isalnum() and chr(i) not in "\n?!" else i for i in range(256))
# scripts written without spaces: Han characters one by one, others and kana by three
_UNSPACED = re.compile(f"[{KANA}]{{1,3}}|[{character_class(['Hani'])}]|[{UNSPACED}]{{1,3}}")
# all but the first bytes of these characters in UTF-8: a fast test of whether a text has any of them
_NOT_UNSPACED = bytes({*range(256)} - {0xE0, 0xE1, *range(0xE3, 0xF1)})


def split_words(lines: Sequence[str]) -> tuple[list[str], Numbers]:
    """Return the lower-cased words of all lines, and the index at which the words of each line end."""
    ends = np.zeros(len(lines), np.int64)
    if not lines:
        return [], ends
    text = "\n".join(lines).lower()
    for mark in _MARKS.intersection(text):
        text = text.replace(mark, f" {mark} ")
    raw = text.encode(errors="surrogatepass").translate(_SPACES)
    text = raw.decode(errors="surrogatepass")
    if raw.translate(None, _NOT_UNSPACED):
        text = _UNSPACED.sub(r" \g<0> ", text)
    words = []
    for i, line in enumerate(text.split("\n")):
        words += line.split()
        ends[i] = len(words)
    return words, ends


@dataclass(frozen=True)
class Tokens:
    """The words of several sentences, as indices in a vocabulary."""

    ids: Numbers
    ends: Numbers
    """The end of each sentence in `ids`."""

    @property
    def starts(self) -> Numbers:
        """The start of each sentence in `ids`."""
        return self.ends - self.lengths

    @property
    def lengths(self) -> Numbers:
        """The number of words of each sentence."""
        return np.diff(self.ends, prepend=0)

    @property
    def sentence(self) -> Numbers:
        """The index of the sentence of each word."""
        return np.repeat(np.arange(len(self.ends)), self.lengths)

    def where(self, keep: Bools) -> Tokens:
        """Return only the words for which `keep` is true."""
        return Tokens(self.ids[keep], np.concatenate(([0], np.cumsum(keep)))[self.ends])

    def rarest(self, n: int) -> Tokens:
        """Return the `n` rarest distinct words of each sentence, which have the lowest indices, in text order."""
        keys, firsts = np.unique(self.sentence << ID_BITS | self.ids, return_index=True)
        n_before = ranges(0, np.bincount(keys >> ID_BITS, minlength=len(self.ends)))
        keep = np.zeros(len(self.ids), bool)
        keep[firsts[n_before < n]] = True
        return self.where(keep)

    def take(self, sentences: Numbers) -> Tokens:
        """Return the words of the given sentences."""
        lengths = self.lengths[sentences]
        return Tokens(self.ids[ranges(self.starts[sentences], lengths)], np.cumsum(lengths))


class Vocabulary:
    """The words of one language that are frequent enough for statistics, sorted from the rarest."""

    def __init__(self, stems: Sequence[str], counts: Numbers) -> None:
        self.stems = stems
        self.counts = counts
        self.share: Floats = counts / max(1, counts.sum())
        """The relative frequency of each word in the text."""
        self._ids = {stem: i for i, stem in enumerate(stems)}

    @classmethod
    def of(cls, words: Mapping[str, int]) -> Vocabulary:
        """Return the vocabulary of a text, given the number of occurrences of each word."""
        counts: Counter[str] = Counter()
        for word, n in words.items():
            counts[word[:_STEM]] += n
        frequent = [(n, stem) for stem, n in counts.items() if n >= _MIN_COUNT]
        chosen = sorted(frequent)[-(2**ID_BITS) :]
        return cls([stem for _, stem in chosen], np.array([n for n, _ in chosen], np.int64))

    def numbers(self, words: Sequence[str]) -> Numbers:
        """Return the index of each word in this vocabulary, or -1 if it is not in it."""
        known = {word: self._ids.get(word[:_STEM], -1) for word in set(words)}
        return np.fromiter(map(known.__getitem__, words), np.int64, len(words))

    def by_chance(self, words: Tokens, translated: Tokens) -> Floats:
        """Return the probability of each word without a counterpart, relative to a link with one of the words of the
        other side."""
        usual = _NO_COUNTERPART / (1 - _NO_COUNTERPART) * self.share[words.ids]
        return usual * np.repeat(translated.lengths, words.lengths)


def read_words(lines: Sequence[str]) -> tuple[Vocabulary, Tokens]:
    """Return the vocabulary of some lines, and the words of the lines that are in the vocabulary."""
    seen: defaultdict[str, int] = defaultdict()
    seen.default_factory = seen.__len__  # a new word gets the next number
    parts = [np.zeros(0, np.int32)]
    ends = [np.zeros(1, np.int64)]
    for start in range(0, len(lines), _BLOCK_LINES):
        words, block_ends = split_words(lines[start : start + _BLOCK_LINES])
        parts.append(np.fromiter(map(seen.__getitem__, words), np.int32, len(words)))
        ends.append(block_ends + ends[-1][-1])
    indices = np.concatenate(parts)
    counts = np.bincount(indices, minlength=len(seen)).tolist()
    vocabulary = Vocabulary.of(dict(zip(seen, counts, strict=True)))
    numbers = vocabulary.numbers(list(seen))[indices]
    return vocabulary, Tokens(numbers, np.concatenate(ends[1:])).where(numbers >= 0)


Keys = npt.NDArray[np.uint32]
Singles = npt.NDArray[np.float32]
_CHUNK_CELLS = 2**20
_LEARN_CELLS = 10 * 2**20  # a limit for memory
_LEARN_WORDS = 12  # only the rarest words of a sentence are used: frequent ones go with everything, and cost the most
_ITERATIONS = 4
_NO_COUNTERPART = 0.3
_MIN_PROBABILITY = 0.01
_MAX_ENTRIES = 2**19
_SLOT_BITS = 22
_MULTIPLIER = np.uint32(2654435769)  # odd: multiplication only reorders the keys
_SHIFT = np.uint32(ID_BITS)
_LOW = np.uint32(2**ID_BITS - 1)


class Cells(NamedTuple):
    """All combinations of a source word and a target word within each of several pairs of sentences."""

    keys: Keys
    """The number of the source word in the upper bits, and of the target word in the lower bits."""
    rows: Numbers
    """The index of the source word among all source words."""
    columns: Numbers
    """The index of the target word among all target words."""


def make_cells(src: Tokens, tgt: Tokens) -> Cells:
    """Return the `Cells` of pairs of sentences."""
    rows, columns = links(src.lengths, tgt.lengths)
    return Cells((src.ids.astype(np.uint32) << _SHIFT)[rows] | tgt.ids.astype(np.uint32)[columns], rows, columns)


def chunks(src: Tokens, tgt: Tokens) -> Iterator[tuple[Tokens, Tokens, Cells]]:
    """Yield pairs of sentences with their `Cells`, a few thousand at a time to limit memory use."""
    done = np.cumsum(src.lengths * tgt.lengths)
    first = 0
    while first < len(done):
        before = int(done[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(done, before + _CHUNK_CELLS, side="right")))
        src_part, tgt_part = (side.take(np.arange(first, last)) for side in (src, tgt))
        yield src_part, tgt_part, make_cells(src_part, tgt_part)
        first = last


@dataclass(frozen=True)
class Lexicon:
    """Pairs of words that are translations of each other, with their probabilities."""

    src: Vocabulary
    tgt: Vocabulary
    keys: Keys
    """The pairs of words, as in `Cells`; the most probable last."""
    forward: Singles
    """Probability of the target word, given the source word."""
    backward: Singles
    """Probability of the source word, given the target word."""

    @classmethod
    def learn(cls, pairs: Sequence[TextPair]) -> Lexicon:
        """Learn a lexicon from sentences and their translations."""
        src_words, src = read_words([src_line for src_line, _ in pairs])
        tgt_words, tgt = read_words([tgt_line for _, tgt_line in pairs])
        n_cells = int((np.minimum(src.lengths, _LEARN_WORDS) * np.minimum(tgt.lengths, _LEARN_WORDS)).sum())
        if n_cells > _LEARN_CELLS:
            n = len(src.ends) * _LEARN_CELLS // n_cells
            chosen = np.arange(n) * len(src.ends) // n
            src = src.take(chosen)
            tgt = tgt.take(chosen)
        src = src.rarest(_LEARN_WORDS)
        tgt = tgt.rarest(_LEARN_WORDS)
        all_keys = np.concatenate([np.zeros(0, np.uint32), *(cells.keys for _, _, cells in chunks(src, tgt))])
        keys, entries = np.unique(all_keys, return_inverse=True)
        entries = entries.astype(np.int32)  # half the memory
        src_counts = np.bincount(src.ids, minlength=len(src_words.stems))[keys >> _SHIFT]
        tgt_counts = np.bincount(tgt.ids, minlength=len(tgt_words.stems))[keys & _LOW]
        forward = backward = np.ones(len(keys))
        for _ in range(_ITERATIONS):
            forward_sums = np.zeros(len(keys))
            backward_sums = np.zeros(len(keys))
            start = 0
            for src_part, tgt_part, cells in chunks(src, tgt):
                chunk = entries[start : start + len(cells.keys)]
                start += len(chunk)
                by_chance = tgt_words.by_chance(tgt_part, src_part)
                np.add.at(forward_sums, chunk, shares_of(forward[chunk], cells.columns, by_chance))
                by_chance = src_words.by_chance(src_part, tgt_part)
                np.add.at(backward_sums, chunk, shares_of(backward[chunk], cells.rows, by_chance))
            # less one: evidence from a single pair of sentences, which may be misaligned, does not count
            forward = np.maximum(forward_sums - 1, 0) / src_counts
            backward = np.maximum(backward_sums - 1, 0) / tgt_counts
        singles = forward.astype(np.float32), backward.astype(np.float32)
        strength = np.maximum(*singles)
        order = np.argsort(strength, kind="stable")
        order = order[strength[order] > _MIN_PROBABILITY][-_MAX_ENTRIES:]
        return cls(src_words, tgt_words, keys[order], singles[0][order], singles[1][order])

    @cached_property
    def _table(self) -> Keys:
        """A hash table of the entries, with the tag and both probabilities of each."""
        slots, tags = _placed(self.keys)
        packed = [np.rint(np.sqrt(p) * 255).astype(np.uint32) for p in (self.forward, self.backward)]
        table = np.zeros(2**_SLOT_BITS, np.uint32)
        table[slots] = tags << np.uint32(16) | packed[0] << np.uint32(8) | packed[1]  # the most probable entry wins
        return table

    def find(self, keys: Keys) -> tuple[Numbers, Floats, Floats]:
        """Return the indices of the keys that have an entry, and their forward and backward probabilities."""
        slots, tags = _placed(keys)
        values = self._table[slots]
        at = np.flatnonzero((values >> np.uint32(16) == tags) & (values != 0))
        forward, backward = (((values[at] >> np.uint32(bits)) & np.uint32(255)) / 255 for bits in (8, 0))
        return at, forward**2, backward**2


def _placed(keys: Keys) -> tuple[Keys, Keys]:
    """Return the slots and tags of keys in a hash table."""
    mixed = keys * _MULTIPLIER
    return mixed >> np.uint32(32 - _SLOT_BITS), mixed & np.uint32(2 ** (32 - _SLOT_BITS) - 1)
