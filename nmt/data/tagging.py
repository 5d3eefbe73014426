"""Tags before the sources of an update; see `tags` of the training corpora.

A pair is learned without its tags with probability `training.tag_dropout`, which is drawn by hash of (seed, epoch, row
of the pair in the corpus). Prepared files have no tags.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.config import Config
from nmt.data.batching import Indices, Pairs, unpadded
from nmt.data.corpus import Corpus
from nmt.data.mixing import train_corpora
from nmt.data.random_numbers import fractions, hashed, key_of
from nmt.errors import ConfigError, DataError

_STREAM = 3  # BPE-dropout draws from 0 and 1, modifiers from 2


class Tagging:
    """The tags of the training corpora."""

    def __init__(self, corpus: Corpus, config: Config) -> None:
        """Raises ConfigError if the data directory has other corpora than the config, or lacks a tag."""
        self._seed, self._rate = config.training.seed, config.training.tag_dropout
        tokenizer, manifest = corpus.tokenizers[config.data.src], corpus.manifest
        found, again = train_corpora(manifest), f"{corpus.directory.path}: run nmt prepare again"
        runs: list[tuple[int, int, Indices]] = []
        for i, source in enumerate(config.data.train):
            key, sources = f"train.{i}", manifest.sources or {}
            if key not in found and not (key in sources and sources[key].kept == 0):
                raise ConfigError([f"{again}, which records no pairs of data.{key} and so cannot give it tags"])
            try:
                ids = np.array(tokenizer.tag_ids(source.tag_names), np.int64)
            except DataError as error:
                raise ConfigError([f"{again}: data.{key}.tags: {error}"]) from error
            runs += [(first, first + n, ids) for first, n in (found[key].runs if key in found else ())]
        runs.sort(key=lambda run: run[0])
        self._n_pairs = runs[-1][1]
        self._starts, self._ids = np.array([first for first, _, _ in runs]), [ids for _, _, ids in runs]

    def tagged(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) with tags before their sources; row i of the result is row `rows[i]`."""
        batch, corpus_rows = pairs.batch(rows), pairs.corpus_rows(rows)
        numbers = np.searchsorted(self._starts, corpus_rows % self._n_pairs, side="right") - 1
        drawn = fractions(hashed(key_of(self._seed, epoch, _STREAM), corpus_rows))
        sources = [
            np.concatenate((self._ids[number], source)) if is_tagged else source
            for source, number, is_tagged in zip(unpadded(batch.src), numbers, drawn >= self._rate, strict=True)
        ]
        return Pairs.changed(sources, unpadded(batch.tgt_out), corpus_rows)


def all_tagged(pairs: Pairs, ids: Sequence[int]) -> Pairs:
    """Return pairs with the same tags before all sources."""
    rows = np.arange(len(pairs))
    batch = pairs.batch(rows)
    sources = [np.concatenate((np.array(ids, np.int64), source)) for source in unpadded(batch.src)]
    return Pairs.changed(sources, unpadded(batch.tgt_out), rows)
