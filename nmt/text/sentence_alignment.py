"""Alignment of the sentences of a text with the sentences of its translation, in the same order.

The text is divided into groups of up to two sentences and their translations (beads). A dynamic program finds the most
probable beads, relative to unrelated sentences: first by their lengths in characters (Gale and Church, 1993), then also
by a lexicon of the two texts (Model 1 of IBM), which is learned from the beads found before (Moore, 2002).

S and T are the numbers of sentences of both sides, W the width of the band in which beads are searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from nmt.text.ids import Numbers
from nmt.text.lexicon import Floats, expected_counts, links
from nmt.text.words import words as words_of

_PRIORS = {(1, 1): 0.86, (2, 1): 0.045, (1, 2): 0.045, (2, 2): 0.01}
"""Probability of a bead by its numbers of sentences; a sentence without a counterpart is the rest."""
_SKIP, _SKIP_ON = log(0.02), log(0.8)  # of the first sentence without a counterpart on a side, and of each after it
_DEVIATION = 6.8  # variance of the length of a translation per character of its source (Gale and Church)
_WIDTH = 400  # initial width of the band around the diagonal
_PLACES = 1 << 31  # maximum size of a band
_NEAR = 60  # width of the band around an earlier alignment
_ROUNDS = 2  # of learning a lexicon
_ITERATIONS = 5  # of expectation maximization
_LEARNED_FROM = 20_000  # maximum number of beads
_LIKELY = 1e-3  # minimum probability of a translation of a word
_STEM = 6  # characters of a word that are compared
_FREE = 0.1  # share of translations that are as long as unrelated text could be


class Bead(NamedTuple):
    """Sentences of one side and their translations: both are ranges, and either may be empty."""

    src: range
    tgt: range
    score: float
    """How much more probable the sentences are as translations than as unrelated sentences: the logarithm, per word."""


def align(source: Sequence[str], target: Sequence[str], translations: Sequence[str] | None = None) -> list[Bead]:
    """Return the beads of two texts, given by their sentences, at least one each. Every sentence is in one bead.

    translations: of the source sentences by a model, whose words are compared, too.
    """
    # words are added to the source's, and lengths are taken from the source only, so that bad translations do no harm
    compared = source if translations is None else [*map(" ".join, zip(source, translations, strict=True))]
    texts = _Side.of(compared, target), _Side.of(target, compared)
    lengths = _Lengths.of(replace(texts[0], chars=_chars(source)), texts[1])
    steps = _search_wide(lengths)
    if not any(src and tgt for src, tgt in steps):
        return [Bead(src, tgt, 0.0) for src, tgt in steps]
    for _ in range(_ROUNDS):
        lexicon = _Lexicon.of(*texts, steps)
        lengths = lengths.adapted(steps)
        steps = _search(lengths, lexicon, *_around(steps, lengths))
    return [Bead(src, tgt, lexicon.score(src, tgt)) for src, tgt in steps]


def words(sentence: str) -> list[str]:
    """Return the beginnings of the words of a sentence in lower case, and its other marks."""
    return [word[:_STEM] for word in words_of(sentence.casefold())]


@dataclass(frozen=True)
class _Side:
    """The sentences of one side."""

    chars: Floats
    """Length of each sentence in characters, (S,)."""
    ids: Numbers
    """Words of all sentences, numbered from 1; rare words, 0, are those that occur once, and not on the other side."""
    starts: Numbers
    """Position in `ids` at which each sentence begins, and the end, (S + 1,)."""
    numbers: dict[str, int]
    """The number of each word that is not rare."""

    @classmethod
    def of(cls, sentences: Sequence[str], other_side: Sequence[str]) -> _Side:
        split = [*map(words, sentences)]
        all_words = [*chain.from_iterable(split)]
        shared = {*chain.from_iterable(map(words, other_side))}
        kept = [word for word, n in Counter(all_words).items() if n > 1 or word in shared]
        numbers = {word: number for number, word in enumerate(kept, 1)}
        ids = np.array([numbers.get(word, 0) for word in all_words], np.int64)
        starts = np.cumsum([0, *map(len, split)])
        return cls(_chars(sentences), ids, starts, numbers)

    @property
    def n_words(self) -> int:
        """Number of different words, including rare ones."""
        return len(self.numbers) + 1

    def words_of(self, sentences: range) -> Numbers:
        return self.ids[self.starts[sentences.start] : self.starts[sentences.stop]]


def _chars(sentences: Sequence[str]) -> Floats:
    return np.array([max(1, len(sentence)) for sentence in sentences], float)


Step: TypeAlias = tuple[range, range]
"""The sentences of a bead."""


class _Lengths:
    """A model of the lengths of translations: a translation of n characters has about `ratio` * n."""

    def __init__(self, src: Floats, tgt: Floats, ratio: float, deviation: float) -> None:
        """Model the lengths of sentences; deviation: variance of the length of a translation per source character."""
        self.src = src
        self.tgt = tgt
        self._ratio = ratio
        self._deviation = deviation
        # by the number of target sentences that have been read, for the last one and the last two
        sums = {1: np.concatenate([[1.0], tgt]), 2: np.concatenate([[1.0, 1.0], tgt[1:] + tgt[:-1]])}
        self._sums: dict[int, Floats] = {}
        self._unrelated: dict[int, Floats] = {}
        for n, lengths in sums.items():
            lengths = lengths[: len(tgt) + 1]
            self._sums[n] = lengths
            following = lengths[n:] if len(lengths) > n else tgt
            self._unrelated[n] = _log_normal(lengths, following)

    @classmethod
    def of(cls, src: _Side, tgt: _Side) -> _Lengths:
        ratio = float(tgt.chars.sum() / src.chars.sum())
        return cls(src.chars, tgt.chars, ratio, _DEVIATION * max(1.0, ratio))

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of sentences of each side."""
        return len(self.src), len(self.tgt)

    def adapted(self, steps: Sequence[Step]) -> _Lengths:
        """Return a model of the lengths of the beads of one sentence each."""
        pairs = [(src.start, tgt.start) for src, tgt in steps if len(src) == len(tgt) == 1]
        if len(pairs) < 20:
            return self
        src = self.src[[i for i, _ in pairs]]
        tgt = self.tgt[[j for _, j in pairs]]
        ratio = float(np.median(tgt / src))
        deviation = float(np.median((tgt - ratio * src) ** 2 / src)) / 0.455  # the median of a squared normal variable
        return _Lengths(self.src, self.tgt, ratio, max(1.0, deviation))

    def scores(self, n_src: float, n_tgt: int, places: slice) -> Floats:
        """Return the logarithm of the probability of the lengths of the `n_tgt` sentences before each place as
        translations of `n_src` characters, relative to unrelated sentences of these lengths."""
        variance = self._deviation * n_src
        related = -((self._sums[n_tgt][places] - self._ratio * n_src) ** 2) / (2 * variance) - log(variance) / 2
        ratios = related - self._unrelated[n_tgt][places]
        return np.logaddexp(ratios + log(1 - _FREE), log(_FREE))


def _log_normal(lengths: Floats, sample: Floats) -> Floats:
    """Return the logarithm of the density of lengths, up to the same constant as a normal density."""
    logs = np.log(lengths)
    sample = np.log(sample)
    spread = max(float(sample.std()), 0.1)
    density: Floats = -((logs - sample.mean()) ** 2) / (2 * spread**2) - log(spread) - logs
    return density


class _Lexicon:
    """Probabilities of the words of the target side given a word of the source side, or none (Model 1 of IBM)."""

    def __init__(self, src: _Side, tgt: _Side, keys: Numbers, probabilities: Floats) -> None:
        self._src = src
        self._tgt = tgt
        is_likely = probabilities > _LIKELY
        keys = keys[is_likely]
        probabilities = probabilities[is_likely]
        self._columns = keys % tgt.n_words
        self._probabilities = probabilities
        self._rows = np.searchsorted(keys, np.arange(src.n_words + 2) * tgt.n_words)
        counts = np.bincount(tgt.ids, minlength=tgt.n_words) + 1.0
        self._alone = counts / counts.sum()
        self._given = np.zeros(tgt.n_words)
        self._unexplained = 0.5  # share of the words of a translation that the lexicon does not explain

    @classmethod
    def of(cls, src: _Side, tgt: _Side, steps: Sequence[Step]) -> _Lexicon:
        """Learn a lexicon from beads, evenly sampled if they are many."""
        beads = [(src_range, tgt_range) for src_range, tgt_range in steps if src_range and tgt_range]
        src_words = []
        tgt_words = []
        for src_range, tgt_range in beads[:: 1 + len(beads) // _LEARNED_FROM]:
            # no word, the last row, explains words without a counterpart
            src_words.append(np.unique([*src.words_of(src_range), src.n_words]))
            tgt_words.append(tgt.words_of(tgt_range))
        n_src = np.array([*map(len, src_words)])
        n_tgt = np.array([*map(len, tgt_words)])
        tgt_index, src_index = links(n_tgt, n_src)
        targets = np.concatenate(tgt_words)
        # a word that both sides have is taken for its own translation, as if it were seen twice
        shared = [word for word in src.numbers if word in tgt.numbers]
        same = [src.numbers[word] * tgt.n_words + tgt.numbers[word] for word in shared]
        n_same = 2 * len(same)
        keys = np.concatenate(src_words)[src_index] * tgt.n_words + targets[tgt_index]
        keys = np.concatenate([np.array([*same, *same], np.int64), keys])
        distinct, kinds = np.unique(keys, return_inverse=True)
        tgt_index = np.append(np.arange(n_same), n_same + tgt_index)
        counts, totals = expected_counts(kinds, tgt_index, distinct // tgt.n_words, _ITERATIONS)
        # without the occurrence in the bead itself, whose words would explain each other
        probabilities = np.maximum(counts - 1, 0) / totals
        lexicon = cls(src, tgt, distinct, probabilities)
        given = np.bincount(tgt_index, probabilities[kinds])[n_same:] / np.repeat(n_src, n_tgt)
        lexicon._weigh(given, lexicon._alone[targets])
        return lexicon

    def _weigh(self, given: Floats, alone: Floats) -> None:
        """Estimate the share of unexplained words from the probabilities of words with the lexicon and alone."""
        for _ in range(10):
            alike = self._unexplained * alone
            self._unexplained = float(np.mean(alike / (alike + (1 - self._unexplained) * given)))

    def scores(self, sentences: range, start: int, stop: int) -> Floats:
        """Return the logarithm of the probability of each target sentence from `start` to `stop` as a translation of
        sentences, relative to its words alone."""
        if start >= stop:
            return np.zeros(0)
        given = self._given
        chosen = np.unique(np.append(self._src.words_of(sentences), self._src.n_words))
        cells = np.concatenate([np.arange(self._rows[word], self._rows[word + 1]) for word in chosen])
        columns = self._columns[cells]
        np.add.at(given, columns, self._probabilities[cells] / len(chosen))
        first = self._tgt.starts[start]
        last = self._tgt.starts[stop]
        ids = self._tgt.ids[first:last]
        by_word = np.log((1 - self._unexplained) * given[ids] / self._alone[ids] + self._unexplained)
        given[columns] = 0
        sums = np.concatenate([[0.0], np.cumsum(by_word)])
        ends = self._tgt.starts[start : stop + 1] - first
        result: Floats = sums[ends[1:]] - sums[ends[:-1]]
        return result

    def score(self, src: range, tgt: range) -> float:
        """Return the mean of `scores` per word of the target sentences; 0 if one of the sides is empty."""
        if not src or not tgt:
            return 0.0
        return float(self.scores(src, tgt.start, tgt.stop).sum()) / len(self._tgt.words_of(tgt))


# --- search ---------------------------------------------------------------------------------------


def _search_wide(lengths: _Lengths) -> list[Step]:
    """Search by lengths in a band around the places with the same share of the characters before them, which is widened
    until the beads stay within it."""
    n, m = lengths.sizes
    read_src, read_tgt = (np.concatenate([[0.0], np.cumsum(side)]) for side in (lengths.src, lengths.tgt))
    middle = np.searchsorted(read_tgt / read_tgt[-1], read_src / read_src[-1])
    width = _WIDTH + 2 * int(np.diff(middle).max())
    while True:
        lows = np.clip(middle - width // 2, 0, max(0, m + 1 - width))
        steps = _search(lengths, None, lows, min(width, m + 1))
        places = np.array([(lows[src.stop], tgt.stop, lows[src.stop] + width) for src, tgt in steps])
        below, above = (np.diff(places) < width // 10).T  # whether a bead is near an end of the band
        is_inside = not (below & (places[:, 0] > 0)).any() and not (above & (places[:, 2] <= m)).any()
        if is_inside or 2 * width * n > _PLACES:
            return steps
        width *= 2


def _around(steps: Sequence[Step], lengths: _Lengths) -> tuple[Numbers, int]:
    """Return the lower ends and the width of a band around beads."""
    n, m = lengths.sizes
    middle = np.zeros(n + 1, np.int64)
    for src, tgt in steps:
        middle[src.start : src.stop + 1] = tgt.stop
    middle[0] = 0
    width = min(m + 1, _NEAR + 2 * int(np.diff(middle).max()))  # the places before and after skipped sentences
    return np.clip(middle - width // 2, 0, m + 1 - width), width


_MATCHED, _NO_TGT, _NO_SRC = range(3)
"""The kinds of ends at a place: a bead with both sides, or a source or target sentence without a counterpart."""


def _search(lengths: _Lengths, lexicon: _Lexicon | None, lows: Numbers, width: int) -> list[Step]:
    """Return the most probable beads. Row i, the place after i source sentences, has the places `lows[i]` to
    `lows[i] + width` of the target side."""
    n, m = lengths.sizes
    margin = 3 + int(np.diff(lows).max(initial=0)) * 2
    nowhere = np.full(width + 2 * margin, -np.inf)
    rows = [nowhere, nowhere]  # the best scores of the last two rows, with `margin` impossible places on both sides
    skipped = nowhere  # the best scores of the last row for _NO_TGT
    tops = np.zeros((n + 1, width), np.int8)  # what ends at each place
    # for _MATCHED, the bead; otherwise what ends before the sentence without a counterpart
    choices = np.zeros((3, n + 1, width), np.int8)
    ons = np.arange(width) * _SKIP_ON
    for i in range(n + 1):
        low = int(lows[i])
        best = np.full((3, width), -np.inf)
        if i == 0:
            best[_MATCHED, 0] = 0.0
        else:
            scores = _scores_of_row(lengths, lexicon, i, low, width)
            for kind, (ds, dt) in enumerate(_PRIORS):
                if ds <= i:
                    shift = margin + low - dt - int(lows[i - ds])
                    reached = rows[-ds][shift : shift + width] + scores[ds, dt]
                    is_better = reached > best[_MATCHED]
                    best[_MATCHED, is_better] = reached[is_better]
                    choices[_MATCHED, i, is_better] = kind
            shift = margin + low - int(lows[i - 1])
            above = slice(shift, shift + width)
            first = rows[-1][above] + _SKIP
            on = skipped[above] + _SKIP_ON
            before = np.pad(tops[i - 1], margin)[above]
            best[_NO_TGT] = np.maximum(first, on)
            choices[_NO_TGT, i] = np.where(on > first, _NO_TGT, before)
        # target sentences are skipped from the best place before them in the same row
        starts = best.max(0) + _SKIP - _SKIP_ON - ons
        furthest = np.maximum.accumulate(starts)[:-1]
        best[_NO_SRC, 1:] = furthest + ons[1:]
        choices[_NO_SRC, i, 1:] = np.where(furthest > starts[:-1], _NO_SRC, best[:_NO_SRC].argmax(0)[:-1])
        tops[i] = best.argmax(0)
        rows = [rows[-1], np.pad(best.max(0), margin, constant_values=-np.inf)]
        skipped = np.pad(best[_NO_TGT], margin, constant_values=-np.inf)
    return _traced(tops, choices, lows, m)


def _traced(tops: npt.NDArray[np.int8], choices: npt.NDArray[np.int8], lows: Numbers, n_tgt: int) -> list[Step]:
    """Return the beads that end at the last place, from what ends at each place; see `_search`."""
    steps = []
    kinds = [*_PRIORS]
    i = len(lows) - 1
    j = n_tgt
    last = int(tops[i, j - lows[i]])
    while i or j:
        chosen = int(choices[last, i, j - lows[i]])
        ds, dt = {_MATCHED: kinds[chosen], _NO_TGT: (1, 0), _NO_SRC: (0, 1)}[last]
        steps.append((range(i - ds, i), range(j - dt, j)))
        i -= ds
        j -= dt
        last = int(tops[i, j - lows[i]]) if last == _MATCHED else chosen
    return steps[::-1]


def _scores_of_row(
    lengths: _Lengths, lexicon: _Lexicon | None, i: int, low: int, width: int
) -> dict[tuple[int, int], Floats]:
    """Return the score of each bead that ends after i source sentences, at each place of the band, (W,)."""
    scores = {kind: np.full(width, log(prior)) for kind, prior in _PRIORS.items()}
    for (ds, dt), by_place in scores.items():
        if ds <= i:
            by_place += lengths.scores(float(lengths.src[i - ds : i].sum()), dt, slice(low, low + width))
            by_place[: max(0, dt - low)] = -np.inf  # fewer target sentences have been read
    if lexicon is not None:
        first = max(0, low - 2)
        for ds in range(1, min(i, 2) + 1):
            # by target sentence, then summed over the sentences that end at each place
            sums = np.concatenate([[0.0], np.cumsum(lexicon.scores(range(i - ds, i), first, low + width - 1))])
            for dt in (1, 2):
                if (ds, dt) in scores:
                    ends = np.arange(low, low + width) - first
                    known = ends >= dt
                    scores[ds, dt][known] += sums[ends[known]] - sums[ends[known] - dt]
    return scores
