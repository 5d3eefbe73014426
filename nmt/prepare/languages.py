"""Check by scripts and letter trigrams that the two sides of each corpus are in the languages of the config.

A bounded sample is taken from each corpus, spread over the whole of it. A corpus is swapped if its sides match the
other corpora better in reverse; a side is in another language if most of its letters are in another script than the
language's own, or than that side of the other corpora.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, tee
from typing import Any, NamedTuple, TypeVar

from nmt.config.data import LABEL
from nmt.prepare.cleaning.script import script_of, scripts_of

N_PAIRS = 1000
"""Maximum sample size of a corpus; at least half of it is used if the corpus is large enough."""

_MOST_CHARS = 300  # of a line
_LEAST_PAIRS = 20  # fewer are no evidence
_SURE = 0.8  # of the decided pairs, the share that must match better in reverse
_CLEAR = (
    0.35  # nats per trigram to decide a pair: sentences have 0.7 to 1.6, addresses that differ by a word up to 0.34
)
_MOST = 0.7  # of the letters of a side, the share that must be in one script


_Pairs = Sequence[tuple[str, str]]
_Pair = TypeVar("_Pair", bound=tuple[Any, ...])


class Place(NamedTuple):
    """Where a pair stands in its corpus."""

    line: int
    before: str
    """The second side of the line before it; empty if that is not known."""
    after: str


class Sample:
    """A sample of pairs, spread evenly over all that were added."""

    def __init__(self, n: int = N_PAIRS) -> None:
        """`n`: maximum size."""
        self.pairs: list[tuple[str, str]] = []
        self.places: list[Place] = []
        """That of each pair."""
        self._n, self._stride, self._added = n, 1, 0

    def add(self, src: str, tgt: str, place: Place) -> None:
        """Add a pair, which the sample may skip."""
        if self._added % self._stride == 0:
            if len(self.pairs) == self._n:
                self.pairs, self.places = self.pairs[::2], self.places[::2]
                self._stride *= 2
            if self._added % self._stride == 0:
                self.pairs.append((src[:_MOST_CHARS], tgt[:_MOST_CHARS]))
                self.places.append(Place(place.line, place.before[:_MOST_CHARS], place.after[:_MOST_CHARS]))
        self._added += 1

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Sample:
        """Return the sample of these pairs."""
        sample = cls()
        for (src, tgt), place in with_places(pairs):
            sample.add(src, tgt, place)
        return sample


def with_places(pairs: Iterable[_Pair]) -> Iterator[tuple[_Pair, Place]]:
    """Yield each pair of a corpus with its place."""
    own, before, after = tee(pairs, 3)
    befores = chain([""], (pair[1] for pair in before))
    afters = chain((pair[1] for pair in islice(after, 1, None)), [""])
    for line, (pair, *sides) in enumerate(zip(own, befores, afters, strict=False), start=1):
        yield pair, Place(line, *sides)


def language_warnings(samples: Mapping[str, Sample], languages: tuple[str, str], names: Mapping[str, str]) -> list[str]:
    """Return a warning for each corpus whose sides look swapped, or with a side in another language.

    samples, names: those of each corpus, by its key in the config.
    """
    corpora = {key: sample.pairs for key, sample in samples.items() if len(sample.pairs) >= _LEAST_PAIRS}
    scripts = {key: [_script(side) for side in zip(*pairs, strict=True)] for key, pairs in corpora.items()}
    swapped = {} if LABEL in languages else _swapped(corpora)
    warnings = []
    for key in corpora:
        unexpected = _unexpected_scripts(scripts, languages, key)
        where = f"data.{key} ({names[key]})"
        if key in swapped:
            share, other = swapped[key]
            warnings.append(
                f"{where}: {languages[0]} and {languages[1]} look swapped: {share:.0%} of its pairs fit data.{other} "
                f"({names[other]}) better the other way round; check the files of both"
            )
        elif len({script for script, _ in unexpected.values()} & {wanted for _, wanted in unexpected.values()}) == 2:
            warnings.append(
                f"{where}: {languages[0]} and {languages[1]} look swapped, by their scripts; check its files"
            )
        else:
            warnings += [
                f"{where}: most letters of the {language} side are {_named(script)}, where "
                f"{_named(wanted)} is expected; check its files"
                for language, (script, wanted) in unexpected.items()
            ]
    return warnings


# --- letter trigrams --------------------------------------------------------------------------------


def _swapped(corpora: Mapping[str, _Pairs]) -> dict[str, tuple[float, str]]:
    """Find corpora whose sides are swapped relative to most others.

    Return for each the share of its pairs that match better in reverse, and the corpus that it was compared with.
    """
    if len(corpora) < 2:
        return {}
    anchor = min(corpora, key=lambda key: (key != "valid", not key.startswith("test."), key))
    weights = _evidence(corpora[anchor])
    shares = {key: _share_reversed(pairs, weights) for key, pairs in corpora.items() if key != anchor}
    reversed_ones = {key: (share, anchor) for key, share in shares.items() if share >= _SURE}
    upright = {key: (1 - share, key) for key, share in shares.items() if share <= 1 - _SURE}
    if len(reversed_ones) <= len(upright) + 1:
        return reversed_ones
    first = next(iter(reversed_ones))  # most are in reverse to the anchor: it is the anchor that is swapped
    return {anchor: (reversed_ones[first][0], first), **{key: (1 - shares[key], first) for key in upright}}


def _evidence(pairs: _Pairs) -> dict[str, float]:
    """Return how much more probable each trigram is on the first side than on the second (nats), add-one smoothed."""
    first, second = (Counter(gram for pair in pairs for gram in _trigrams(pair[side])) for side in (0, 1))
    n_kinds = len(first.keys() | second.keys())
    totals = math.log((first.total() + n_kinds) / (second.total() + n_kinds))
    return {gram: math.log((first[gram] + 1) / (second[gram] + 1)) - totals for gram in first.keys() | second.keys()}


def _share_reversed(pairs: _Pairs, evidence: Mapping[str, float]) -> float:
    """Return the share of the decided pairs that match better in reverse; 0.5 if few are decided."""
    decided = []
    for pair in pairs:
        grams = [_trigrams(line) for line in pair]
        first, second = (sum([evidence[gram] for gram in side if gram in evidence]) for side in grams)
        if abs(first - second) > _CLEAR * sum(map(len, grams)):
            decided.append(first < second)
    return sum(decided) / len(decided) if len(decided) >= _LEAST_PAIRS else 0.5


def _trigrams(line: str) -> list[str]:
    text = f" {' '.join(line.lower().split())} "
    return [text[i : i + 3] for i in range(len(text) - 2)]


# --- scripts ----------------------------------------------------------------------------------------


def _unexpected_scripts(
    scripts: Mapping[str, Sequence[str | None]], languages: tuple[str, str], key: str
) -> dict[str, tuple[str, str]]:
    """Return by language the script of that side of corpus `key` and the expected one, where they differ.

    scripts: of both sides of each corpus.
    """
    unexpected = {}
    for side, language in enumerate(languages):
        if language == LABEL:
            continue
        others = Counter(both[side] for other, both in scripts.items() if other != key)
        known = scripts_of(language)
        wanted = next(iter(known)) if len(known) == 1 else None
        if wanted is None and "valid" in scripts and key != "valid":
            wanted = scripts["valid"][side]
        elif wanted is None and others.total() > 1:
            wanted = others.most_common(1)[0][0]
        script = scripts[key][side]
        if script and wanted and script != wanted:
            unexpected[language] = script, wanted
    return unexpected


def _script(lines: Iterable[str]) -> str | None:
    """Return the script of most letters, if there is one."""
    counts: Counter[str] = Counter()
    for char, n in Counter(chain.from_iterable(lines)).items():
        if script := script_of(char):
            counts[script] += n
    script, n = counts.most_common(1)[0] if counts else ("", 0)
    return script if n and n >= _MOST * counts.total() else None


def script_counts(lines: Iterable[str]) -> dict[str, int]:
    """Count lines by the script of most of their letters, the most frequent first; `other` have none or are mixed."""
    scripts = map(_script, lines)
    return dict(Counter("other" if script is None else _named(script) for script in scripts).most_common())


def _named(script: str) -> str:
    return script if script == "CJK" else script.capitalize()
