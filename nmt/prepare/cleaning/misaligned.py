"""Pairs whose sides do not translate each other: shifted by some lines, of another document, cut.

What good pairs look like is learned from the corpora themselves, of which up to a third may be bad: which words
translate each other (`lexicon`), how reliably each word does, how the lengths compare. What bad pairs look like is
learned from pairs made of the same text: sentences paired at random, or cut. A logistic regression tells one
from the other.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nmt.prepare.cleaning.lexicon import Entries, Table, chunks
from nmt.prepare.cleaning.words import Bools, Floats, Longs, Tokens, Vocabulary, read_words, split_words

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
    weights: Floats = np.rint(ratios * 1024) / 1024  # so that sums are exact, in whatever order
    return weights


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


MIN_PAIRS = 1000
"""With fewer pairs nothing is learned, and none is dropped."""
_WEIGHT_PAIRS, _FIT_PAIRS = 100_000, 20_000
_BLOCK_PAIRS = 8192
_MIN_WORDS = 2  # a pair with fewer words that are known on a side is not judged
_MOST_CAUGHT, _LEAST_CAUGHT = 0.99, 0.3  # of pairs made badly; what catches fewer cannot tell good from bad
_MOSTLY_BAD = 0.8  # below the score of this share of the bad pairs there are hardly any good ones
_WORST = 0.3  # share of the pairs that may be bad
_CUTS = (0.3, 0.5, 0.7, 0.4, 0.6)


@dataclass(frozen=True)
class Misaligned:
    """Drops pairs whose sides do not translate each other."""

    max_loss: float
    """The share of good pairs that may be lost, at most, as far as it can be estimated."""
    reason: str = "misaligned"
    per_corpus: bool = True

    def learn(self, pairs: Pairs) -> bytes:
        """Return what good pairs look like, the same bytes each time; nothing if it cannot be told from these pairs."""
        if len(pairs) < MIN_PAIRS:
            return b""
        # how many can be dropped is seen in pairs that are unknown: a bad pair looks better to what has learned from it
        share = _share(*_Judge.learn(pairs[::2], pairs[1::2])[1:], self.max_loss)
        if share is None:
            return b""
        judge, own, _ = _Judge.learn(pairs, pairs)
        own = np.sort(own)
        return judge.to_bytes(float(own[int(share * len(own))]))

    def dropped(self, learned: bytes, pairs: Pairs) -> Bools:
        """Return which of the pairs (N,) are to be dropped."""
        result = np.zeros(len(pairs), bool)
        if not learned:
            return result
        judge, threshold = _judge(learned)
        for start in range(0, len(pairs), _BLOCK_PAIRS):
            result[start : start + _BLOCK_PAIRS] = judge.scores(pairs[start : start + _BLOCK_PAIRS]) < threshold
        return result

    def warning(self, learned: bytes) -> str | None:
        """Return why nothing is dropped, if nothing was learned."""
        return None if learned else f"fewer than {MIN_PAIRS:,} pairs to learn from, or too few good ones"


@dataclass(frozen=True)
class _Judge:
    """Tells good pairs from bad ones."""

    entries: Entries
    lexicon: Lexicon
    weights: Weights
    coefficients: Floats

    @classmethod
    def learn(cls, known: Pairs, unknown: Pairs) -> tuple[_Judge, Floats, Floats]:
        """Learn a lexicon from some pairs, and from others how far it explains them.

        Returns also the scores of some of the others, and of bad pairs made of them, as far as they can be judged.
        """
        entries, lexicon = _learn_lexicon(known)
        sample = _sample(unknown, _WEIGHT_PAIRS)
        weights = Weights.learn(lexicon, lexicon.observe(sample), lexicon.observe(_repaired(sample, 7)))
        sample = _sample(unknown, _FIT_PAIRS)
        own = weights.features(lexicon.observe(sample))
        made = weights.features(lexicon.observe(_made(sample)))
        judge = cls(entries, lexicon, weights, _fit(own, made))
        scores = judge.scores(sample)
        # bad pairs made of bad ones would be too easy to tell
        good = [sample[i] for i in np.sort(np.argsort(scores, kind="stable")[int(_WORST * len(scores)) :])]
        made_scores = judge.scores(_made(good))
        return judge, scores[np.isfinite(scores)], made_scores[np.isfinite(made_scores)]

    def scores(self, pairs: Pairs) -> Floats:
        """Return how good each pair is; infinite if it cannot be judged."""
        sides = self.lexicon.observe(pairs)
        scores = _scores(self.weights.features(sides), self.coefficients)
        scores[np.minimum(*(side.tokens.lengths for side in sides)) < _MIN_WORDS] = np.inf
        return scores

    def to_bytes(self, threshold: float) -> bytes:
        """Return the judge, and the score below which pairs are dropped."""
        entries, lexicon, weights = self.entries, self.lexicon, self.weights
        file = io.BytesIO()
        np.savez(
            file,
            keys=entries.keys,
            forward=entries.forward,
            backward=entries.backward,
            src_stems=_packed(lexicon.src.stems),
            tgt_stems=_packed(lexicon.tgt.stems),
            src_counts=lexicon.src.counts,
            tgt_counts=lexicon.tgt.counts,
            src_weights=weights.src.astype(np.float32),
            tgt_weights=weights.tgt.astype(np.float32),
            numbers=np.array([weights.median, weights.spread, threshold, *self.coefficients]),
        )
        return file.getvalue()


@lru_cache(maxsize=1)
def _judge(learned: bytes) -> tuple[_Judge, float]:
    with np.load(io.BytesIO(learned)) as arrays:
        src, tgt = (Vocabulary(_unpacked(arrays[f"{name}_stems"]), arrays[f"{name}_counts"]) for name in ("src", "tgt"))
        src_weights, tgt_weights = (arrays[f"{name}_weights"].astype(np.float64) for name in ("src", "tgt"))
        entries = Entries(arrays["keys"], arrays["forward"], arrays["backward"])
        median, spread, threshold, *coefficients = arrays["numbers"].tolist()
    weights = Weights(src_weights, tgt_weights, median, spread)
    return _Judge(entries, Lexicon(src, tgt, Table(entries)), weights, np.array(coefficients)), threshold


def _packed(stems: Sequence[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("\n".join(stems).encode(errors="surrogatepass"), np.uint8)


def _unpacked(stems: npt.NDArray[np.uint8]) -> list[str]:
    return stems.tobytes().decode(errors="surrogatepass").split("\n")


def _learn_lexicon(pairs: Pairs) -> tuple[Entries, Lexicon]:
    src_words, src = read_words([src for src, _ in pairs])
    tgt_words, tgt = read_words([tgt for _, tgt in pairs])
    entries = Entries.learn(src, tgt, src_words, tgt_words)
    return entries, Lexicon(src_words, tgt_words, Table(entries))


def _sample(pairs: Pairs, most: int) -> Pairs:
    return pairs[:: -(-len(pairs) // most)]


def _made(pairs: Pairs) -> list[tuple[str, str]]:
    """Make bad pairs of good ones: paired anew, with lengths that fit and with any, and cut."""
    far = len(pairs) // 3
    crossed = [(src, tgt) for (src, _), (_, tgt) in zip(pairs, [*pairs[far:], *pairs[:far]], strict=True)]
    return [*_repaired(pairs, 11), *crossed, *_cut(pairs)]


def _repaired(pairs: Pairs, distance: int) -> list[tuple[str, str]]:
    """Pair each source with a target of about the same length as its own."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))
    return [(pairs[i][0], pairs[order[(n + distance) % len(order)]][1]) for n, i in enumerate(order)]


def _cut(pairs: Pairs) -> list[tuple[str, str]]:
    """Cut one side of each pair in the middle."""
    result = []
    for i, (src, tgt) in enumerate(pairs):
        share = _CUTS[i // 2 % len(_CUTS)]
        result.append((src[: int(len(src) * share)], tgt) if i % 2 else (src, tgt[: int(len(tgt) * share)]))
    return result


def _fit(good: Floats, bad: Floats) -> Floats:
    """Return the coefficients of a logistic regression, that of the constant last."""
    x = np.concatenate((good, bad))
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    x = np.concatenate(((x - mean) / scale, np.ones((len(x), 1))), axis=1)
    y = np.arange(len(x)) < len(good)
    coefficients = np.zeros(x.shape[1])
    for _ in range(12):  # Newton's method
        p = 1 / (1 + np.exp(-(x * coefficients).sum(axis=1)))
        gradient = (x * (y - p)[:, None]).sum(axis=0) - coefficients
        # not by BLAS, whose last bits depend on the number of threads
        hessian = np.einsum("ni,nj->ij", x * (p * (1 - p))[:, None], x) + np.eye(len(coefficients))
        coefficients += np.linalg.solve(hessian, gradient)
    coefficients[:-1] /= scale
    coefficients[-1] -= (coefficients[:-1] * mean).sum()
    return np.array([float(f"{c:.6g}") for c in coefficients])


def _scores(features: Floats, coefficients: Floats) -> Floats:
    # not by BLAS, whose last bits depend on the number of threads
    scores: Floats = (features * coefficients[:-1]).sum(axis=1) + coefficients[-1]
    return scores


def _share(own: Floats, made: Floats, max_loss: float) -> float | None:
    """Return the share of pairs to drop, so that enough bad ones are, or as many as possible if no more good ones are
    lost; None if too few bad ones would be."""
    if not len(own) or not len(made):
        return None
    own, made = np.sort(own), np.sort(made)
    below = np.arange(len(own)) / len(own)
    caught = np.searchsorted(made, own) / len(made)
    # hardly any good ones are where most of the bad ones are
    bad = min(0.5, float(np.searchsorted(own, made[int(_MOSTLY_BAD * len(made))])) / len(own) / _MOSTLY_BAD)
    lost = (below - bad * caught) / (1 - bad)
    most = np.flatnonzero((lost <= max_loss) & (caught <= _MOST_CAUGHT))
    return float(below[most[-1]]) if len(most) and caught[most[-1]] >= _LEAST_CAUGHT else None
