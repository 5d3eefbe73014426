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
        tokenizer, found = corpus.tokenizers[config.data.src], train_corpora(corpus.manifest)
        runs = []
        try:
            for i, source in enumerate(config.data.train):
                ids = np.array(tokenizer.tag_ids(source.tag_names), np.int64)
                runs += [(first, first + n, ids) for first, n in found[f"train.{i}"].runs]
        except KeyError as error:
            where = f"{corpus.directory.path}: has no pairs of data.{error.args[0]}"
            raise ConfigError([f"{where}, so corpora cannot have tags; run nmt prepare again"]) from error
        except DataError as error:
            raise ConfigError([f"{corpus.directory.path}: {error}; run nmt prepare again"]) from error
        self._n_pairs = max(stop for _, stop, _ in runs)
        self._starts = np.array([first for first, _, _ in sorted(runs, key=lambda run: run[0])])
        self._ids = [ids for _, _, ids in sorted(runs, key=lambda run: run[0])]

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
