"""The windows of an epoch: pairs that are shuffled and grouped into updates together.

Files are mapped while they are read, never for longer: a window may have a little of each of many. P pairs of a window,
B lines of a batch.

A training set in one file whose corpora have no weights is one window, so that an epoch is planned as a whole. Any
other is divided into windows of about `WINDOW_PAIRS` pairs, each a function of the seed and its position: while one is
learned from, a thread plans the next, and the ids of a window are in memory until it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

import numpy as np

from nmt.config import Config
from nmt.data.batching import EpochUpdates, Pairs, epoch_updates
from nmt.data.bpe_dropout import BpeDropout
from nmt.data.corpus import Corpus, Lines, lines_of
from nmt.data.examples import learned_pairs
from nmt.data.mixing import BLOCK, Position, Segments, Stream, is_mixed, make_mix
from nmt.data.shards import WindowLines, WindowText
from nmt.errors import DataError
from nmt.process import Interrupted


@dataclass(frozen=True)
class Window:
    """The pairs of a window, and its updates in training order; an update's rows are those of these pairs."""

    position: Position
    pairs: Pairs
    updates: EpochUpdates


@dataclass(frozen=True)
class _Planned:
    """A window that a thread plans, unless `cancelled` is set first."""

    position: Position
    window: Future[Window]
    cancelled: Event


class Windows:
    """Makes the windows of a run."""

    def __init__(self, corpus: Corpus, config: Config) -> None:
        """Raises ConfigError if the config mixes other corpora than the data directory has, or DataError if pairs that
        are in shards or mixed would be learned together with monolingual text."""
        self.mix = make_mix(config, corpus.manifest)
        self._corpus, self._config, settings = corpus, config, config.training
        self._has_dropout = bool(settings.bpe_dropout)
        shards = corpus.manifest.splits["train"].shards
        self._splits = [corpus.split(shard.name) for shard in shards] if shards else [corpus.split("train")]
        self._ends = np.cumsum([split.n for split in self._splits])
        self._is_sharded = bool(shards)
        self._unverified = {shard.name for shard in shards or []}
        block = BLOCK if shards else 1  # in one file the pairs are in the order of their texts
        self._streams = [Stream(part.runs, (settings.seed, i), block) for i, part in enumerate(self.mix.corpora)]
        self._mono: list[Lines] = []
        if config.learns_lines:
            learned = [language for language in corpus.mono_languages if language in config.learned_languages]
            self._mono = [lines_of(corpus.mono(language), language) for language in learned]
            if self._mono and (shards or is_mixed(config)):
                what = "training text in shards" if shards else "weights, data.temperature and training.stages"
                raise DataError(f"{corpus.directory.path}: data.mono needs training in one window, without {what}")
        self._whole: Pairs | None = None
        self._dropout: BpeDropout | None = None
        if not shards and not is_mixed(config):
            split = self._splits[0]
            self._whole = learned_pairs(config, lambda language: lines_of(split, language), self._mono)
            if self._has_dropout:
                self._dropout = BpeDropout(split, corpus.tokenizers, config.data, settings)
        self._planner: ThreadPoolExecutor | None = None
        self._planned: _Planned | None = None

    @property
    def n_examples(self) -> int:
        """Number of pairs or lines in an epoch."""
        return self.mix.n_pairs * self._config.n_per_pair + sum(map(len, self._mono))

    @property
    def is_fixed(self) -> bool:
        """Whether the pairs of all epochs are the same."""
        return self._whole is not None and self._dropout is None

    @contextmanager
    def planning_ahead(self, position: Position) -> Iterator[None]:
        """Context in which a thread plans the window after the current one, which is at `position`."""
        if self._whole is not None:
            yield
            return
        with ThreadPoolExecutor(1, "windows") as self._planner:
            try:
                self._planned = self._plan(self._planner, self.mix.after(position))
                yield
            finally:
                self._drop_planned()
                self._planner = None

    def sample(self) -> Pairs:
        """Return the pairs of the first window, before BPE-dropout, to measure the memory of the longest ones."""
        if self._whole is not None:
            return self._whole
        return self._pairs(self._segments(Position(), _never), _never, None)

    def longest(self) -> int:
        """Return the length of the longest side of all training pairs, end of sentence counted.

        Shards are not searched for it: there it is the longest that prepare has kept.
        """
        if self._whole is not None:
            return self._whole.lengths.max()
        n_lines = 2 if self._config.training.masked.pair_task else 1  # of a sequence
        if not self._is_sharded:
            longest = max(int(self._splits[0].lengths(language).max()) for language in self._corpus.languages)
            return n_lines * (1 + longest)
        recorded = (self._corpus.manifest.config or {}).get("data")
        limit = recorded.get("max_pieces") if isinstance(recorded, dict) else None
        return n_lines * (1 + limit) if isinstance(limit, int) else self.sample().lengths.max()

    def load(self, position: Position) -> Window:
        """Return a window. Raises DataError if a file of it is damaged."""
        if self._planner is None:
            return self._make(position, _never)
        if self._planned is None or self._planned.position != position:  # a stage has ended within a window
            self._drop_planned()
            self._planned = self._plan(self._planner, position)
        window = self._planned.window.result()
        self._planned = self._plan(self._planner, self.mix.after(position))
        return window

    def _plan(self, planner: ThreadPoolExecutor, position: Position) -> _Planned:
        """Plan a window in the thread."""
        cancelled = Event()

        def poll() -> None:
            if cancelled.is_set():
                raise Interrupted

        return _Planned(position, planner.submit(self._make, position, poll), cancelled)

    def _drop_planned(self) -> None:
        if self._planned is not None:
            self._planned.cancelled.set()
            self._planned = None

    def _make(self, at: Position, poll: Callable[[], None]) -> Window:
        """Plan a window."""
        if self._whole is None:
            pairs = self._pairs(self._segments(at, poll), poll, at.epoch)
        else:
            pairs = self._whole if self._dropout is None else self._dropout.pairs(at.epoch)
        training = self._config.training
        updates = epoch_updates(pairs.lengths, training.update_tokens, training.seed, at.epoch, at.window)
        return Window(at, pairs, updates)

    def _segments(self, at: Position, poll: Callable[[], None]) -> Segments:
        """Return the rows of a window. Raises DataError if a shard that is read for the first time is damaged."""
        takes = zip(self._streams, self.mix.takes(at), strict=True)
        segments = Segments([run for stream, part in takes for run in stream.take(*part)], int(self._ends[-1]))
        if self._unverified:
            numbers = np.searchsorted(self._ends, segments.firsts, side="right")
            for name in sorted({self._splits[number].name for number in np.unique(numbers)} & self._unverified):
                poll()
                self._corpus.verify(name, ("ids", "ends"))
                self._unverified.discard(name)
        return segments

    def _pairs(self, segments: Segments, poll: Callable[[], None], epoch: int | None) -> Pairs:
        """Return the pairs of a window, with BPE-dropout of `epoch` if one is given."""
        data, training = self._config.data, self._config.training
        if self._has_dropout and epoch is not None and len(segments):
            text = WindowText(self._splits, segments, poll)
            return BpeDropout(text, self._corpus.tokenizers, data, training, segments).pairs(epoch, poll)
        return learned_pairs(
            self._config, lambda language: WindowLines(self._splits, language, segments), segments=segments
        )


def _never() -> None:
    """Do not interrupt."""
