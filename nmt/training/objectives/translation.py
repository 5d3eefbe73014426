"""Translation of pairs: tags before the sources, decoder-only translation, and validation by BLEU and chrF.

A pair may be changed for an update by `training.modifiers`. Tags are put before its source: the target language with
`data.directions`, and `tags` of training corpora. A pair is learned without the tags of its corpus with probability
`training.tag_dropout`, which is drawn by hash of (seed, epoch, row of the pair in the corpus). Prepared files have no
tags.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from nmt.console import Progress
from nmt.data.batching import Pairs, joined
from nmt.data.corpus import Corpora, Corpus
from nmt.data.lines import Indices, Segments, Side
from nmt.data.mixing import train_corpora
from nmt.data.modifiers import FuzzyMatches, Modifiers
from nmt.data.random_numbers import TAGS, fractions, hashed, key_of
from nmt.data.settings import DataConfig
from nmt.errors import ConfigError, DataError
from nmt.model.transformer import DecodingModel, Model
from nmt.search.settings import SearchConfig
from nmt.training.objective import Objective
from nmt.training.settings import TrainingConfig
from nmt.training.text_validator import TextValidator
from nmt.training.validate import Execution, HeldOutSplit, Validation, Validator
from nmt.translate.configured import source_lines
from nmt.translate.search import OpenLanguageModel
from nmt.translate.types import Line


class Translation(Objective):
    """Translation of sources into targets, by an encoder and a decoder or by a decoder only."""

    modifiers: Modifiers | None = None

    def __post_init__(self) -> None:
        """Raises DataError or ConfigError if the training text lacks what the modifiers or tags need."""
        if self.corpora is not None and self.settings.modifiers:
            self.modifiers = Modifiers(self.corpora, self.data, self.settings)
            self.glossary = self.modifiers.glossary
            self.changes.append(self.modifiers.modified)
        if self.corpora is not None and (self.data.has_language_tags or self.data.tag_names):
            self.changes.append(Tagging(self.corpora, self.data, self.settings).tagged)
        if self.joins_sides:
            self.changes.append(one_sequence)

    def examples(self, src: Side, tgt: Side, mono: Sequence[Side] = (), segments: Segments | None = None) -> Pairs:  # noqa: ARG002
        """Return the pairs."""
        return Pairs(src, tgt, segments)

    def modified_examples(self, pairs: Pairs, n: int) -> Mapping[str, tuple[str, str] | None]:
        """Return a modified pair for each modifier; None for one that changes none of `n` sampled pairs."""
        return {} if self.modifiers is None else self.modifiers.examples(pairs, n)

    def split_examples(self, held_out: HeldOutSplit) -> Pairs:
        """Return the pairs of a split, with the translations of similar lines and the tags of all sources."""
        data = self.data
        pairs = super().split_examples(held_out)
        if self.settings.reads_similar:
            pairs = FuzzyMatches.of(held_out.corpus, data, held_out.name).with_sources(pairs)
        tags = data.language_tag + data.tags_of(held_out.name)
        return all_tagged(pairs, self.tokenizers[data.src].tag_ids(tags)) if tags else pairs


class Tagging:
    """The tags of the directions and training corpora."""

    def __init__(self, corpora: Corpora, all_data: DataConfig, settings: TrainingConfig) -> None:
        """Raises ConfigError if the data directory has other corpora than the config, or lacks a tag."""
        self._seed = settings.seed
        self._rate = settings.tag_dropout
        tokenizer = corpora.tokenizers[all_data.src]
        self._always, self._all = list[Indices](), list[Indices]()  # of each run of pairs with the same tags
        starts = list[int]()
        for start, (direction, corpus) in zip(corpora.starts.tolist(), corpora.by_direction.items(), strict=False):
            data = all_data.towards(direction)
            language = tokenizer.tag_ids(data.language_tag)
            tags = _tags_by_row(corpus, data) if data.tag_names else {0: []}
            for first, of_corpus in sorted(tags.items()):
                starts.append(start + first)
                self._always.append(np.array(language, np.int64))
                self._all.append(np.array(language + of_corpus, np.int64))
        self._starts = np.array(starts)

    def tagged(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) with tags before their sources; row i of the result is row `rows[i]`."""
        (src, tgt), corpus_rows = pairs.lines(rows), pairs.corpus_rows(rows)
        numbers = np.searchsorted(self._starts, corpus_rows, side="right") - 1
        drawn = fractions(hashed(key_of(self._seed, epoch, TAGS), corpus_rows))
        for place, (number, is_tagged) in enumerate(zip(numbers.tolist(), drawn >= self._rate, strict=True)):
            tags = self._all[number] if is_tagged else self._always[number]
            src[place] = np.concatenate((tags, src[place]))
        return Pairs.changed(src, tgt, corpus_rows)


def _tags_by_row(corpus: Corpus, data: DataConfig) -> dict[int, list[int]]:
    """Return the tags of the training corpora by the first row of each run of their pairs. Raises ConfigError."""
    sources = corpus.manifest.sources or {}
    tokenizer = corpus.tokenizers[data.src]
    corpora = train_corpora(corpus.manifest)
    again = f"{corpus.directory.path}: run nmt prepare again"
    tags: dict[int, list[int]] = {}
    for key, source in data.train_sources.items():
        if key not in corpora and not (key in sources and sources[key].kept == 0):
            raise ConfigError(f"{again}, which records no pairs of data.{key} and so cannot give it tags")
        try:
            ids = tokenizer.tag_ids(source.tag_names)
        except DataError as error:
            raise ConfigError(f"{again}: data.{key}.tags: {error}") from error
        if key in corpora:
            tags |= dict.fromkeys((run.first for run in corpora[key].runs), ids)
    return tags


def all_tagged(pairs: Pairs, ids: Sequence[int]) -> Pairs:
    """Return pairs with the same tags before all sources."""
    rows = np.arange(len(pairs))
    src, tgt = pairs.lines(rows)
    return Pairs.changed([np.concatenate((np.array(ids, np.int64), source)) for source in src], tgt, rows)


def one_sequence(pairs: Pairs, rows: Indices, epoch: int) -> Pairs:  # noqa: ARG001 (the signature of every change)
    """Return the pairs `rows` (N,) with targets `source SEPARATOR target`; row i of the result is row `rows[i]`.

    The loss is computed after the separator, end of sentence counted. The sources are not changed: their lengths are
    the lengths of the prefixes.
    """
    sources, targets = pairs.lines(rows)
    sequences = []
    scored = []
    for src, tgt in zip(sources, targets, strict=True):
        sequences.append(joined(src, tgt))
        scored.append(np.arange(len(src) + len(tgt) + 2) > len(src))
    return Pairs.changed(sources, sequences, pairs.corpus_rows(rows), scored)


class TranslationValidator(TextValidator):
    """A validator that also translates the development set, or another split, and scores the translations.

    If the number of lines is limited (`HeldOutSplit.most_lines`), search is greedy, but for the final weights.
    """

    def __init__(
        self,
        objective: Objective,
        held_out: HeldOutSplit,
        execution: Execution,
        search: SearchConfig,
        open_lm: OpenLanguageModel,
    ) -> None:
        """Read the lines. Raises ConfigError or DataError if the search settings cannot be used."""
        data = objective.data
        context = max(1, search.context) if objective.settings.joins_sentences else 0
        tagged = search.with_tags(data.tags_of(held_out.name))
        searches = [tagged.model_copy(update={"context": context})]
        if held_out.most_lines is not None:
            greedy = {"beam": 1, "diversity_groups": 1, "mbr": "none", "sample": False}
            searches.append(searches[0].model_copy(update=greedy))
        super().__init__(objective, held_out, execution, searches, open_lm)
        split = held_out.corpus.split(held_out.name)
        self.src_lines = split.text(data.src)
        self.references = split.text(data.tgt)
        self._lines = source_lines(held_out.corpus, data, objective.settings.reads_similar, held_out.name)
        if context:
            self._lines = _in_context(self._lines, self.references, context)
        self._whole: TranslationValidator | None = None
        if held_out.most_lines is not None:
            self._whole = copy(self)
            self._search = searches[-1]
        self.src_lines = self.src_lines[: held_out.n_translated]
        self.references = self.references[: held_out.n_translated]

    def at_end(self) -> Validator:
        """Return a validator of all lines, with the configured search."""
        return self._whole or self

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        validation = super().scored(model, poll)
        assert isinstance(model, DecodingModel), "only decoders write text"
        translator = self._translator(self._searcher.with_models([model]))
        translations = []
        lines = self._lines[: len(self.src_lines)]
        with Progress("validating", len(lines)) as progress:
            for best in translator.translate_lines(lines, self._search, progress=progress):
                poll()
                translations.append(best[0].text)
        return replace(validation, scores=self.text_scores(translations), translations=translations)


def _in_context(lines: Sequence[Line], references: Sequence[str], n: int) -> list[Line]:
    """Return each line with up to `n` lines before it in its document, and their reference translations.

    So all lines are independent of each other, and translated at once.
    """
    in_context = list[Line]()
    before = deque[tuple[str, str]](maxlen=n)
    for line, reference in zip(lines, references, strict=True):
        if line.is_first:
            before.clear()
        in_context.append(replace(line, is_first=True, before=tuple(before)))
        before.append((line.text, reference))
    return in_context
