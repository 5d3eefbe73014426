"""The windows of an epoch: pairs that are shuffled and grouped into updates together.

Training pairs are numbered across their files. Files are mapped only while they are read: a window may have a few pairs
of each of many files. P pairs of a window, B lines of a batch.

A training set in one file whose corpora have no weights is one window, so that an epoch is planned as a whole. Any
other training set is divided into windows of about `WINDOW_PAIRS` pairs, each a function of the seed and its position.
While one is learned, a thread plans the next, and the ids of a window are in memory until it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nmt.config import Config
from nmt.data.batching import Pairs, Update, epoch_updates
from nmt.data.bpe_dropout import BpeDropout
from nmt.data.corpus import Corpus, Lines, Rows, Split, lines_of
from nmt.data.examples import learned_pairs
from nmt.data.mixing import BLOCK, Position, Segments, Stream, is_mixed, make_mix
from nmt.errors import DataError

_CHUNK = 1 << 16  # lines that are read together


class WindowLines:
    """One language of the pairs of a window, whose ids are read into memory when they are first gathered."""

    def __init__(self, splits: Sequence[Split], language: str, segments: Segments) -> None:
        """`splits`: the files of all training pairs, whose rows are numbered across them."""
        self._splits, self._language, self._segments = splits, language, segments
        self._ends = np.cumsum([split.n for split in splits])

    def __len__(self) -> int:
        return len(self._segments)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""
        n_ids = [np.zeros(0, np.int32)]
        for lines, firsts, sizes in self._parts():
            within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            n_ids.append(lines.spans(np.repeat(firsts, sizes) + within)[1].astype(np.int32))
        return np.concatenate(n_ids)

    @cached_property
    def lines(self) -> Lines:
        """The lines of the window, in memory."""
        ids = [lines.between(firsts, firsts + sizes) for lines, firsts, sizes in self._parts()]
        return Lines(np.concatenate(ids or [np.zeros(0, np.uint16)]), np.cumsum(self.n_ids(), dtype=np.int64))

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        return self.lines.gather(rows, last)

    def _parts(self) -> Iterator[tuple[Lines, Rows, Rows]]:
        """Yield runs of consecutive lines, all in one file and about `_CHUNK` lines at a time: the lines of the file,
        the first line of each run, and the sizes of the runs."""
        firsts, sizes = self._segments.firsts, self._segments.sizes
        numbers = np.searchsorted(self._ends, firsts, side="right")
        is_first = (np.diff(numbers) != 0) | (np.diff(np.cumsum(sizes) // _CHUNK) != 0)
        for runs in np.split(np.arange(len(firsts)), np.flatnonzero(is_first) + 1):
            if len(runs):
                number = int(numbers[runs[0]])
                split = self._splits[number]
                yield lines_of(split, self._language), firsts[runs] - (int(self._ends[number]) - split.n), sizes[runs]


@dataclass(frozen=True)
class Window:
    """The pairs of a window, and the updates in training order; the rows of an update index these pairs."""

    position: Position
    pairs: Pairs
    updates: list[Update]


class Windows:
    """The windows of a run, which a thread can plan ahead."""

    def __init__(self, corpus: Corpus, config: Config) -> None:
        """Raises ConfigError if the config mixes corpora that the data directory does not have, or DataError if pairs
        that are in shards or mixed would be learned together with monolingual text."""
        self.mix = make_mix(config, corpus.manifest)
        self._corpus, self._config, settings = corpus, config, config.training
        self._has_dropout = settings.bpe_dropout > 0 or settings.subword_nbest > 1
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
                sides = {language: lines_of(split, language) for language in corpus.languages}
                self._dropout = BpeDropout(sides, corpus.tokenizers, config.data, settings)
        self._planner: ThreadPoolExecutor | None = None
        self._planned: tuple[Position, Future[Window]] | None = None

    @property
    def n_examples(self) -> int:
        """The number of pairs or lines in an epoch."""
        return self.mix.n_pairs * self._config.n_per_pair + sum(map(len, self._mono))

    @property
    def is_fixed(self) -> bool:
        """Whether all epochs have the same pairs."""
        return self._whole is not None and self._dropout is None

    @contextmanager
    def planning_ahead(self, position: Position) -> Iterator[None]:
        """Start a thread that plans the window after the current one, which is at `position`."""
        if self._whole is not None:
            yield
            return
        with ThreadPoolExecutor(1, "windows") as self._planner:
            try:
                self._plan(self._planner, self.mix.after(position))
                yield
            finally:
                self._planner = self._planned = None

    def sample(self) -> Pairs:
        """Return the pairs of the first window, before BPE-dropout; the memory for the longest pairs is measured with
        them."""
        return self._whole or self._pairs(self._segments(Position()), None)

    def longest(self) -> int:
        """Return the length of the longest side of all training pairs, including the end of sentence.

        Shards are not searched for it: for them, the result is the longest that `nmt prepare` keeps.
        """
        if self._whole is not None:
            return self._whole.lengths.max()
        n_lines = 2 if self._config.training.masked.pair_task else 1  # of a sequence
        if not self._is_sharded:
            longest = max(int(lines_of(self._splits[0], name).n_ids().max()) for name in self._corpus.languages)
            return n_lines * (1 + longest)
        recorded = (self._corpus.manifest.config or {}).get("data")
        limit = recorded.get("max_pieces") if isinstance(recorded, dict) else None
        return n_lines * (1 + limit) if isinstance(limit, int) else self.sample().lengths.max()

    def load(self, position: Position) -> Window:
        """Return a window. Raises DataError if one of its files is damaged."""
        if self._planner is None:
            return self._make(position)
        if self._planned is None or self._planned[0] != position:  # a stage has ended within a window
            self._plan(self._planner, position)
        assert self._planned is not None
        window = self._planned[1].result()
        self._plan(self._planner, self.mix.after(position))
        return window

    def _plan(self, planner: ThreadPoolExecutor, position: Position) -> None:
        self._planned = position, planner.submit(self._make, position)

    def _make(self, at: Position) -> Window:
        """Plan a window in this thread, and return it."""
        if self._whole is None:
            pairs = self._pairs(self._segments(at), at.epoch)
        else:
            pairs = self._whole if self._dropout is None else self._dropout.pairs(at.epoch)
        training = self._config.training
        updates = epoch_updates(pairs.lengths, training.update_tokens, training.seed, at.epoch, at.window)
        return Window(at, pairs, updates)

    def _segments(self, at: Position) -> Segments:
        """Return the rows of a window. Raises DataError if a shard that is read for the first time is damaged."""
        takes = zip(self._streams, self.mix.takes(at), strict=True)
        segments = Segments([run for stream, part in takes for run in stream.take(*part)], int(self._ends[-1]))
        if self._unverified:
            numbers = np.searchsorted(self._ends, segments.firsts, side="right")
            for name in sorted({self._splits[number].name for number in np.unique(numbers)} & self._unverified):
                self._corpus.verify(name, ("ids", "ends"))
                self._unverified.discard(name)
        return segments

    def _pairs(self, segments: Segments, epoch: int | None) -> Pairs:
        """Return the pairs of a window, with BPE-dropout of `epoch` if one is given."""
        data, training = self._config.data, self._config.training
        sides = {language: WindowLines(self._splits, language, segments) for language in self._corpus.languages}
        if self._has_dropout and epoch is not None and len(segments):
            lines = {language: side.lines for language, side in sides.items()}
            return BpeDropout(lines, self._corpus.tokenizers, data, training, segments).pairs(epoch)
        return learned_pairs(self._config, sides.__getitem__, segments=segments)
