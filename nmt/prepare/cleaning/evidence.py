"""Evidence for and against that the sides of a pair translate each other, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nmt.prepare.cleaning.lexicon import Table, chunks
from nmt.prepare.cleaning.words import Bools, Floats, Longs, Tokens, Vocabulary, split_words

Pairs = Sequence[tuple[str, str]]

LEVELS = np.array([1.0, 3.5, 17.0])
"""How many times more likely than by chance a word is, given the other side, divides words into these and one more."""
_WORDS = 24  # the rarest of a sentence stand for all
_SHRINK = 5.0
_MAX_WEIGHT = 4.0
_MAX_SPREADS = 8.0


@dataclass(frozen=True)
class Side:
    """One side of several pairs."""

    tokens: Tokens
    """Its words that are in the vocabulary, at most the `_WORDS` rarest."""
    levels: Longs
    """How well the other side explains each word, by `LEVELS`."""
    unknown: Floats
    """Share of the words that are not in the vocabulary."""
    last_unknown: Bools
    """Whether the last word is not."""
    marked: Bools
    """Whether it ends with a character that is neither letter nor digit."""
    chars: Longs


@dataclass(frozen=True)
class Lexicon:
    """Vocabularies and which of their words translate each other."""

    src: Vocabulary
    tgt: Vocabulary
    table: Table

    def observe(self, pairs: Pairs) -> tuple[Side, Side]:
        """Return both sides of pairs."""
        src, tgt = (_read([pair[side] for pair in pairs], words) for side, words in enumerate((self.src, self.tgt)))
        levels: list[tuple[Longs, Longs]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for s, t, cells in chunks(src.tokens, tgt.tokens):
            at, forward, backward = self.table.find(cells.keys)
            explained = [
                np.bincount(index[at], probability, minlength=len(words.ids))
                / np.repeat(np.maximum(given.lengths, 1), words.lengths)
                / vocabulary.share[words.ids]
                for index, probability, words, given, vocabulary in (
                    (cells.rows, backward, s, t, self.src),
                    (cells.columns, forward, t, s, self.tgt),
                )
            ]
            levels.append((np.digitize(explained[0], LEVELS), np.digitize(explained[1], LEVELS)))
        of_src, of_tgt = (np.concatenate(parts) for parts in zip(*levels, strict=True))
        return replace(src, levels=of_src), replace(tgt, levels=of_tgt)


@dataclass(frozen=True)
class Weights:
    """How much each level of each word speaks for a pair, (words, levels): log likelihood ratios."""

    src: Floats
    tgt: Floats
    median: float
    """Median log length ratio."""
    spread: float
    """Its median absolute deviation."""

    @classmethod
    def learn(cls, lexicon: Lexicon, good: tuple[Side, Side], bad: tuple[Side, Side]) -> Weights:
        """Learn from pairs as they are, most of them good, and from misaligned ones."""
        ratios = _log_ratio(good)
        median = float(np.median(ratios))
        src, tgt = (
            _log_likelihood_ratios(of_good, of_bad, vocabulary)
            for of_good, of_bad, vocabulary in zip(good, bad, (lexicon.src, lexicon.tgt), strict=True)
        )
        return cls(src, tgt, median, float(np.median(np.abs(ratios - median))) + 1e-3)

    def features(self, pairs: tuple[Side, Side]) -> Floats:
        """Return numbers that tell good pairs from others (pairs, features)."""
        src, tgt = pairs
        of_src, of_tgt = _sums(src, self.src), _sums(tgt, self.tgt)
        z = np.clip((_log_ratio(pairs) - self.median) / (1.5 * self.spread), -_MAX_SPREADS, _MAX_SPREADS)
        longer, shorter = np.maximum(z, 0), np.maximum(-z, 0)  # of the source
        columns = [*of_src, *of_tgt, *map(np.minimum, of_src[:5], of_tgt[:5])]
        columns += [src.unknown, tgt.unknown, src.last_unknown, tgt.last_unknown]
        columns += [src.marked & ~tgt.marked, tgt.marked & ~src.marked, longer, shorter, z**2]
        # a cut side: the other one is too long, and its end or beginning is not explained
        columns += [longer * of_src[3], shorter * of_tgt[3], longer * of_src[5], shorter * of_tgt[5]]
        columns += [longer * (src.marked & ~tgt.marked), shorter * (tgt.marked & ~src.marked)]
        return np.stack(columns, axis=1).astype(np.float64)


def _read(lines: Sequence[str], vocabulary: Vocabulary) -> Side:
    words, ends = split_words(lines)
    numbers = vocabulary.numbers(words)
    known = Tokens(numbers, ends).where(numbers >= 0)
    last = numbers[ends - 1] if len(numbers) else np.zeros(len(lines))
    lengths = np.diff(ends, prepend=0)
    tokens = known.rarest(_WORDS)
    return Side(
        tokens,
        np.zeros(len(tokens.ids), np.int64),
        1 - known.lengths / np.maximum(lengths, 1),
        (last < 0) & (lengths > 0),
        np.array([not line[-1:].isalnum() for line in lines]),
        np.array([len(line) for line in lines]),
    )


def _log_ratio(pairs: tuple[Side, Side]) -> Floats:
    src, tgt = pairs
    return np.log((src.chars + 5) / (tgt.chars + 5))


def _log_likelihood_ratios(good: Side, bad: Side, vocabulary: Vocabulary) -> Floats:
    frequency = np.log2(vocabulary.counts + 1).astype(np.int64)
    shares = []
    for side in (good, bad):
        counts = np.bincount(side.tokens.ids * 4 + side.levels, minlength=4 * len(frequency)).reshape(-1, 4)
        of_alike = np.full((int(frequency.max(initial=0)) + 1, 4), 0.5)
        np.add.at(of_alike, frequency, counts)  # what is usual for words of about this frequency
        usual = (of_alike / of_alike.sum(axis=1, keepdims=True))[frequency]
        shares.append((counts + _SHRINK * usual) / (counts.sum(axis=1, keepdims=True) + _SHRINK))
    ratios = np.clip(np.log(shares[0] / shares[1]), -_MAX_WEIGHT, _MAX_WEIGHT)
    return np.rint(ratios * 1024) / 1024  # so that sums are exact, in whatever order


def _sums(side: Side, weights: Floats) -> list[Floats]:
    """Return of each pair: the sum of the weights of its words, and the lowest sums of a last and of a first part."""
    tokens, n = side.tokens, len(side.tokens.ends)
    sums = np.concatenate(([0.0], np.cumsum(weights[tokens.ids, side.levels])))
    before = sums[tokens.starts]
    # the sums before the first word of a sentence, after it, after the second …
    starts = tokens.starts + np.arange(n)
    running = np.empty(len(tokens.ids) + n)
    running[starts] = before
    running[np.arange(len(tokens.ids)) + tokens.sentence + 1] = sums[1:]
    total = sums[tokens.ends] - before
    if n:
        last = sums[tokens.ends] - np.maximum.reduceat(running, starts)
        first = np.minimum.reduceat(running, starts) - before
    else:
        last = first = total
    length = np.maximum(tokens.lengths, 1)
    root = np.sqrt(length)
    return [total, total / length, total / root, last, last / root, first, first / root, np.log1p(tokens.lengths)]
