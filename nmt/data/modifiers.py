"""Replacement of some pairs of an update by modified pairs; see `training.modifiers`.

The choice of the pairs, the modifiers and their random numbers is a function of (seed, epoch, row of the pair in the
corpus). A pair is decoded, modified as text and encoded again, without BPE-dropout; a side that does not change keeps
its segmentation, and `fuzzy` and `join` append ids. A pair stays as it is if a modifier has no effect, or if a line
would exceed `data.max_pieces`.

`fuzzy` appends to the source the translation of the most similar other line of the training text, whose row `nmt
prepare` stores for each line, -1 if there is none. A model learns to use this translation (neural fuzzy repair; Bulté
and Tezcan, 2019, aclanthology.org/P19-1175). `join` appends the pairs that follow in the document. A model that learns
such pairs translates lines of several sentences, and sentences with the ones before them as context (Tiedemann and
Scherrer, 2017, aclanthology.org/W17-4811). Appended ids begin with a separator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

import numpy as np

from nmt.data.batching import Pairs, joined
from nmt.data.corpus import Corpora, Corpus, lines_of
from nmt.data.lines import Indices, Integers, Lines
from nmt.data.random_numbers import MODIFIERS, fractions, hashed, key_of
from nmt.data.settings import DataConfig
from nmt.errors import DataError
from nmt.text.augmentation import (
    drop_end_punctuation,
    lower_case,
    noise,
    placeholders,
    tags,
    terms,
    title_case,
    typos,
    upper_case,
)
from nmt.text.constraints import TERM, Glossary, encode_marked, shown_marks
from nmt.text.glossaries import glossary_of
from nmt.text.ids import SEPARATOR
from nmt.text.lines import TextPair
from nmt.text.tokenizer import Tokenizer
from nmt.training.settings import TrainingConfig

ModifierFunction = Callable[[str, str, Random], TextPair]
"""A function of source, target and random numbers, which returns a modified or, if it has no effect, an equal pair."""

MOST_JOINED = 3
"""Maximum number of pairs that are joined to one."""


class FuzzyMatches:
    """The translations of the similar training pairs of each line of a split."""

    def __init__(self, rows: Integers, targets: Lines, max_pieces: int) -> None:
        """`rows` (P,): the row of each match in `targets`, or -1; `max_pieces`: the maximum length with a match."""
        self._rows = rows
        self._targets = targets
        self._max_pieces = max_pieces

    @classmethod
    def of(cls, corpus: Corpus, data: DataConfig, split: str = "train") -> FuzzyMatches:
        """Read the matches of a split of a data directory. Raises DataError if it has none, or if they are damaged."""
        directory = corpus.directory
        if directory.matches(split, data.src).name not in corpus.manifest.files:
            raise DataError(
                f"{directory.path}: has no similar lines for training.modifiers.fuzzy; set data.fuzzy_threshold and "
                "run nmt prepare again"
            )
        corpus.verify(split, ("matches",))
        targets = lines_of(corpus.in_one_file("train"), data.tgt)
        return cls(corpus.split(split).matches(data.src), targets, data.max_pieces)

    def target(self, row: int) -> Indices | None:
        """Return the ids of the translation for line `row`; None if it has no match."""
        match = np.array([self._rows[row]], np.int64)
        if match[0] < 0:
            return None
        return self._targets.between(match, match + 1).astype(np.int64)

    def appended(self, src: Indices, tgt: Indices, row: int, rng: Random | None = None) -> tuple[Indices, Indices]:  # noqa: ARG002
        """Return pair `row` with its match after the source; without it if there is none or both are too long."""
        target = self.target(row)
        if target is not None and len(src) + len(target) < self._max_pieces:
            src = joined(src, target)
        return src, tgt

    def with_sources(self, pairs: Pairs) -> Pairs:
        """Return the pairs of the split, or its first ones, with the matches beside their sources."""
        rows = np.arange(len(pairs))
        src, tgt = pairs.lines(rows)
        for row in range(len(pairs)):
            src[row], tgt[row] = self.appended(src[row], tgt[row], row)
        return Pairs.changed(src, tgt, rows)


class FollowingPairs:
    """The training pairs of a corpus that follow others in their documents."""

    def __init__(self, corpus: Corpus, data: DataConfig) -> None:
        """Raises DataError if the data directory has no order of documents, or if it is damaged."""
        splits = corpus.train_splits
        self._ends = np.cumsum([split.n for split in splits])
        self._follows = [corpus.follows(split) for split in splits]
        self._sides = [[lines_of(split, language) for language in data.sides] for split in splits]
        self._max_pieces = data.max_pieces

    def appended(self, src: Indices, tgt: Indices, row: int, rng: Random) -> tuple[Indices, Indices]:
        """Return pair `row`, given by its ids, joined with up to `MOST_JOINED` following ones.

        Their number is drawn. There are fewer where the document ends or a side would exceed `data.max_pieces`.
        """
        number = int(np.searchsorted(self._ends, row, side="right"))
        follows = self._follows[number]
        first = row + 1 - (int(self._ends[number]) - len(follows))
        for place in range(first, min(first + rng.randint(1, MOST_JOINED), len(follows))):
            at = np.array([place])
            more = [lines.between(at, at + 1).astype(np.int64) for lines in self._sides[number]]
            longer = joined(src, more[0]), joined(tgt, more[1])
            if not follows[place] or max(map(len, longer)) > self._max_pieces:
                break
            src, tgt = longer
        return src, tgt


class Modifiers:
    """The modifiers of a run, applied to the pairs of an update."""

    def __init__(self, corpora: Corpora, data: DataConfig, settings: TrainingConfig) -> None:
        """Load the modifiers of a run. Raises DataError if the glossary of terms is invalid."""
        self._seed = settings.seed
        self._max_pieces = data.max_pieces
        self._src, self._tgt = corpora.tokenizers.sides(data.direction)
        self._starts = corpora.starts
        glossary: Glossary | None = None
        self.glossary: str | None = None
        """The fingerprint of the glossary, if any."""
        if settings.glossary is not None:
            glossary = glossary_of(settings.glossary, data.tgt)
            self.glossary = glossary.fingerprint
        self.rates = settings.modifiers
        self._ends = np.cumsum(list(self.rates.values()))
        self._modifiers = []
        self._appending = list[dict[str, FuzzyMatches | FollowingPairs]]()
        for direction, corpus in corpora.by_direction.items():
            appending: dict[str, FuzzyMatches | FollowingPairs] = {}
            if "fuzzy" in self.rates:
                appending["fuzzy"] = FuzzyMatches.of(corpus, data.towards(direction))
            if "join" in self.rates:
                appending["join"] = FollowingPairs(corpus, data.towards(direction))
            self._appending.append(appending)
            modifiers = _modifiers(direction)
            if glossary is not None and direction == data.direction:
                modifiers["terms"] = partial(terms, glossary=glossary)
            self._modifiers.append(modifiers)

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) as modified in `epoch`; row i of the result is row `rows[i]`."""
        (src, tgt), corpus_rows = pairs.lines(rows), pairs.corpus_rows(rows)
        new_src = dict[int, str]()
        new_tgt = dict[int, str]()
        for place, direction, name, rng in self._drawn(corpus_rows, epoch):
            row = int(corpus_rows[place] - self._starts[direction])
            if appending := self._appending[direction].get(name):
                src[place], tgt[place] = appending.appended(src[place], tgt[place], row, rng)
                continue
            old = self._texts(src[place], tgt[place])
            new = self._modifiers[direction][name](*old, rng)
            for side, texts in enumerate((new_src, new_tgt)):
                if new[side] != old[side]:
                    texts[place] = new[side]
        src_ids = _encoded(self._src, new_src)
        tgt_ids = _encoded(self._tgt, new_tgt)
        for place in src_ids.keys() | tgt_ids.keys():
            pair = src_ids.get(place, src[place]), tgt_ids.get(place, tgt[place])
            if max(map(len, pair)) <= self._max_pieces:
                src[place], tgt[place] = pair
        return Pairs.changed(src, tgt, corpus_rows)

    def _drawn(self, corpus_rows: Indices, epoch: int) -> Iterator[tuple[int, int, str, Random]]:
        """Yield the index of each row to modify, its direction, the name of the modifier drawn for it, and a generator
        of random numbers."""
        numbers = hashed(key_of(self._seed, epoch, MODIFIERS), corpus_rows)
        chosen = np.searchsorted(self._ends, fractions(numbers), side="right")
        places = np.flatnonzero(chosen < len(self._ends))
        seeds = hashed(numbers[places], np.ones(len(places), np.int64))
        directions = np.searchsorted(self._starts, corpus_rows[places], side="right") - 1
        names = [*self.rates]
        for place, direction, seed in zip(places.tolist(), directions.tolist(), seeds.tolist(), strict=True):
            yield place, direction, names[chosen[place]], Random(seed)

    def examples(self, pairs: Pairs, n: int) -> dict[str, TextPair | None]:
        """Return for each modifier an example of a modified pair; None if the modifier changes none of `n` sampled
        pairs, all of the first direction."""
        rows = np.flatnonzero(pairs.corpus_rows(np.arange(len(pairs))) < self._starts[1])
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), n)).astype(np.int64)]
        texts = [self._texts(*ids) for ids in zip(*pairs.lines(rows), strict=True)]
        examples: dict[str, TextPair | None] = dict.fromkeys(self.rates)
        for name in self.rates:
            for text, row in zip(texts, pairs.corpus_rows(rows).tolist(), strict=True):
                src, tgt = self._example(name, text, row)
                if (src, tgt) != text:
                    examples[name] = shown_marks(src), tgt
                    break
        return examples

    def _example(self, name: str, texts: TextPair, row: int) -> TextPair:
        """Return a pair of the first direction, row `row` of the corpus, as changed by a modifier."""
        if name not in self._appending[0]:
            return self._modifiers[0][name](*texts, Random(row))
        none = np.zeros(0, np.int64)
        src, tgt = self._appending[0][name].appended(none, none, row, Random(row))
        return texts[0] + _text_after(self._src, src), texts[1] + _text_after(self._tgt, tgt)

    def _texts(self, src: Indices, tgt: Indices) -> TextPair:
        return self._src.decode(src.tolist()), self._tgt.decode(tgt.tolist())


def _text_after(tokenizer: Tokenizer, ids: Indices) -> str:
    """Return the text of appended ids, which begin with a separator."""
    parts = np.split(ids, np.flatnonzero(ids == SEPARATOR))[1:]
    return "".join(f" <separator> {tokenizer.decode(part.tolist())}" for part in parts)


def _modifiers(direction: str) -> dict[str, ModifierFunction]:
    """Return all modifiers by name for pairs of a direction; `terms` has no effect."""
    src, tgt = direction.split("-")
    languages = src, tgt
    return {
        "upper_case": partial(upper_case, languages=languages),
        "title_case": partial(title_case, languages=languages),
        "lower_case": partial(lower_case, languages=languages),
        "typos": typos,
        "drop_end_punctuation": drop_end_punctuation,
        "noise": noise,
        "placeholders": placeholders,
        "tags": tags,
        "terms": lambda src, tgt, _: (src, tgt),
    }


def _encoded(tokenizer: Tokenizer, texts: Mapping[int, str]) -> dict[int, Indices]:
    """Encode texts, which may contain inline terms, and return the ids under the same keys."""
    plain = {}
    encoded = {}
    for key, text in texts.items():
        if TERM in text:
            encoded[key] = encode_marked(tokenizer, text)
        else:
            plain[key] = text
    encoded |= zip(plain, tokenizer.encode_all(list(plain.values())), strict=True)
    return {key: np.array(ids) for key, ids in encoded.items()}
