"""The windows of an epoch: pairs that are shuffled and grouped into updates together.

Training pairs are numbered across their files. Files are mapped only while they are read: a window may have a few pairs
of each of many files. P pairs of a window, B lines of a batch.

A training set without shards and weights is one window, so that an epoch is planned as a whole, unless it has several
directions with more than `WINDOW_PAIRS` pairs in all. Any other training set is divided into windows of about
`WINDOW_PAIRS` pairs, each a function of the seed and its position. While one is learned, a thread plans the next, and
the ids of a window are in memory until it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nmt.data.batching import Pairs, Update, epoch_updates
from nmt.data.bpe_dropout import BpeDropout
from nmt.data.corpus import Corpora, Corpus, Split, lines_of
from nmt.data.lines import Indices, Integers, Joined, Lines, Segments, Side, concatenated
from nmt.data.mixing import Position, Stream, make_mix
from nmt.data.settings import DataConfig
from nmt.errors import DataError
from nmt.text.ids import ranges
from nmt.training.settings import TrainingConfig

_CHUNK = 1 << 16  # lines that are read together


class WindowLines:
    """One side of the pairs of a window, whose ids are read into memory when they are first gathered."""

    def __init__(self, files: Sequence[tuple[Split, str]], segments: Segments) -> None:
        """`files`: the splits and languages of all training pairs, whose rows are numbered across them."""
        self._files = files
        self._segments = segments
        self._ends = np.cumsum([split.n for split, _ in files])

    def __len__(self) -> int:
        return len(self._segments)

    def n_ids(self) -> Integers:
        """Return the number of ids of each line, (P,)."""
        n_ids = [np.zeros(0, np.int32)]
        for lines, firsts, sizes in self._parts():
            n_ids.append(lines.spans(ranges(firsts, sizes))[1].astype(np.int32))
        return np.concatenate(n_ids)

    @cached_property
    def lines(self) -> Lines:
        """The lines of the window, in memory."""
        ids = [lines.between(firsts, firsts + sizes) for lines, firsts, sizes in self._parts()]
        return Lines(np.concatenate(ids or [np.zeros(0, np.uint16)]), np.cumsum(self.n_ids(), dtype=np.int64))

    def gather(self, rows: Indices, last: int) -> Indices:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        return self.lines.gather(rows, last)

    def _parts(self) -> Iterator[tuple[Lines, Indices, Indices]]:
        """Yield runs of consecutive lines, all in one file and about `_CHUNK` lines at a time: the lines of the file,
        the first line of each run, and the sizes of the runs."""
        firsts = self._segments.firsts
        sizes = self._segments.sizes
        numbers = np.searchsorted(self._ends, firsts, side="right")
        is_first = (np.diff(numbers) != 0) | (np.diff(np.cumsum(sizes) // _CHUNK) != 0)
        for runs in np.split(np.arange(len(firsts)), np.flatnonzero(is_first) + 1):
            if len(runs):
                number = int(numbers[runs[0]])
                split, language = self._files[number]
                yield lines_of(split, language), firsts[runs] - (int(self._ends[number]) - split.n), sizes[runs]


@dataclass(frozen=True)
class Window:
    """The pairs of a window, and the updates in training order; the rows of an update index these pairs."""

    position: Position
    pairs: Pairs
    updates: list[Update]


Examples = Callable[[Side, Side, Sequence[Side], Segments | None], Pairs]
"""A function that returns the examples of a text, given its sources and targets, monolingual lines, and the rows of a
window."""


class Windows:
    """The windows of a run, which a thread can plan ahead."""

    def __init__(
        self,
        corpora: Corpora,
        data: DataConfig,
        training: TrainingConfig,
        learned_languages: Sequence[str],
        examples: Examples,
    ) -> None:
        """`learned_languages`: the languages that an objective learns if it learns single lines.

        Raises ConfigError if the config mixes corpora that the data directory does not have, or DataError if pairs
        that are in shards or mixed would be learned together with monolingual text."""
        by_direction = corpora.by_direction
        manifests = {direction: corpus.manifest for direction, corpus in by_direction.items()}
        self.mix = make_mix(data, training.stages, manifests)
        self._corpora = corpora
        self._data = data
        self._training = training
        self.n_per_pair = len(learned_languages) if training.learns_lines else 1
        """Number of training examples made from each pair of the corpus."""
        self._examples = examples
        self._has_dropout = training.bpe_dropout > 0 or training.subword_nbest > 1
        self._src_files = list[tuple[Split, str]]()
        self._tgt_files = list[tuple[Split, str]]()
        self._unverified: dict[Split, Corpus] = {}  # shards that no window has read yet
        for direction, corpus in by_direction.items():
            src_language, tgt_language = direction.split("-")
            for split in corpus.train_splits:
                self._src_files.append((split, src_language))
                self._tgt_files.append((split, tgt_language))
                if corpus.is_sharded:
                    self._unverified[split] = corpus
        self._ends = np.cumsum([split.n for split, _ in self._src_files])
        self._is_sharded = bool(self._unverified)
        self._streams = []
        for i, mixed in enumerate(self.mix.corpora):
            self._streams.append(Stream(mixed.runs, (training.seed, i), mixed.block))
        self._mono = self._monolingual(learned_languages) if training.learns_lines else []
        self._whole: Pairs | None = None
        self._dropout: BpeDropout | None = None
        if self.mix.is_whole:
            src = [lines_of(*file) for file in self._src_files]
            tgt = [lines_of(*file) for file in self._tgt_files]
            self._whole = self._examples(_joined(src), _joined(tgt), self._mono, None)
            if self._has_dropout:
                self._dropout = self._make_dropout(concatenated(src), concatenated(tgt))
        self._planner: ThreadPoolExecutor | None = None
        self._planned: tuple[Position, Future[Window]] | None = None

    def _monolingual(self, languages: Sequence[str]) -> list[Lines]:
        corpus = self._corpora.first
        mono = [lines_of(corpus.mono(name), name) for name in corpus.mono_languages if name in languages]
        if mono and (self._is_sharded or self.mix.is_mixed):
            what = "training text in shards" if self._is_sharded else "weights, data.temperature and training.stages"
            raise DataError(f"{corpus.directory.path}: data.mono needs training in one window, without {what}")
        return mono

    @property
    def n_examples(self) -> int:
        """The number of pairs or lines in an epoch."""
        return self.mix.n_pairs * self.n_per_pair + sum(map(len, self._mono))

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
        n_lines = 2 if self._training.masked.pair_task else 1  # of a sequence
        if not self._is_sharded:
            files = *self._src_files, *self._tgt_files
            longest = max(int(lines_of(*file).n_ids().max()) for file in files)
            return n_lines * (1 + longest)
        recorded = (self._corpora.first.manifest.config or {}).get("data")
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
        elif self._dropout is None:
            pairs = self._whole
        else:
            pairs = self._dropout.pairs(at.epoch)
        training = self._training
        updates = epoch_updates(pairs.lengths, training.update_tokens, training.seed, at.epoch, at.window)
        return Window(at, pairs, updates)

    def _segments(self, at: Position) -> Segments:
        """Return the rows of a window. Raises DataError if a shard that is read for the first time is damaged."""
        runs = list[tuple[Indices, Indices]]()
        for stream, part in zip(self._streams, self.mix.takes(at), strict=True):
            runs += stream.take(*part)
        segments = Segments(runs, int(self._ends[-1]))
        if self._unverified:
            numbers = np.unique(np.searchsorted(self._ends, segments.firsts, side="right"))
            for number in numbers.tolist():
                split, _ = self._src_files[number]
                if split in self._unverified:
                    self._unverified[split].verify(split.name, ("ids", "ends"))
                    del self._unverified[split]
        return segments

    def _pairs(self, segments: Segments, epoch: int | None) -> Pairs:
        """Return the pairs of a window, with BPE-dropout of `epoch` if one is given."""
        src = WindowLines(self._src_files, segments)
        tgt = WindowLines(self._tgt_files, segments)
        if self._has_dropout and epoch is not None and len(segments):
            return self._make_dropout(src.lines, tgt.lines, segments).pairs(epoch)
        return self._examples(src, tgt, self._mono, segments)

    def _make_dropout(self, src: Lines, tgt: Lines, segments: Segments | None = None) -> BpeDropout:
        data = self._data
        tokenizers = self._corpora.tokenizers
        sides = ((src, tokenizers[data.src]), (tgt, tokenizers[data.tgt]))
        return BpeDropout(sides, data.max_pieces, self._training, segments)


def _joined(files: Sequence[Lines]) -> Side:
    """Return the lines of all files as one side."""
    return files[0] if len(files) == 1 else Joined(*files)
