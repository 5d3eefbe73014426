"""Pairs whose sides do not translate each other: shifted by some lines, of another document, cut.

What good pairs look like is learned from the corpora themselves, of which up to a third may be bad: which words
translate each other (`lexicon`), how reliably each word does, how the lengths compare. What bad pairs look like is
learned from pairs made of the same text: sentences paired at random, or cut. A logistic regression tells one
from the other.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nmt.prepare.cleaning.evidence import Lexicon, Pairs, Weights
from nmt.prepare.cleaning.lexicon import Entries, Table
from nmt.prepare.cleaning.words import Bools, Floats, Tokens, Vocabulary, split_words

MIN_PAIRS = 1000
"""With fewer pairs nothing is learned, and none is dropped."""
_WEIGHT_PAIRS, _FIT_PAIRS = 100_000, 20_000
_BLOCK_PAIRS = 8192
_MIN_WORDS = 2  # a pair with fewer words that are known on a side is not judged
_MOST_CAUGHT, _LEAST_CAUGHT = 0.99, 0.3  # of pairs made badly; what catches fewer cannot tell good from bad
_MOSTLY_BAD = 0.7  # below the score of this share of the bad pairs there are hardly any good ones
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
        """Return a model of good pairs, the same bytes each time; none of too few pairs, or such that tell nothing."""
        if len(pairs) < MIN_PAIRS:
            return b""
        # how much may be caught is seen in pairs that the model does not know: the bad ones it knows look better
        unknown = pairs[1::2]
        caught = _catch(*_Model.learn(pairs[::2]).scores_of(unknown), self.max_loss)
        if caught < _LEAST_CAUGHT:
            return b""
        model = _Model.learn(pairs)
        _, made = model.scores_of(pairs)
        return model.to_bytes(float(np.quantile(made, caught)))

    def dropped(self, learned: bytes, pairs: Pairs) -> Bools:
        """Return which of the pairs (N,) are to be dropped."""
        result = np.zeros(len(pairs), bool)
        if not learned:
            return result
        model, threshold = _load(learned)
        for start in range(0, len(pairs), _BLOCK_PAIRS):
            result[start : start + _BLOCK_PAIRS] = model.scores(pairs[start : start + _BLOCK_PAIRS]) < threshold
        return result


def warning(learned: bytes) -> str | None:
    """Return why nothing is dropped, if nothing was learned."""
    if learned:
        return None
    return f"fewer than {MIN_PAIRS:,} pairs to learn from, or too few good ones"


@dataclass(frozen=True)
class _Model:
    """What good pairs look like."""

    lexicon: Lexicon
    weights: Weights
    coefficients: Floats
    entries: Entries

    @classmethod
    def learn(cls, pairs: Pairs) -> _Model:
        vocabularies, tokens = [], []
        for side in (0, 1):
            words, ends = split_words([pair[side] for pair in pairs])
            vocabularies.append(Vocabulary.of(words))
            numbers = vocabularies[-1].numbers(words)
            tokens.append(Tokens(numbers, ends).where(numbers >= 0))
        src, tgt = vocabularies
        entries = Entries.learn(*tokens, src, tgt)
        lexicon = Lexicon(src, tgt, Table(entries))
        sample = _sample(pairs, _WEIGHT_PAIRS)
        weights = Weights.learn(lexicon, lexicon.observe(sample), lexicon.observe(_repaired(sample, 7)))
        sample = _sample(pairs, _FIT_PAIRS)
        own, *parts = (
            weights.features(lexicon.observe(some)) for some in (sample, _repaired(sample, 11), _cut(sample))
        )
        made = np.concatenate(parts)
        first = _fit(own, made)
        # once more without those that are most likely bad themselves
        clear = _scores(own, first) > np.quantile(_scores(made, first), _MOSTLY_BAD)
        return cls(lexicon, weights, _fit(own[clear], made), entries)

    def scores(self, pairs: Pairs) -> Floats:
        """Return how good each pair is; infinite if it cannot be judged."""
        sides = self.lexicon.observe(pairs)
        scores = _scores(self.weights.features(sides), self.coefficients)
        scores[np.minimum(*(side.tokens.lengths for side in sides)) < _MIN_WORDS] = np.inf
        return scores

    def scores_of(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """Return the scores of some of the pairs, and of bad ones made of them."""
        sample = _sample(pairs, _FIT_PAIRS)
        own = self.scores(sample)
        better = own > np.quantile(own, _WORST)  # a bad pair made of a bad one would be too easy to tell
        good = [pair for pair, is_good in zip(sample, better, strict=True) if is_good]
        return own, np.concatenate((self.scores(_repaired(good, 11)), self.scores(_cut(good))))

    def to_bytes(self, threshold: float) -> bytes:
        """Return the model and a threshold of scores."""
        entries, lexicon, weights = self.entries, self.lexicon, self.weights
        arrays = {"keys": entries.keys, "forward": entries.forward, "backward": entries.backward}
        for name, vocabulary, of_words in (("src", lexicon.src, weights.src), ("tgt", lexicon.tgt, weights.tgt)):
            arrays[f"{name}_words"] = np.frombuffer("\n".join(vocabulary.stems).encode(), np.uint8)
            arrays[f"{name}_counts"] = vocabulary.counts
            arrays[f"{name}_weights"] = of_words.astype(np.float32)
        numbers = np.array([weights.median, weights.spread, threshold, *self.coefficients])
        file = io.BytesIO()
        np.savez(file, numbers=numbers, **arrays)
        return file.getvalue()


@lru_cache(maxsize=1)
def _load(learned: bytes) -> tuple[_Model, float]:
    with np.load(io.BytesIO(learned)) as arrays:
        src, tgt = (
            Vocabulary(arrays[f"{name}_words"].tobytes().decode().split("\n"), arrays[f"{name}_counts"])
            for name in ("src", "tgt")
        )
        of_words = [arrays[f"{name}_weights"].astype(np.float64) for name in ("src", "tgt")]
        entries = Entries(arrays["keys"], arrays["forward"], arrays["backward"])
        median, spread, threshold, *coefficients = arrays["numbers"].tolist()
    lexicon = Lexicon(src, tgt, Table(entries))
    return _Model(lexicon, Weights(*of_words, median, spread), np.array(coefficients), entries), threshold


def _sample(pairs: Pairs, most: int) -> Pairs:
    return pairs[:: -(-len(pairs) // most)]


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
    return (features * coefficients[:-1]).sum(axis=1) + coefficients[-1]


def _catch(own: Floats, made: Floats, max_loss: float) -> float:
    """Return the share of bad pairs that can be caught: as many as are enough, if no more good ones are lost."""
    own, made = np.sort(own), np.sort(made)
    below = np.arange(len(own)) / len(own)
    caught = np.searchsorted(made, own) / len(made)
    # hardly any good ones are where most of the bad ones are
    bad = min(0.5, float(np.searchsorted(own, np.quantile(made, _MOSTLY_BAD))) / len(own) / _MOSTLY_BAD)
    lost = (below - bad * caught) / (1 - bad)
    return min(float(caught[lost <= max_loss].max(initial=0.0)), _MOST_CAUGHT)
