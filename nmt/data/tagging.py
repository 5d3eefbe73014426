"""Tags before the sources of an update: the target language with `data.directions`, and `tags` of training corpora.

A pair is learned without the tags of its corpus with probability `training.tag_dropout`, which is drawn by hash of
(seed, epoch, row of the pair in the corpus). Prepared files have no tags.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.config import Config, DataConfig
from nmt.data.batching import Indices, Pairs
from nmt.data.corpus import Corpora, Corpus
from nmt.data.mixing import train_corpora
from nmt.data.random_numbers import fractions, hashed, key_of
from nmt.errors import ConfigError, DataError

_STREAM = 3  # BPE-dropout draws from 0 and 1, modifiers from 2


class Tagging:
    """The tags of the directions and training corpora."""

    def __init__(self, corpora: Corpora, config: Config) -> None:
        """Raises ConfigError if the data directory has other corpora than the config, or lacks a tag."""
        self._seed, self._rate = config.training.seed, config.training.tag_dropout
        tokenizer = corpora.tokenizers[config.data.src]
        runs: list[tuple[int, list[int], list[int]]] = []
        for start, (direction, corpus) in zip(corpora.starts.tolist(), corpora.by_direction.items(), strict=False):
            data = config.data.towards(direction)
            language = tokenizer.tag_ids(data.language_tag)
            tags = _tags_by_row(corpus, data) if data.tag_names else {0: []}
            runs += [(start + first, language, own) for first, own in sorted(tags.items())]
        self._starts = np.array([first for first, _, _ in runs])
        self._always, self._all = (
            [np.array(ids, np.int64) for ids in column]
            for column in ([language for _, language, _ in runs], [language + own for _, language, own in runs])
        )

    def tagged(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) with tags before their sources; row i of the result is row `rows[i]`."""
        (src, tgt), corpus_rows = pairs.lines(rows), pairs.corpus_rows(rows)
        numbers = np.searchsorted(self._starts, corpus_rows, side="right") - 1
        drawn = fractions(hashed(key_of(self._seed, epoch, _STREAM), corpus_rows))
        sources = [
            np.concatenate(((self._all if is_tagged else self._always)[number], source))
            for source, number, is_tagged in zip(src, numbers, drawn >= self._rate, strict=True)
        ]
        return Pairs.changed(sources, tgt, corpus_rows)


def _tags_by_row(corpus: Corpus, data: DataConfig) -> dict[int, list[int]]:
    """Return the tags of the training corpora by the first row of each run of their pairs. Raises ConfigError."""
    manifest, tokenizer = corpus.manifest, corpus.tokenizers[data.src]
    found, again = train_corpora(manifest), f"{corpus.directory.path}: run nmt prepare again"
    tags: dict[int, list[int]] = {}
    for i, source in enumerate(data.train):
        key, sources = f"train.{i}", manifest.sources or {}
        if key not in found and not (key in sources and sources[key].kept == 0):
            raise ConfigError(f"{again}, which records no pairs of data.{key} and so cannot give it tags")
        try:
            ids = tokenizer.tag_ids(source.tag_names)
        except DataError as error:
            raise ConfigError(f"{again}: data.{key}.tags: {error}") from error
        tags |= dict.fromkeys((run.first for run in found[key].runs), ids) if key in found else {}
    return tags


def all_tagged(pairs: Pairs, ids: Sequence[int]) -> Pairs:
    """Return pairs with the same tags before all sources."""
    rows = np.arange(len(pairs))
    src, tgt = pairs.lines(rows)
    return Pairs.changed([np.concatenate((np.array(ids, np.int64), source)) for source in src], tgt, rows)
