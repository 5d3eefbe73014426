"""Replacement of some pairs of an update by modified pairs; see `training.modifiers`.

The choice of the pairs, the modifiers and their random numbers is a function of (seed, epoch, row of the pair in the
corpus). A pair is decoded, modified as text and encoded again, without BPE-dropout; a side that does not change keeps
its segmentation, and `fuzzy` and `join` append ids. A pair stays as it is if a modifier has no effect, or if a line
would exceed `data.max_pieces`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

import numpy as np
import numpy.typing as npt

from nmt.config import Config
from nmt.data.batching import Indices, Pairs, unpadded
from nmt.data.corpus import Corpora
from nmt.data.fuzzy import FuzzyMatches
from nmt.data.joining import FollowingPairs
from nmt.data.random_numbers import fractions, hashed, key_of
from nmt.text.constraints import Glossary
from nmt.text.inline import TERM, encode_marked, shown
from nmt.text.modifiers import (
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
from nmt.text.tokenizer import Tokenizer

Modifier = Callable[[str, str, Random], tuple[str, str]]
"""A function of source, target and random numbers, which returns a modified or, if it has no effect, an equal pair."""

N_TRIED = 256
"""Number of pairs on which a modifier is tried before training."""

_STREAM = 2  # BPE-dropout draws from 0 and 1

_Ids = npt.NDArray[np.int64]


class Modifiers:
    """The modifiers of a run, applied to the pairs of an update."""

    def __init__(self, corpora: Corpora, config: Config) -> None:
        """Load the modifiers of a run. Raises DataError if the glossary of terms is invalid."""
        settings, data = config.training, config.data
        self._seed, self._max_pieces = config.training.seed, data.max_pieces
        self._src, self._tgt = (corpora.tokenizers[language] for language in data.sides)
        self._starts = corpora.starts
        glossary = Glossary.of(settings.glossary, data.tgt) if settings.glossary is not None else None
        self.glossary = None if glossary is None else glossary.fingerprint
        """The fingerprint of the glossary, if any."""
        self.rates = settings.modifiers
        self._ends = np.cumsum(list(self.rates.values()))
        self._modifiers, self._matches, self._following = [], list[FuzzyMatches](), list[FollowingPairs]()
        for direction, corpus in corpora.by_direction.items():
            if "fuzzy" in self.rates:
                self._matches.append(FuzzyMatches.of(corpus, config.towards(direction)))
            if "join" in self.rates:
                self._following.append(FollowingPairs(corpus, config.towards(direction).data))
            self._modifiers.append(_modifiers(direction, glossary if direction == data.direction else None))

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) as modified in `epoch`; row i of the result is row `rows[i]`."""
        batch, corpus_rows = pairs.batch(rows), pairs.corpus_rows(rows)
        src, tgt = unpadded(batch.src), unpadded(batch.tgt_out)
        new_src, new_tgt = dict[int, str](), dict[int, str]()
        for place, direction, name, rng in self._drawn(corpus_rows, epoch):
            row = int(corpus_rows[place] - self._starts[direction])
            if name == "fuzzy":
                src[place] = self._matches[direction].beside(src[place], row)
                continue
            if name == "join":
                src[place], tgt[place] = self._following[direction].after(src[place], tgt[place], row, rng)
                continue
            old = self._texts(src[place], tgt[place])
            new = self._modifiers[direction][name](*old, rng)
            for side, texts in enumerate((new_src, new_tgt)):
                if new[side] != old[side]:
                    texts[place] = new[side]
        src_ids, tgt_ids = _encoded(self._src, new_src), _encoded(self._tgt, new_tgt)
        for place in src_ids.keys() | tgt_ids.keys():
            pair = src_ids.get(place, src[place]), tgt_ids.get(place, tgt[place])
            if max(map(len, pair)) <= self._max_pieces:
                src[place], tgt[place] = pair
        return Pairs.changed(src, tgt, corpus_rows)

    def _drawn(self, corpus_rows: Indices, epoch: int) -> Iterator[tuple[int, int, str, Random]]:
        """Yield the index of each row to modify, its direction, the name of the modifier drawn for it, and a generator
        of random numbers."""
        key = key_of(self._seed, epoch, _STREAM)
        numbers = hashed(key, corpus_rows)
        chosen = np.searchsorted(self._ends, fractions(numbers), side="right")
        places = np.flatnonzero(chosen < len(self._ends))
        seeds = hashed(numbers[places], np.ones(len(places), np.int64))
        directions = np.searchsorted(self._starts, corpus_rows[places], side="right") - 1
        names = [*self.rates]
        for place, direction, seed in zip(places.tolist(), directions.tolist(), seeds.tolist(), strict=True):
            yield place, direction, names[chosen[place]], Random(seed)

    def examples(self, pairs: Pairs) -> dict[str, tuple[str, str] | None]:
        """Return for each modifier an example of a modified pair; None if the modifier changes none of a few sampled
        pairs, all of the first direction."""
        rows = np.flatnonzero(pairs.corpus_rows(np.arange(len(pairs))) < self._starts[1])
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), N_TRIED)).astype(np.int64)]
        batch = pairs.batch(rows)
        texts = [self._texts(*ids) for ids in zip(unpadded(batch.src), unpadded(batch.tgt_out), strict=True)]
        found: dict[str, tuple[str, str] | None] = {}
        for name in self.rates:
            tried = zip(texts, map(partial(self._example, name), texts, pairs.corpus_rows(rows).tolist()), strict=True)
            found[name] = next(((shown(new[0]), new[1]) for old, new in tried if new != old), None)
        return found

    def _example(self, name: str, texts: tuple[str, str], row: int) -> tuple[str, str]:
        """Return a pair of the first direction, row `row` of the corpus, as changed by a modifier."""
        match name:
            case "fuzzy":
                target = self._matches[0].target(row)
                added = "" if target is None else self._tgt.decode(target.tolist()), ""
            case "join":
                none = np.zeros(0, np.int64)
                added = self._texts(*self._following[0].after(none, none, row, Random(row)))
            case _:
                return self._modifiers[0][name](*texts, Random(row))
        src, tgt = (f"{text} <separator> {more}" if more else text for text, more in zip(texts, added, strict=True))
        return src, tgt

    def _texts(self, src: _Ids, tgt: _Ids) -> tuple[str, str]:
        return self._src.decode(src.tolist()), self._tgt.decode(tgt.tolist())


def _modifiers(direction: str, glossary: Glossary | None) -> Mapping[str, Modifier]:
    """Return all modifiers by name for pairs of a direction; `terms` has no effect without a glossary."""
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
        "terms": (lambda src, tgt, _: (src, tgt)) if glossary is None else partial(terms, glossary=glossary),
    }


def _encoded(tokenizer: Tokenizer, texts: Mapping[int, str]) -> dict[int, _Ids]:
    """Encode texts, which may contain inline terms, and return the ids under the same keys."""
    plain = {key: text for key, text in texts.items() if TERM not in text}
    ids = dict(zip(plain, tokenizer.encode_all(list(plain.values())), strict=True))
    ids |= {key: encode_marked(tokenizer, text) for key, text in texts.items() if TERM in text}
    return {key: np.array(line) for key, line in ids.items()}
