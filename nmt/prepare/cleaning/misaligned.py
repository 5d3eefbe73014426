"""A filter for pairs whose sides are not translations of each other, based on a lexicon learned from the corpus.

Good pairs are learned from the corpus itself, of which up to a third may be bad: which words translate each other, how
reliably each word does, and how the lengths compare. Bad pairs are made from the same text by pairing sentences at
random, or by cutting them. A logistic regression separates the two.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.text.ids import Numbers
from nmt.text.lexicon import Bools, Floats, Lexicon, Tokens, Vocabulary, chunks, split_words
from nmt.text.lines import TextPair

TextPairs = Sequence[TextPair]
LEVELS = np.array([1.0, 3.5, 17.0])
"""Limits between the four levels of a word: how much the other side raises its probability above chance."""
_WORDS = 24  # only the rarest of a sentence are used
_SHRINK = 5.0
_MAX_WEIGHT = 4.0
_MAX_SPREADS = 8.0


@dataclass(frozen=True)
class Side:
    """One side of several pairs."""

    tokens: Tokens
    """The words in the vocabulary, at most the `_WORDS` rarest of each sentence."""
    levels: Numbers
    """How well the other side explains each word, by `LEVELS`."""
    unknown: Floats
    """The share of words that are not in the vocabulary."""
    last_unknown: Bools
    """Whether the last word is not in the vocabulary."""
    marked: Bools
    """Whether the side ends with a character that is neither letter nor digit."""
    chars: Numbers


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


def observe(lexicon: Lexicon, pairs: TextPairs) -> tuple[Side, Side]:
    """Return both sides of pairs, with a level for each word that rates how well the other side explains it."""
    src = _read([pair[0] for pair in pairs], lexicon.src)
    tgt = _read([pair[1] for pair in pairs], lexicon.tgt)
    src_levels = [np.zeros(0, np.int64)]
    tgt_levels = [np.zeros(0, np.int64)]
    for src_part, tgt_part, cells in chunks(src.tokens, tgt.tokens):
        at, forward, backward = lexicon.find(cells.keys)
        src_levels.append(_levels(cells.rows[at], backward, src_part, tgt_part, lexicon.src))
        tgt_levels.append(_levels(cells.columns[at], forward, tgt_part, src_part, lexicon.tgt))
    return replace(src, levels=np.concatenate(src_levels)), replace(tgt, levels=np.concatenate(tgt_levels))


def _levels(
    links: Numbers, probabilities: Floats, words: Tokens, translated: Tokens, vocabulary: Vocabulary
) -> Numbers:
    """Return the level of each word, given the word and the probability of each link with an entry in the lexicon."""
    sums = np.bincount(links, probabilities, minlength=len(words.ids))
    explained = sums / np.repeat(np.maximum(translated.lengths, 1), words.lengths) / vocabulary.share[words.ids]
    levels: Numbers = np.digitize(explained, LEVELS)
    return levels


def _log_ratio(pairs: tuple[Side, Side]) -> Floats:
    src, tgt = pairs
    return np.log((src.chars + 5) / (tgt.chars + 5))


def _log_likelihood_ratios(good: Side, bad: Side, vocabulary: Vocabulary) -> Floats:
    frequency = np.log2(vocabulary.counts + 1).astype(np.int64)
    shares = []
    for side in (good, bad):
        counts = np.bincount(side.tokens.ids * 4 + side.levels, minlength=4 * len(frequency)).reshape(-1, 4)
        of_alike = np.full((int(frequency.max(initial=0)) + 1, 4), 0.5)
        np.add.at(of_alike, frequency, counts)  # the usual counts of words of about this frequency
        usual = (of_alike / of_alike.sum(axis=1, keepdims=True))[frequency]
        shares.append((counts + _SHRINK * usual) / (counts.sum(axis=1, keepdims=True) + _SHRINK))
    ratios = np.clip(np.log(shares[0] / shares[1]), -_MAX_WEIGHT, _MAX_WEIGHT)
    weights: Floats = np.rint(ratios * 1024) / 1024  # sums of these are exact in any order
    return weights


def _sums(side: Side, weights: Floats) -> list[Floats]:
    """Return for each pair the sum of the weights of its words, and the lowest sums over its last and first words."""
    tokens = side.tokens
    n = len(side.tokens.ends)
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


SAMPLE_PAIRS = 500_000
"""Maximum number of pairs from which the filter is learned."""
MIN_PAIRS = 1000
"""Minimum number of pairs from which a filter is learned; with fewer pairs, none is dropped."""
_WEIGHT_PAIRS = 100_000
_FIT_PAIRS = 20_000
_BLOCK_PAIRS = 8192
_MIN_WORDS = 2  # a pair with fewer known words on a side is not judged
_MOST_CAUGHT, _LEAST_CAUGHT = 0.99, 0.3  # of the made bad pairs; a filter that catches fewer is not used
_MOSTLY_BAD = 0.8  # below the score of this share of the bad pairs there are hardly any good ones
_WORST = 0.3  # share of the pairs that may be bad
_CUTS = (0.3, 0.5, 0.7, 0.4, 0.6)


def learn_filter(pairs: TextPairs, max_loss: float) -> bytes:
    """Learn a filter for misaligned pairs from a sample of a corpus, at most `SAMPLE_PAIRS` pairs.

    `max_loss`: the maximum share of good pairs to lose, as far as it can be estimated. Equal pairs give equal bytes; no
    bytes if the pairs do not suffice.
    """
    if len(pairs) < MIN_PAIRS:
        return b""
    # the share to drop is estimated on pairs that were not learned from: a known bad pair looks better
    share = _share(*Judge.learn(pairs[::2], pairs[1::2])[1:], max_loss)
    if share is None:
        return b""
    judge, scores, _ = Judge.learn(pairs, pairs)
    file = io.BytesIO()
    arrays: dict[str, Any] = judge.arrays() | {"threshold": np.sort(scores)[int(share * len(scores))]}
    np.savez(file, **arrays)
    return file.getvalue()


def is_misaligned(pairs: TextPairs, learned: bytes) -> Bools:
    """Return whether each pair is misaligned (N,), according to a filter from `learn_filter`."""
    result = np.zeros(len(pairs), bool)
    if not learned:
        return result
    judge, threshold = _load(learned)
    for start in range(0, len(pairs), _BLOCK_PAIRS):
        result[start : start + _BLOCK_PAIRS] = judge.scores(pairs[start : start + _BLOCK_PAIRS]) < threshold
    return result


@lru_cache(maxsize=1)
def _load(learned: bytes) -> tuple[Judge, float]:
    with np.load(io.BytesIO(learned)) as arrays:
        return Judge.of(arrays), float(arrays["threshold"])


@dataclass(frozen=True)
class Judge:
    """A model that scores how likely pairs are translations."""

    lexicon: Lexicon
    src_weights: Floats
    """Log likelihood ratios of good and bad pairs for each source word and level (words, levels)."""
    tgt_weights: Floats
    lengths: Floats
    """The median log length ratio, and its median absolute deviation (2,)."""
    coefficients: Floats
    """The coefficients of a logistic regression; the last one is the constant."""

    @classmethod
    def learn(cls, known: TextPairs, unknown: TextPairs) -> tuple[Judge, Floats, Floats]:
        """Learn a lexicon from `known` pairs, and from `unknown` pairs how to judge pairs by the lexicon.

        Return the model, the scores of some of the other pairs, and of bad pairs made from them, if they can be judged.
        """
        lexicon = Lexicon.learn(known)
        sample = _sample(unknown, _WEIGHT_PAIRS)
        good = observe(lexicon, sample)
        bad = observe(lexicon, _repaired(sample, 7))
        src_weights = _log_likelihood_ratios(good[0], bad[0], lexicon.src)
        tgt_weights = _log_likelihood_ratios(good[1], bad[1], lexicon.tgt)
        ratios = _log_ratio(good)
        median = np.median(ratios)
        lengths = np.array([median, np.median(np.abs(ratios - median)) + 1e-3])
        judge = cls(lexicon, src_weights, tgt_weights, lengths, np.zeros(0))
        sample = _sample(unknown, _FIT_PAIRS)
        features = judge.features(observe(lexicon, sample))
        bad_features = judge.features(observe(lexicon, _made(sample)))
        judge = replace(judge, coefficients=_fit(features, bad_features))
        scores = judge.scores(sample)
        # bad pairs made from bad pairs would be too easy to recognise
        order = np.argsort(scores, kind="stable")
        likely = [sample[i] for i in np.sort(order[int(_WORST * len(scores)) :])]
        bad_scores = judge.scores(_made(likely))
        return judge, scores[np.isfinite(scores)], bad_scores[np.isfinite(bad_scores)]

    def features(self, pairs: tuple[Side, Side]) -> Floats:
        """Return features of pairs, (pairs, features), that separate good from bad pairs."""
        src, tgt = pairs
        of_src = _sums(src, self.src_weights)
        of_tgt = _sums(tgt, self.tgt_weights)
        median, spread = self.lengths.tolist()
        z = np.clip((_log_ratio(pairs) - median) / (1.5 * spread), -_MAX_SPREADS, _MAX_SPREADS)
        longer, shorter = np.maximum(z, 0), np.maximum(-z, 0)  # of the source
        columns = [*of_src, *of_tgt, *map(np.minimum, of_src[:5], of_tgt[:5])]
        columns += [src.unknown, tgt.unknown, src.last_unknown, tgt.last_unknown]
        only_src = src.marked & ~tgt.marked
        only_tgt = tgt.marked & ~src.marked
        columns += [only_src, only_tgt, longer, shorter, z**2]
        # a cut side: the other one is too long, and its end or beginning is not explained
        columns += [longer * of_src[3], shorter * of_tgt[3], longer * of_src[5], shorter * of_tgt[5]]
        columns += [longer * only_src, shorter * only_tgt]
        return np.stack(columns, axis=1).astype(np.float64)

    def scores(self, pairs: TextPairs) -> Floats:
        """Return a score for each pair: higher is better, and infinite if the pair cannot be judged."""
        sides = observe(self.lexicon, pairs)
        # not by BLAS, whose last bits depend on the number of threads
        scores: Floats = (self.features(sides) * self.coefficients[:-1]).sum(axis=1) + self.coefficients[-1]
        n_words = np.minimum(sides[0].tokens.lengths, sides[1].tokens.lengths)
        scores[n_words < _MIN_WORDS] = np.inf
        return scores

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of the model by name, from which `of` constructs it."""
        lexicon = self.lexicon
        return {
            "src": np.array(lexicon.src.stems), "src_counts": lexicon.src.counts, "src_weights": self.src_weights,
            "tgt": np.array(lexicon.tgt.stems), "tgt_counts": lexicon.tgt.counts, "tgt_weights": self.tgt_weights,
            "keys": lexicon.keys, "forward": lexicon.forward, "backward": lexicon.backward,
            "lengths": self.lengths, "coefficients": self.coefficients,
        }  # fmt: skip

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Judge:
        """Construct the model from its arrays; see `arrays`."""
        src = Vocabulary(arrays["src"].tolist(), arrays["src_counts"])
        tgt = Vocabulary(arrays["tgt"].tolist(), arrays["tgt_counts"])
        lexicon = Lexicon(src, tgt, arrays["keys"], arrays["forward"], arrays["backward"])
        return cls(lexicon, arrays["src_weights"], arrays["tgt_weights"], arrays["lengths"], arrays["coefficients"])


def _sample(pairs: TextPairs, most: int) -> TextPairs:
    return pairs[:: -(-len(pairs) // most)]


def _made(pairs: TextPairs) -> list[TextPair]:
    """Make bad pairs from good ones: with another target of similar length, with any other target, and truncated."""
    far = len(pairs) // 3
    crossed = [(src, tgt) for (src, _), (_, tgt) in zip(pairs, [*pairs[far:], *pairs[:far]], strict=True)]
    return [*_repaired(pairs, 11), *crossed, *_cut(pairs)]


def _repaired(pairs: TextPairs, distance: int) -> list[TextPair]:
    """Pair each source with another target, of about the same length as its own target."""
    by_length = sorted(pairs, key=lambda pair: len(pair[1]))
    result = []
    for i, (src, _) in enumerate(by_length):
        _, tgt = by_length[(i + distance) % len(by_length)]
        result.append((src, tgt))
    return result


def _cut(pairs: TextPairs) -> list[TextPair]:
    """Truncate one side of each pair to a share of its length."""
    result = []
    for i, (src, tgt) in enumerate(pairs):
        share = _CUTS[i // 2 % len(_CUTS)]
        if i % 2:
            src = src[: int(len(src) * share)]
        else:
            tgt = tgt[: int(len(tgt) * share)]
        result.append((src, tgt))
    return result


def _fit(good: Floats, bad: Floats) -> Floats:
    """Return the coefficients of a logistic regression; the last one is the constant."""
    x = np.concatenate((good, bad))
    mean = x.mean(axis=0)
    scale = x.std(axis=0) + 1e-6
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


def _share(scores: Floats, bad_scores: Floats, max_loss: float) -> float | None:
    """Return the share of pairs to drop, or None if dropping them would catch too few bad pairs.

    It is the share that catches enough bad pairs, or the largest one that does not lose more than `max_loss` of the
    good pairs.
    """
    if not len(scores) or not len(bad_scores):
        return None
    scores = np.sort(scores)
    bad_scores = np.sort(bad_scores)
    below = np.arange(len(scores)) / len(scores)
    caught = np.searchsorted(bad_scores, scores) / len(bad_scores)
    # hardly any good pairs score below most of the bad ones
    limit = bad_scores[int(_MOSTLY_BAD * len(bad_scores))]
    bad = min(0.5, float(np.searchsorted(scores, limit)) / len(scores) / _MOSTLY_BAD)
    lost = (below - bad * caught) / (1 - bad)
    most = np.flatnonzero((lost <= max_loss) & (caught <= _MOST_CAUGHT))
    if not len(most) or caught[most[-1]] < _LEAST_CAUGHT:
        return None
    return float(below[most[-1]])
