"""The mixture of the training corpora: the pairs of each corpus in each window of an epoch, stage by stage.

The position in a corpus is one number, the pairs drawn so far; everything else is a function of it and the seed.

An epoch is as many pairs as the corpora have, divided into windows. After S pairs of a stage, floor(S * q) pairs of a
corpus with share q have been drawn, computed exactly: no share drifts, and the state of the data is a `Position`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nmt.data.lines import Indices
from nmt.data.manifest import Manifest
from nmt.data.settings import DataConfig
from nmt.data.sources import train_key, train_number
from nmt.errors import ConfigError
from nmt.training.settings import Stage

BLOCK_PAIRS = 1 << 12
"""Number of consecutive pairs of a shard that stay together, since a shard is in random order already: little more of
a file is then read for a window than the window contains."""


class Run(NamedTuple):
    """A run of consecutive rows of the training pairs: a shard, or one corpus in a file."""

    first: int
    n: int


class Stream:
    """An endless stream of the pairs of one corpus, pass after pass.

    A pass has the shards in random order, and the blocks of `block` consecutive rows of each in random order.
    """

    def __init__(self, shards: Sequence[Run], key: tuple[int, ...], block: int) -> None:
        """`key`: the seed of the run and the number of the corpus."""
        self._shards = shards
        self._key = key
        self._block = block
        self.n = sum(shard.n for shard in shards)

    def take(self, start: int, stop: int) -> Iterator[tuple[Indices, Indices]]:
        """Yield the pairs from `start` to `stop` of the stream: arrays of the first rows and the lengths of runs."""
        while start < stop:
            number, skipped = divmod(start, self.n)
            end = min(self.n, skipped + stop - start)
            yield from self._pass(number, skipped, end)
            start += end - skipped

    def _pass(self, number: int, start: int, stop: int) -> Iterator[tuple[Indices, Indices]]:
        for i in self._shuffled(len(self._shards), number, 1).tolist():
            first, n = self._shards[i]
            if start < n and stop > 0:
                order = self._shuffled(-(-n // self._block), number, 2 + i)
                sizes = np.minimum(self._block, n - order * self._block)
                ends = np.cumsum(sizes)
                begins = ends - sizes
                starts = np.clip(start - begins, 0, sizes)  # of the part of each block that is taken
                sizes = np.clip(np.minimum(ends, stop) - np.maximum(begins, start), 0, None)
                inside = np.flatnonzero(sizes > 0)
                yield first + (order * self._block + starts)[inside], sizes[inside]
            start -= n
            stop -= n

    def _shuffled(self, n: int, *key: int) -> Indices:
        return np.random.default_rng([*self._key, *key]).permutation(n)


WINDOW_PAIRS = 1 << 20
"""Maximum number of pairs in a window; a window takes 100 to 200 MB and a second to plan."""


@dataclass(frozen=True)
class TrainCorpus:
    """A training corpus: the rows of its pairs, and how often each pair occurs in an epoch."""

    name: str
    runs: tuple[Run, ...]
    repeat: int = 1
    weight: float | None = None
    """The weight in `data.train`, if it has one."""
    is_used: bool = True
    """Whether it is learned in its direction."""
    block: int = 1
    """Number of consecutive pairs that stay together; in one file, pairs are in the order of their texts."""

    @cached_property
    def n(self) -> int:
        """The number of pairs of the corpus."""
        return sum(run.n for run in self.runs)

    @property
    def n_per_epoch(self) -> int:
        """The number of pairs of the corpus in an epoch in which all corpora are mixed by size."""
        return self.n * self.repeat


@dataclass(frozen=True)
class Position:
    """The position of a run in its data, at the beginning of a window. Its fields are also fields of `TrainState`."""

    epoch: int = 0
    window: int = 0
    stage: int = 0
    stage_step: int = field(default=0, compare=False)
    """Number of updates before this stage; the updates of a window do not depend on it."""
    stage_pairs: int = 0
    """Number of pairs drawn before this stage."""
    drawn: tuple[int, ...] = ()
    """Number of pairs drawn before this stage by corpus; () in the first stage."""


@dataclass(frozen=True)
class StagePlan:
    """The shares of the corpora in a stage, which sum to 1, and the number of updates of the stage (None for the last
    one)."""

    shares: tuple[Fraction, ...]
    n_updates: int | None = None


@dataclass(frozen=True)
class Mix:
    """The corpora, the stages, and the number of windows of an epoch."""

    corpora: Sequence[TrainCorpus]
    stages: Sequence[StagePlan]
    n_windows: int
    is_whole: bool = False
    """Whether an epoch is planned as a whole, in the order of the training set; it then has one window."""
    is_mixed: bool = False
    """Whether the corpora are mixed by anything other than size."""

    @cached_property
    def n_pairs(self) -> int:
        """Number of pairs in an epoch."""
        return sum(corpus.n_per_epoch for corpus in self.corpora)

    def has(self, at: Position) -> bool:
        """Return whether a position exists in this mixture."""
        if at.window >= self.n_windows or at.stage >= len(self.stages):
            return False
        start, stop = self.span(at)
        return start < stop and len(at.drawn) in (0, len(self.corpora))

    def span(self, at: Position) -> tuple[int, int]:
        """Return the number of pairs that the run has drawn before a window and after it."""
        start = self._drawn_before(at.epoch, at.window)
        return max(start, at.stage_pairs), self._drawn_before(at.epoch, at.window + 1)

    def takes(self, at: Position) -> list[tuple[int, int]]:
        """Return for each corpus the start and stop of the part of its stream that is in a window."""
        start, stop = self.span(at)
        return list(zip(self._drawn(at, start), self._drawn(at, stop), strict=True))

    def after(self, at: Position, n_pairs: int | None = None, step: int = 0) -> Position:
        """Return the position after a window, or after its first `n_pairs` if a stage ends with update `step`."""
        start, done = self.span(at)
        if n_pairs is not None:
            done = min(done, start + n_pairs)
        stage = self.stages[at.stage]
        to = at
        if done == self._drawn_before(at.epoch, at.window + 1):
            to = replace(at, window=at.window + 1)
            if to.window == self.n_windows:
                to = replace(at, epoch=at.epoch + 1, window=0)
        if stage.n_updates is not None and step >= at.stage_step + stage.n_updates:
            to = replace(to, stage=at.stage + 1, stage_step=step, stage_pairs=done, drawn=self._drawn(at, done))
        return to

    def _drawn_before(self, epoch: int, window: int) -> int:
        return epoch * self.n_pairs + window * self.n_pairs // self.n_windows

    def _drawn(self, at: Position, n_pairs: int) -> tuple[int, ...]:
        """Return the number of pairs drawn from each corpus once the run has drawn `n_pairs`."""
        before = at.drawn or (0,) * len(self.corpora)
        shares = self.stages[at.stage].shares
        return tuple(n + math.floor((n_pairs - at.stage_pairs) * q) for n, q in zip(before, shares, strict=True))


def _is_weighted(data: DataConfig, stages: Sequence[Stage]) -> bool:
    """Return whether the corpora within a direction are mixed by anything other than size."""
    is_chosen = any(source.to is not None and {source.to} != data.targets for source in data.train)
    has_weights = data.temperature is not None or data.train[0].weight is not None
    return has_weights or is_chosen or bool(stages)


def make_mix(data: DataConfig, stages: Sequence[Stage], manifests: Mapping[str, Manifest]) -> Mix:
    """Return the mixture of a run, given the manifest of each direction; corpora are in the order of the directions.

    Raises ConfigError if the data directory has other corpora than the config.
    """
    by_direction = [_corpora(data.towards(direction), stages, manifest) for direction, manifest in manifests.items()]
    plans = [_plan(data, stage, by_direction) for stage in stages or [Stage()]]
    corpora = []
    first = 0
    has_several = len(manifests) > 1
    for direction, of_direction in zip(manifests, by_direction, strict=True):
        for corpus in of_direction:
            runs = tuple(run._replace(first=first + run.first) for run in corpus.runs)
            corpora.append(replace(corpus, runs=runs))
            if has_several:
                corpora[-1] = replace(corpora[-1], name=f"{direction} {corpus.name}")
        first += sum(corpus.n for corpus in of_direction)
    has_shards = any(manifest.splits["train"].shards is not None for manifest in manifests.values())
    # a direction in one file has less than a window, but many directions do not fit in memory
    is_large = has_several and first > WINDOW_PAIRS
    is_mixed = _is_weighted(data, stages) or data.direction_temperature > 1
    if not (has_shards or is_mixed or is_large):
        return Mix(corpora, plans, 1, is_whole=True)
    n_windows = -(-sum(corpus.n_per_epoch for corpus in corpora) // WINDOW_PAIRS)
    return Mix(corpora, plans, n_windows, is_mixed=is_mixed)


def _corpora(data: DataConfig, stages: Sequence[Stage], manifest: Manifest) -> list[TrainCorpus]:
    """Return the training corpora of a direction. Raises ConfigError as `make_mix`."""
    by_key = train_corpora(manifest)
    recorded = manifest.sources or {}
    if not _is_weighted(data, stages):
        return list(by_key.values())
    sources = data.train_sources
    # cleaning may keep no pairs of a corpus; of several directions, it may also have none in one
    empty = {key for key in sources if key in recorded and recorded[key].kept == 0}
    if different := sorted((sources.keys() ^ by_key.keys()) - empty):
        problem = f"data.{different[0]}: the data directory has no pairs of this corpus"
        if different[0] not in sources:
            problem = f"data.train: lacks a corpus of the data directory, {by_key[different[0]].name}"
        raise ConfigError(f"{problem}, so corpora cannot be weighted; run nmt prepare again")
    for key, source in sources.items():
        weights = [source.weight]
        for stage in stages:
            if stage.weights:
                weights.append(stage.weights.get(source.label))
        if key in empty and any(weights) and not data.has_language_tags:
            raise ConfigError(
                f"data.{key}: nmt prepare kept no pairs of this corpus, so it cannot have a weight; remove it from "
                "the config, and run nmt prepare again"
            )
    corpora = []
    for key, corpus in by_key.items():
        source = sources[key]
        is_used = source.to in (None, data.tgt)
        corpora.append(replace(corpus, name=source.label, weight=source.weight, is_used=is_used))
    return corpora


def _plan(data: DataConfig, stage: Stage, by_direction: Sequence[Sequence[TrainCorpus]]) -> StagePlan:
    """Return the shares of all corpora: the share of each direction times the corpus's share within it."""
    sizes = []
    n_pairs = []
    for corpora in by_direction:
        sizes.append(_sizes(stage, corpora, data.temperature))
        n_pairs.append(Fraction(sum(corpus.n_per_epoch for corpus in corpora if corpus.is_used)))
    weights = _powers(n_pairs, data.direction_temperature)
    for i, of_corpora in enumerate(sizes):
        if not any(of_corpora):
            weights[i] = Fraction(0)
    if not any(weights):
        raise ConfigError(f"training.stages: no direction has pairs of {', '.join(stage.weights or ())}")
    shares = []
    for weight, of_corpora in zip(weights, sizes, strict=True):
        share = weight / sum(weights) / (sum(of_corpora) or 1)
        shares += [share * size for size in of_corpora]
    return StagePlan(tuple(shares), stage.steps)


def _powers(sizes: Sequence[Fraction], temperature: float) -> list[Fraction]:
    """Return sizes ** (1 / temperature), with nine digits, since the last ones of a power differ between machines."""
    if temperature == 1:
        return [*sizes]
    return [_exact(float(f"{float(size) ** (1 / temperature):.9g}")) for size in sizes]


def _sizes(stage: Stage, corpora: Sequence[TrainCorpus], temperature: float | None) -> list[Fraction]:
    """Return numbers in proportion to the shares of the corpora of a direction; 0 for those that are not used."""
    if stage.weights is not None:
        sizes = [_exact(stage.weights.get(corpus.name, 0.0)) for corpus in corpora]
    elif stage.temperature is None and corpora and corpora[0].weight is not None:
        sizes = [_exact(corpus.weight or 0.0) for corpus in corpora]
    else:
        sizes = _powers([Fraction(corpus.n_per_epoch) for corpus in corpora], stage.temperature or temperature or 1)
    return [size if corpus.is_used else Fraction(0) for size, corpus in zip(sizes, corpora, strict=True)]


def _exact(number: float) -> Fraction:
    """Return the decimal number as an exact fraction: 57/100 for 0.57."""
    return Fraction(repr(number))


def train_corpora(manifest: Manifest) -> dict[str, TrainCorpus]:
    """Return the training corpora of a data directory by their keys in `data`, in the order of their rows.

    If the manifest does not say how many pairs of a file are of which corpus, there is one corpus.
    """
    train = manifest.splits["train"]
    sources = manifest.sources or {}
    runs = {}
    first = 0
    if train.shards is None:
        by_number = {number: key for key in sources if (number := train_number(key)) is not None}
        for _, key in sorted(by_number.items()):
            n = (sources[key].kept or 0) * _repeat(manifest, key)  # repeated in place
            if n:
                runs[key] = [Run(first, n)]
            first += n
        if first != train.pairs:
            return {train_key(0): TrainCorpus("train", (Run(0, train.pairs),))}
        return {key: TrainCorpus(sources[key].corpus, tuple(runs[key])) for key in runs}
    for shard in train.shards:
        runs.setdefault(shard.source, []).append(Run(first, shard.pairs))
        first += shard.pairs
    corpora = {}
    for key, of_corpus in runs.items():
        name = sources[key].corpus if key in sources else key
        corpora[key] = TrainCorpus(name, tuple(of_corpus), _repeat(manifest, key), block=BLOCK_PAIRS)
    return corpora


def _repeat(manifest: Manifest, key: str) -> int:
    """Return how often a data directory repeats the pairs of a source."""
    with suppress(KeyError, IndexError, TypeError, AttributeError):  # the recipe is not checked when it is read
        repeat = (manifest.config or {})["data"]["train"][train_number(key)].get("repeat", 1)  # type: ignore[index]
        if isinstance(repeat, int) and repeat >= 1:
            return repeat
    return 1
