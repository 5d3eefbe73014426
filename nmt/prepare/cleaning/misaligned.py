"""A filter for pairs whose sides are not translations of each other, based on a lexicon learned from the corpus.

Good pairs are learned from the corpus itself, of which up to a third may be bad: which words translate each other, how
reliably each word does, and how the lengths compare. Bad pairs are made from the same text by pairing sentences at
random, or by cutting them. A logistic regression separates the two.
"""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.languages.scripts import KANA, character_class
from nmt.text.blocks import ranges
from nmt.text.lexicon import links
from nmt.text.split import CLAUSE_MARKS, COMMAS, SENTENCE_MARKS
from nmt.text.words import UNSPACED

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

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


def split_words(lines: Sequence[str]) -> tuple[list[str], Longs]:
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
    words: list[str] = []
    for i, line in enumerate(text.split("\n")):
        words += line.split()
        ends[i] = len(words)
    return words, ends


@dataclass(frozen=True)
class Tokens:
    """The words of several sentences, as indices in a vocabulary."""

    ids: Longs
    ends: Longs
    """The end of each sentence in `ids`."""

    @property
    def starts(self) -> Longs:
        """The start of each sentence in `ids`."""
        return self.ends - self.lengths

    @property
    def lengths(self) -> Longs:
        """The number of words of each sentence."""
        return np.diff(self.ends, prepend=0)

    @property
    def sentence(self) -> Longs:
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

    def take(self, sentences: Longs) -> Tokens:
        """Return the words of the given sentences."""
        lengths = self.lengths[sentences]
        return Tokens(self.ids[ranges(self.starts[sentences], lengths)], np.cumsum(lengths))


class Vocabulary:
    """The words of one language that are frequent enough for statistics, sorted from the rarest."""

    def __init__(self, stems: Sequence[str], counts: Longs) -> None:
        self.stems, self.counts = stems, counts
        self.share: Floats = counts / max(1, counts.sum())
        """The relative frequency of each word in the text."""
        self._ids = {stem: i for i, stem in enumerate(stems)}

    @classmethod
    def of(cls, words: Mapping[str, int]) -> Vocabulary:
        """Return the vocabulary of a text, given the number of occurrences of each word."""
        counts: Counter[str] = Counter()
        for word, n in words.items():
            counts[word[:_STEM]] += n
        chosen = sorted((n, stem) for stem, n in counts.items() if n >= _MIN_COUNT)[-(2**ID_BITS) :]
        return cls([stem for _, stem in chosen], np.array([n for n, _ in chosen], np.int64))

    def numbers(self, words: Sequence[str]) -> Longs:
        """Return the index of each word in this vocabulary, or -1 if it is not in it."""
        known = {word: self._ids.get(word[:_STEM], -1) for word in set(words)}
        return np.fromiter(map(known.__getitem__, words), np.int64, len(words))


def read_words(lines: Sequence[str]) -> tuple[Vocabulary, Tokens]:
    """Return the vocabulary of some lines, and the words of the lines that are in the vocabulary."""
    seen: defaultdict[str, int] = defaultdict()
    seen.default_factory = seen.__len__  # a new word gets the next number
    parts, ends = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
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
_SHIFT, _LOW = np.uint32(ID_BITS), np.uint32(2**ID_BITS - 1)


class Cells(NamedTuple):
    """All combinations of a source word and a target word within each of several pairs of sentences."""

    keys: Keys
    """The number of the source word in the upper bits, and of the target word in the lower bits."""
    rows: Longs
    """The index of the source word among all source words."""
    columns: Longs
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
    def learn(cls, pairs: Pairs) -> Lexicon:
        """Learn a lexicon from sentences and their translations."""
        (src_words, src), (tgt_words, tgt) = (read_words([pair[side] for pair in pairs]) for side in (0, 1))
        n_cells = int((np.minimum(src.lengths, _LEARN_WORDS) * np.minimum(tgt.lengths, _LEARN_WORDS)).sum())
        if n_cells > _LEARN_CELLS:
            n = len(src.ends) * _LEARN_CELLS // n_cells
            chosen = np.arange(n) * len(src.ends) // n
            src, tgt = src.take(chosen), tgt.take(chosen)
        src, tgt = src.rarest(_LEARN_WORDS), tgt.rarest(_LEARN_WORDS)
        all_keys = np.concatenate([np.zeros(0, np.uint32), *(cells.keys for _, _, cells in chunks(src, tgt))])
        keys, entry = np.unique(all_keys, return_inverse=True)
        entry = entry.astype(np.int32)  # half the memory
        src_counts = np.bincount(src.ids, minlength=len(src_words.stems))[keys >> _SHIFT]
        tgt_counts = np.bincount(tgt.ids, minlength=len(tgt_words.stems))[keys & _LOW]
        forward = backward = np.ones(len(keys))
        for _ in range(_ITERATIONS):
            forward_sums, backward_sums = np.zeros(len(keys)), np.zeros(len(keys))
            start = 0
            for s, t, cells in chunks(src, tgt):
                e = entry[start : start + len(cells.keys)]
                start += len(e)
                np.add.at(forward_sums, e, _posterior(forward[e], cells.columns, tgt_words.share[t.ids], s, t))
                np.add.at(backward_sums, e, _posterior(backward[e], cells.rows, src_words.share[s.ids], t, s))
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

    def find(self, keys: Keys) -> tuple[Longs, Floats, Floats]:
        """Return the indices of the keys that have an entry, and their forward and backward probabilities."""
        slots, tags = _placed(keys)
        values = self._table[slots]
        at = np.flatnonzero((values >> np.uint32(16) == tags) & (values != 0))
        forward, backward = (((values[at] >> np.uint32(bits)) & np.uint32(255)) / 255 for bits in (8, 0))
        return at, forward**2, backward**2

    def observe(self, pairs: Pairs) -> tuple[Side, Side]:
        """Return both sides of pairs, with a level for each word that rates how well the other side explains it."""
        src, tgt = (_read([pair[side] for pair in pairs], words) for side, words in enumerate((self.src, self.tgt)))
        levels: list[tuple[Longs, Longs]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for s, t, cells in chunks(src.tokens, tgt.tokens):
            at, forward, backward = self.find(cells.keys)
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


def _placed(keys: Keys) -> tuple[Keys, Keys]:
    """Return the slots and tags of keys in a hash table."""
    mixed = keys * _MULTIPLIER
    return mixed >> np.uint32(32 - _SLOT_BITS), mixed & np.uint32(2 ** (32 - _SLOT_BITS) - 1)


def _posterior(probability: Floats, at: Longs, share: Floats, given: Tokens, words: Tokens) -> Floats:
    """Return for each cell the probability that its word in `words`, given by index `at`, translates the other word."""
    nothing = _NO_COUNTERPART / (1 - _NO_COUNTERPART) * share * np.repeat(given.lengths, words.lengths)
    return probability / (np.bincount(at, probability, minlength=len(share)) + nothing)[at]


Pairs = Sequence[tuple[str, str]]

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
    levels: Longs
    """How well the other side explains each word, by `LEVELS`."""
    unknown: Floats
    """The share of words that are not in the vocabulary."""
    last_unknown: Bools
    """Whether the last word is not in the vocabulary."""
    marked: Bools
    """Whether the side ends with a character that is neither letter nor digit."""
    chars: Longs


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
        np.add.at(of_alike, frequency, counts)  # the usual counts of words of about this frequency
        usual = (of_alike / of_alike.sum(axis=1, keepdims=True))[frequency]
        shares.append((counts + _SHRINK * usual) / (counts.sum(axis=1, keepdims=True) + _SHRINK))
    ratios = np.clip(np.log(shares[0] / shares[1]), -_MAX_WEIGHT, _MAX_WEIGHT)
    weights: Floats = np.rint(ratios * 1024) / 1024  # sums of these are exact in any order
    return weights


def _sums(side: Side, weights: Floats) -> list[Floats]:
    """Return for each pair the sum of the weights of its words, and the lowest sums over its last and first words."""
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


SAMPLE_PAIRS = 500_000
"""Maximum number of pairs from which the filter is learned."""
MIN_PAIRS = 1000
"""Minimum number of pairs from which a filter is learned; with fewer pairs, none is dropped."""
_WEIGHT_PAIRS, _FIT_PAIRS = 100_000, 20_000
_BLOCK_PAIRS = 8192
_MIN_WORDS = 2  # a pair with fewer known words on a side is not judged
_MOST_CAUGHT, _LEAST_CAUGHT = 0.99, 0.3  # of the made bad pairs; a filter that catches fewer is not used
_MOSTLY_BAD = 0.8  # below the score of this share of the bad pairs there are hardly any good ones
_WORST = 0.3  # share of the pairs that may be bad
_CUTS = (0.3, 0.5, 0.7, 0.4, 0.6)


def learn_filter(pairs: Pairs, max_loss: float) -> bytes:
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
    judge, own, _ = Judge.learn(pairs, pairs)
    own = np.sort(own)
    file = io.BytesIO()
    arrays: dict[str, Any] = judge.arrays() | {"threshold": own[int(share * len(own))]}
    np.savez(file, **arrays)
    return file.getvalue()


def is_misaligned(pairs: Pairs, learned: bytes) -> Bools:
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
    def learn(cls, known: Pairs, unknown: Pairs) -> tuple[Judge, Floats, Floats]:
        """Learn a lexicon from `known` pairs, and from `unknown` pairs how to judge pairs by the lexicon.

        Return the model, the scores of some of the other pairs, and of bad pairs made from them, if they can be judged.
        """
        lexicon = Lexicon.learn(known)
        sample = _sample(unknown, _WEIGHT_PAIRS)
        good, bad = lexicon.observe(sample), lexicon.observe(_repaired(sample, 7))
        weights = [
            _log_likelihood_ratios(one, other, words)
            for one, other, words in zip(good, bad, (lexicon.src, lexicon.tgt), strict=True)
        ]
        ratios = _log_ratio(good)
        median = np.median(ratios)
        lengths = np.array([median, np.median(np.abs(ratios - median)) + 1e-3])
        judge = cls(lexicon, weights[0], weights[1], lengths, np.zeros(0))
        sample = _sample(unknown, _FIT_PAIRS)
        own, made = (judge.features(lexicon.observe(each)) for each in (sample, _made(sample)))
        judge = replace(judge, coefficients=_fit(own, made))
        scores = judge.scores(sample)
        # bad pairs made from bad pairs would be too easy to recognise
        likely = [sample[i] for i in np.sort(np.argsort(scores, kind="stable")[int(_WORST * len(scores)) :])]
        made_scores = judge.scores(_made(likely))
        return judge, scores[np.isfinite(scores)], made_scores[np.isfinite(made_scores)]

    def features(self, pairs: tuple[Side, Side]) -> Floats:
        """Return features of pairs, (pairs, features), that separate good from bad pairs."""
        src, tgt = pairs
        of_src, of_tgt = _sums(src, self.src_weights), _sums(tgt, self.tgt_weights)
        median, spread = self.lengths.tolist()
        z = np.clip((_log_ratio(pairs) - median) / (1.5 * spread), -_MAX_SPREADS, _MAX_SPREADS)
        longer, shorter = np.maximum(z, 0), np.maximum(-z, 0)  # of the source
        columns = [*of_src, *of_tgt, *map(np.minimum, of_src[:5], of_tgt[:5])]
        columns += [src.unknown, tgt.unknown, src.last_unknown, tgt.last_unknown]
        columns += [src.marked & ~tgt.marked, tgt.marked & ~src.marked, longer, shorter, z**2]
        # a cut side: the other one is too long, and its end or beginning is not explained
        columns += [longer * of_src[3], shorter * of_tgt[3], longer * of_src[5], shorter * of_tgt[5]]
        columns += [longer * (src.marked & ~tgt.marked), shorter * (tgt.marked & ~src.marked)]
        return np.stack(columns, axis=1).astype(np.float64)

    def scores(self, pairs: Pairs) -> Floats:
        """Return a score for each pair: higher is better, and infinite if the pair cannot be judged."""
        sides = self.lexicon.observe(pairs)
        # not by BLAS, whose last bits depend on the number of threads
        scores: Floats = (self.features(sides) * self.coefficients[:-1]).sum(axis=1) + self.coefficients[-1]
        scores[np.minimum(*(side.tokens.lengths for side in sides)) < _MIN_WORDS] = np.inf
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
        src, tgt = (Vocabulary(arrays[side].tolist(), arrays[f"{side}_counts"]) for side in ("src", "tgt"))
        lexicon = Lexicon(src, tgt, arrays["keys"], arrays["forward"], arrays["backward"])
        return cls(lexicon, *(arrays[name] for name in ("src_weights", "tgt_weights", "lengths", "coefficients")))


def _sample(pairs: Pairs, most: int) -> Pairs:
    return pairs[:: -(-len(pairs) // most)]


def _made(pairs: Pairs) -> list[tuple[str, str]]:
    """Make bad pairs from good ones: with another target of similar length, with any other target, and truncated."""
    far = len(pairs) // 3
    crossed = [(src, tgt) for (src, _), (_, tgt) in zip(pairs, [*pairs[far:], *pairs[:far]], strict=True)]
    return [*_repaired(pairs, 11), *crossed, *_cut(pairs)]


def _repaired(pairs: Pairs, distance: int) -> list[tuple[str, str]]:
    """Pair each source with another target, of about the same length as its own target."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))
    return [(pairs[i][0], pairs[order[(n + distance) % len(order)]][1]) for n, i in enumerate(order)]


def _cut(pairs: Pairs) -> list[tuple[str, str]]:
    """Truncate one side of each pair to a share of its length."""
    result = []
    for i, (src, tgt) in enumerate(pairs):
        share = _CUTS[i // 2 % len(_CUTS)]
        result.append((src[: int(len(src) * share)], tgt) if i % 2 else (src, tgt[: int(len(tgt) * share)]))
    return result


def _fit(good: Floats, bad: Floats) -> Floats:
    """Return the coefficients of a logistic regression; the last one is the constant."""
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


def _share(own: Floats, made: Floats, max_loss: float) -> float | None:
    """Return the share of pairs to drop, or None if dropping them would catch too few bad pairs.

    It is the share that catches enough bad pairs, or the largest one that does not lose more than `max_loss` of the
    good pairs.
    """
    if not len(own) or not len(made):
        return None
    own, made = np.sort(own), np.sort(made)
    below = np.arange(len(own)) / len(own)
    caught = np.searchsorted(made, own) / len(made)
    # hardly any good pairs score below most of the bad ones
    bad = min(0.5, float(np.searchsorted(own, made[int(_MOSTLY_BAD * len(made))])) / len(own) / _MOSTLY_BAD)
    lost = (below - bad * caught) / (1 - bad)
    most = np.flatnonzero((lost <= max_loss) & (caught <= _MOST_CAUGHT))
    return float(below[most[-1]]) if len(most) and caught[most[-1]] >= _LEAST_CAUGHT else None
