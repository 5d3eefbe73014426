"""Pairs whose sides do not translate each other, found by a lexicon that is learned from the corpus.

What good pairs look like is learned from the corpora themselves, of which up to a third may be bad: which words
translate each other (`lexicon`), how reliably each word does, how the lengths compare. What bad pairs look like is
learned from pairs made of the same text: sentences paired at random, or cut. A logistic regression tells one
from the other.
"""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ID_BITS = 16
"""Numbers of words have at most this many bits."""
_STEM = 5  # inflected forms that begin alike share what is learned about them
_MIN_COUNT = 3
_BLOCK_LINES = 8192  # the words of all lines would need far more memory than their numbers
_MARKS = "?!„“”»«’–—…。、，？！"
_SPACES = bytes(32 if i < 128 and not chr(i).isalnum() and chr(i) not in "\n?!" else i for i in range(256))
# scripts written without spaces: Han characters one by one, others by three
_UNSPACED = re.compile("[\u3400-\u9fff\U00020000-\U000323af]|[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff]{1,3}")

# what is none of the first bytes of their characters in UTF-8: a test of all text for one of these is slow otherwise
_NOT_UNSPACED = bytes({*range(256)} - {0xE0, 0xE1, *range(0xE3, 0xEA), 0xF0})


def split_words(lines: Sequence[str]) -> tuple[list[str], Longs]:
    """Return the lower-cased words of all lines, and where each line ends among them."""
    ends = np.zeros(len(lines), np.int64)
    if not lines:
        return [], ends
    text = "\n".join(lines).lower()
    for mark in _MARKS:
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
    """Words of some sentences, as numbers."""

    ids: Longs
    ends: Longs
    """Where each sentence ends in `ids`."""

    @property
    def starts(self) -> Longs:
        """The start of each sentence."""
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
    def of(cls, words: Mapping[str, int]) -> Vocabulary:
        """Return the vocabulary of a text with these words, each so many times."""
        counts: Counter[str] = Counter()
        for word, n in words.items():
            counts[word[:_STEM]] += n
        chosen = sorted((n, stem) for stem, n in counts.items() if n >= _MIN_COUNT)[-(2**ID_BITS) :]
        return cls([stem for _, stem in chosen], np.array([n for n, _ in chosen], np.int64))

    def numbers(self, words: Sequence[str]) -> Longs:
        """Return the number of each word; -1 if it is not in this vocabulary."""
        known = {word: self._ids.get(word[:_STEM], -1) for word in set(words)}
        return np.fromiter(map(known.__getitem__, words), np.int64, len(words))


def read_words(lines: Sequence[str]) -> tuple[Vocabulary, Tokens]:
    """Return the vocabulary of many lines, and their words that are in it."""
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
_LEARN_CELLS = 10 * 2**20  # more need more memory than they are worth
_LEARN_WORDS = 12  # the rarest words of a sentence stand for all: frequent ones go with everything, and cost the most
_ITERATIONS = 4
_NO_COUNTERPART = 0.3
_MIN_PROBABILITY = 0.01
_MAX_ENTRIES = 2**19
_SLOT_BITS = 22
_MULTIPLIER = np.uint32(2654435769)  # odd: multiplication only reorders the keys
_SHIFT, _LOW = np.uint32(ID_BITS), np.uint32(2**ID_BITS - 1)


@dataclass(frozen=True)
class Cells:
    """Each word of a sentence with each of its translation, for several pairs of sentences."""

    keys: Keys
    """Number of the source word in the upper bits, that of the target word in the lower."""
    rows: Longs
    """Index of the source word among all of them."""
    columns: Longs
    """Index of the target word among all of them."""

    @classmethod
    def of(cls, src: Tokens, tgt: Tokens) -> Cells:
        """Return the cells of these sentences."""
        widths = np.repeat(tgt.lengths, src.lengths)
        starts = np.cumsum(widths) - widths
        rows = np.repeat(np.arange(len(src.ids)), widths)
        columns = np.arange(len(rows)) + np.repeat(np.repeat(tgt.starts, src.lengths) - starts, widths)
        return cls((src.ids.astype(np.uint32) << _SHIFT)[rows] | tgt.ids.astype(np.uint32)[columns], rows, columns)


def chunks(src: Tokens, tgt: Tokens) -> Iterator[tuple[Tokens, Tokens, Cells]]:
    """Yield the pairs of sentences by some thousands, so that their cells need little memory."""
    done = np.cumsum(src.lengths * tgt.lengths)
    first = 0
    while first < len(done):
        before = int(done[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(done, before + _CHUNK_CELLS, side="right")))
        src_part, tgt_part = src.part(first, last), tgt.part(first, last)
        yield src_part, tgt_part, Cells.of(src_part, tgt_part)
        first = last


@dataclass(frozen=True)
class Entries:
    """Pairs of words that translate each other."""

    keys: Keys
    forward: Singles
    """Probability of the target word, given the source word."""
    backward: Singles
    """Probability of the source word, given the target word."""

    @classmethod
    def learn(cls, src: Tokens, tgt: Tokens, src_words: Vocabulary, tgt_words: Vocabulary) -> Entries:
        """Learn the entries from sentences and their translations."""
        n_cells = int((np.minimum(src.lengths, _LEARN_WORDS) * np.minimum(tgt.lengths, _LEARN_WORDS)).sum())
        if n_cells > _LEARN_CELLS:
            n = len(src.ends) * _LEARN_CELLS // n_cells
            chosen = np.arange(n) * len(src.ends) // n
            src, tgt = src.take(chosen), tgt.take(chosen)
        src, tgt = src.rarest(_LEARN_WORDS), tgt.rarest(_LEARN_WORDS)
        keys, entry = _different([cells.keys for _, _, cells in chunks(src, tgt)])
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
            # less one: what a single pair of sentences says, perhaps one that is misaligned, does not count
            forward = np.maximum(forward_sums - 1, 0) / src_counts
            backward = np.maximum(backward_sums - 1, 0) / tgt_counts
        return cls(keys, forward.astype(np.float32), backward.astype(np.float32)).strongest()

    def strongest(self) -> Entries:
        """Return the entries that are worth keeping, the strongest last."""
        strength = np.maximum(self.forward, self.backward)
        order = np.argsort(strength, kind="stable")
        order = order[strength[order] > _MIN_PROBABILITY][-_MAX_ENTRIES:]
        return Entries(self.keys[order], self.forward[order], self.backward[order])


def _different(parts: list[Keys]) -> tuple[Keys, npt.NDArray[np.int32]]:
    """Return the different keys, and the index of each key among them."""
    keys = np.concatenate([np.zeros(0, np.uint32), *parts])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    index = np.empty(len(keys), np.int32)
    index[order] = np.cumsum(new, dtype=np.int32) - 1
    return keys[new], index


def _posterior(probability: Floats, at: Longs, share: Floats, given: Tokens, words: Tokens) -> Floats:
    """Return of each cell how likely its word of `words`, the one with index `at`, is a translation of the other."""
    nothing = _NO_COUNTERPART / (1 - _NO_COUNTERPART) * share * np.repeat(given.lengths, words.lengths)
    return probability / (np.bincount(at, probability, minlength=len(share)) + nothing)[at]


class Table:
    """Entries in a hash table, in which many words are looked up at once."""

    def __init__(self, entries: Entries) -> None:
        slots, tags = self._place(entries.keys)
        packed = [np.rint(np.sqrt(p) * 255).astype(np.uint32) for p in (entries.forward, entries.backward)]
        self._table = np.zeros(2**_SLOT_BITS, np.uint32)
        self._table[slots] = tags << np.uint32(16) | packed[0] << np.uint32(8) | packed[1]  # the strongest is the last

    @staticmethod
    def _place(keys: Keys) -> tuple[Keys, Keys]:
        mixed = keys * _MULTIPLIER
        return mixed >> np.uint32(32 - _SLOT_BITS), mixed & np.uint32(2 ** (32 - _SLOT_BITS) - 1)

    def find(self, keys: Keys) -> tuple[Longs, Floats, Floats]:
        """Return the indices of the keys that are in the table, and their probabilities, forward and backward."""
        slots, tags = self._place(keys)
        values = self._table[slots]
        at = np.flatnonzero((values >> np.uint32(16) == tags) & (values != 0))
        forward, backward = (((values[at] >> np.uint32(bits)) & np.uint32(255)) / 255 for bits in (8, 0))
        return at, forward**2, backward**2


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


SAMPLE_PAIRS = 500_000
"""Maximum number of pairs that the filter learns from."""
MIN_PAIRS = 1000
"""With fewer pairs nothing is learned, and none is dropped."""
_WEIGHT_PAIRS, _FIT_PAIRS = 100_000, 20_000
_BLOCK_PAIRS = 8192
_MIN_WORDS = 2  # a pair with fewer words that are known on a side is not judged
_MOST_CAUGHT, _LEAST_CAUGHT = 0.99, 0.3  # of pairs made badly; what catches fewer cannot tell good from bad
_MOSTLY_BAD = 0.8  # below the score of this share of the bad pairs there are hardly any good ones
_WORST = 0.3  # share of the pairs that may be bad
_CUTS = (0.3, 0.5, 0.7, 0.4, 0.6)


def learn_filter(pairs: Pairs, max_loss: float) -> bytes:
    """Learn from the pairs of a corpus, at most `SAMPLE_PAIRS`, which of its pairs are translations.

    `max_loss`: the share of good pairs that may be lost, as far as it can be estimated. Returns the same bytes each
    time; none if the pairs do not suffice.
    """
    if len(pairs) < MIN_PAIRS:
        return b""
    # how many can be dropped is seen in pairs that are unknown: a bad pair looks better to what has learned from it
    share = _share(*_Judge.learn(pairs[::2], pairs[1::2])[1:], max_loss)
    if share is None:
        return b""
    judge, own, _ = _Judge.learn(pairs, pairs)
    own = np.sort(own)
    return judge.to_bytes(float(own[int(share * len(own))]))


def is_misaligned(pairs: Pairs, learned: bytes) -> Bools:
    """Return which of the pairs (N,) are no translations, by what `learn_filter` learned."""
    result = np.zeros(len(pairs), bool)
    if not learned:
        return result
    judge, threshold = _judge(learned)
    for start in range(0, len(pairs), _BLOCK_PAIRS):
        result[start : start + _BLOCK_PAIRS] = judge.scores(pairs[start : start + _BLOCK_PAIRS]) < threshold
    return result


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
