"""A new segmentation of the training set in every epoch: BPE-dropout (Provilkov et al., 2020, arXiv:1910.13267), or
for imported unigram tokenizers subword regularization (Kudo, 2018, arXiv:1804.10959).

Segmentation number k < 64 of a word is a function of (seed, word, k). With BPE-dropout, each possible merge is dropped
with probability `rate`, and of the others the one of highest priority is made, repeatedly, until all are dropped. With
subword regularization, one of the n most probable segmentations is drawn, with a probability proportional to the power
`ALPHA` of its own. Which k a word gets is a function of (seed, epoch, side, row of its pair, position in its line). So
an epoch does not depend on earlier epochs, and a segmentation is computed when it is first drawn, once for all
occurrences of the word.

Pieces never span a space: a word is a piece that starts with a space and all pieces up to the next such piece.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import accumulate, count, pairwise

import numpy as np

from nmt.data.batching import Pairs
from nmt.data.lines import Indices, Integers, Lines, Segments
from nmt.data.random_numbers import Hashes, hashed, key_of
from nmt.text.ids import UNK, ranges
from nmt.text.imported import ImportedTokenizer
from nmt.text.tokenizer import Tokenizer
from nmt.training.settings import TrainingConfig

N_CUTS = 64
"""Number of segmentations of a word, of which one is drawn."""

ALPHA = 0.2
"""The power of probabilities in subword regularization: Kudo's best value with 64 segmentations of a line."""

_BLOCK = 1 << 15  # lines processed together
_MAX_CACHED_IDS = 1 << 24  # ids of cached segmentations


class BpeDropout:
    """BPE-dropout of all training pairs, or of the pairs of a window."""

    def __init__(
        self,
        sides: tuple[tuple[Lines, Tokenizer], tuple[Lines, Tokenizer]],
        max_pieces: int,
        training: TrainingConfig,
        segments: Segments | None = None,
    ) -> None:
        """`sides`: sources and targets, equally many, with their tokenizers; `segments`: the rows of a window.

        A line that would have more than `max_pieces` pieces is segmented without dropout.
        """
        self._segments = segments
        self._seed = training.seed
        self._max_pieces = max_pieces
        self._cuts = [_Cuts(lines, tokenizer, _cutter(tokenizer, training), self._seed) for lines, tokenizer in sides]

    def pairs(self, epoch: int) -> Pairs:
        """Return the pairs of `epoch`."""
        src, tgt = (self._side(epoch, number) for number in (0, 1))
        return Pairs(src, tgt, self._segments)

    def _side(self, epoch: int, number: int) -> Lines:
        """Return the segmented sources (number 0) or targets (1) of an epoch."""
        cuts = self._cuts[number]
        rows = np.arange(cuts.n_lines)
        if self._segments is not None:
            rows = self._segments.rows(rows)
        return cuts.lines(hashed(key_of(self._seed, epoch, number), rows), self._max_pieces)


class Merges:
    """The merges of a tokenizer. Smaller ids have higher priority, as in SentencePiece."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = tokenizer.pieces(range(tokenizer.n_pieces))
        first = tokenizer.first_learned
        id_of = {piece: i for i, piece in enumerate(pieces[first:], first)}
        self._letters = [[i] for i in range(first)]
        for piece in pieces[first:]:
            self._letters.append([id_of[letter] for letter in piece])
        self._merged = dict[tuple[int, int], int]()
        for piece, i in id_of.items():
            for middle in range(1, len(piece)):
                left = id_of.get(piece[:middle])
                right = id_of.get(piece[middle:])
                if left is not None and right is not None:
                    self._merged[left, right] = i

    def cut(self, word: Sequence[int], rate: float, numbers: Iterator[int]) -> list[int]:
        """Segment a word, given in any pieces, and drop merges at `rate` according to 32-bit random `numbers`."""
        threshold = round(rate * 2**32)
        ids = [letter for piece in word for letter in self._letters[piece]]
        n = len(ids)
        before, after = list(range(-1, n - 1)), list(range(1, n + 1))  # neighbours of each piece
        merged = self._merged.get
        possible = [(new, i, i + 1) for i, pair in enumerate(pairwise(ids)) if (new := merged(pair)) is not None]
        heapq.heapify(possible)
        dropped = []
        while possible:
            merge = new, left, right = heapq.heappop(possible)
            if after[left] != right or merged((ids[left], ids[right])) != new:
                continue  # one of the two pieces no longer exists
            if next(numbers) < threshold:
                dropped.append(merge)
                continue
            end = after[right]
            ids[left], after[left], after[right] = new, end, 0
            if end < n:
                before[end] = left
            for i, j in ((before[left], left), (left, end)):
                if i >= 0 and j < n and (new := merged((ids[i], ids[j]))) is not None:
                    heapq.heappush(possible, (new, i, j))
            while dropped:
                heapq.heappush(possible, dropped.pop())
        pieces = []
        i = 0
        while i < n:
            pieces.append(ids[i])
            i = after[i]
        return pieces


Cutter = Callable[[Sequence[int], Iterator[int]], list[int]]
"""A function that returns a random segmentation of a word, given in any pieces, by 32-bit random numbers."""


def _cutter(tokenizer: Tokenizer, training: TrainingConfig) -> Cutter:
    if isinstance(tokenizer, ImportedTokenizer):
        return partial(sampled, tokenizer, training.subword_nbest)
    merges = Merges(tokenizer)
    return lambda word, numbers: merges.cut(word, training.bpe_dropout, numbers)


def sampled(tokenizer: ImportedTokenizer, n: int, word: Sequence[int], numbers: Iterator[int]) -> list[int]:
    """Draw one of the `n` most probable segmentations of a word; a tag or a word with unknown text stays as it is."""
    if UNK in word or not tokenizer.pieces(word[:1])[0].startswith("\u2581"):
        return list(word)
    segmentations = tokenizer.segmentations(tokenizer.decode(word), n)
    # the segmenter may lack text of the vocabulary
    probable = [(ids, score) for ids, score in segmentations if min(ids, default=0) > UNK]
    if not probable:
        return list(word)
    best = probable[0][1]
    ends = list(accumulate(math.exp(ALPHA * (score - best)) for _, score in probable))
    return probable[bisect_right(ends, next(numbers) / 2**32 * ends[-1])][0]


class _Cuts:
    """The lines of a language as words, and the cached random segmentations (cuts) of all words.

    Cut c has the ids from bounds[c] to bounds[c + 1]; the first cuts are the words without dropout, in the order of
    their indices. `made[N_CUTS * word + k]` is cut number k of a word, -1 if it is not made yet.
    """

    def __init__(self, lines: Lines, tokenizer: Tokenizer, cut: Cutter, seed: int) -> None:
        self._cut = cut
        self._seed = seed
        self._dtype = lines.ids.dtype
        self._n_ids = len(lines.ids)
        self.n_lines = len(lines)
        begins = np.array(tokenizer.begins_word())
        number_of: dict[bytes, int] = {}
        numbers = []
        line_ends = []
        n_words = 0
        for start in range(0, len(lines), _BLOCK):
            first = int(lines.ends[start - 1]) if start else 0
            block_ends = lines.ends[start : start + _BLOCK]
            block = lines.ids[first : block_ends[-1]]
            is_start = begins[block]
            line_starts = np.concatenate(([0], block_ends[:-1] - first))
            is_start[line_starts[line_starts < len(block)]] = True  # a tag, or unknown text without a space
            starts = np.flatnonzero(is_start)
            raw = block.tobytes()
            bounds = pairwise([*(starts * block.itemsize).tolist(), len(raw)])
            words = (number_of.setdefault(raw[a:b], len(number_of)) for a, b in bounds)
            numbers.append(np.fromiter(words, np.int32, len(starts)))
            line_ends.append(n_words + np.searchsorted(starts, block_ends - first))
            n_words += len(starts)
        self._different = list(number_of)  # the distinct words as bytes of their ids, in order of first occurrence
        self._numbers = np.concatenate(numbers)  # (W,) the indices of the words of all lines
        self._ends = np.concatenate(line_ends).astype(np.int64)  # (P,) the end of each line in these
        self._forget()

    def _forget(self) -> None:
        """Clear the cache, except for the words without dropout."""
        self._made = np.full(N_CUTS * len(self._different), -1, np.int32)
        self._ids = array(self._dtype.char, b"".join(self._different))
        n_ids = [len(word) // self._dtype.itemsize for word in self._different]
        self._bounds = array("q", np.cumsum([0, *n_ids]).astype(np.int64).tobytes())

    def lines(self, keys: Hashes, max_pieces: int) -> Lines:
        """Segment all lines with random numbers from `keys` (P,), one key for each line."""
        if len(self._ids) > max(_MAX_CACHED_IDS, 2 * self._n_ids):  # without spaces in a script, few words repeat
            self._forget()
        blocks = [self._block(start, keys[start : start + _BLOCK], max_pieces) for start in range(0, len(keys), _BLOCK)]
        ids, n_ids = zip(*blocks, strict=True)
        return Lines(np.concatenate(ids), np.cumsum(np.concatenate(n_ids), dtype=np.int64))

    def _block(self, start: int, keys: Hashes, max_pieces: int) -> tuple[Integers, Indices]:
        """Return the ids of the lines from `start` on, one for each key, and the number of ids of each line."""
        n_lines = len(keys)
        ends = self._ends[start : start + len(keys)]
        first = int(self._ends[start - 1]) if start else 0
        n_words = np.diff(ends, prepend=first)
        line = np.repeat(np.arange(n_lines), n_words)
        position = ranges(0, n_words)  # within the line
        words = self._numbers[first : ends[-1]].astype(np.int64)
        cuts = self._drawn(N_CUTS * words + (hashed(keys[line], position) % N_CUTS).astype(np.int64))
        bounds = np.frombuffer(self._bounds, np.int64)
        n_ids = np.bincount(line, bounds[cuts + 1] - bounds[cuts], n_lines)
        cuts = np.where(n_ids[line] > max_pieces, words, cuts)
        n_pieces = bounds[cuts + 1] - bounds[cuts]
        n_ids = np.bincount(line, n_pieces, n_lines)
        return np.frombuffer(self._ids, self._dtype)[ranges(bounds[cuts], n_pieces)], n_ids.astype(np.int64)

    def _drawn(self, indices: Indices) -> Indices:
        """Return the cuts at these indices of `made`, after making the missing ones."""
        cuts = self._made[indices]
        missing = np.unique(indices[cuts < 0])
        if len(missing) == 0:
            return cuts.astype(np.int64)
        self._made[missing] = np.arange(len(self._bounds) - 1, len(self._bounds) - 1 + len(missing))
        for index in missing.tolist():
            number, k = divmod(index, N_CUTS)
            word = self._different[number]
            numbers = _random_numbers(b"%d %d " % (self._seed, k) + word)
            self._ids.extend(self._cut(array(self._dtype.char, word), numbers))
            self._bounds.append(len(self._ids))
        return self._made[indices].astype(np.int64)


def _random_numbers(key: bytes) -> Iterator[int]:
    """Yield random 32-bit integers that are a function of `key`."""
    # seeding `random` takes longer than segmenting a word
    for i in count():
        yield from memoryview(blake2b(b"%d " % i + key).digest()).cast("I")
