"""Denoising: spans of a line's pieces are masked, and the model restores the line (BART; Lewis et al., 2019,
arXiv:1910.13461).

The pairs have the same line on both sides. The source is masked anew in each update, as a function of (seed, epoch, row
of the line), so that a resumed run learns from the same examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from nmt.console import Progress
from nmt.data.batching import Pairs, unpadded
from nmt.data.lines import Indices
from nmt.data.random_numbers import DENOISING, hashed, key_of
from nmt.model.transformer import DecodingModel, Model
from nmt.search.settings import SearchConfig
from nmt.text.ids import MASK
from nmt.training.facts import DenoisingConfig
from nmt.training.objective import Objective
from nmt.training.text_validator import TextValidator
from nmt.training.validate import Execution, HeldOutSplit, Validation
from nmt.translate.search import OpenLanguageModel
from nmt.translate.segment import longest_translation
from nmt.translate.types import MAX_PARTS, Sentence

_Ids = npt.NDArray[np.int64]


class Denoising(Objective):
    """Restoring of lines in which spans of pieces are masked."""

    def __post_init__(self) -> None:
        self.changes = [partial(infilled, self.settings.denoising, self.seed)]


def infill(ids: _Ids, share: float, span: float, rng: np.random.Generator) -> _Ids:
    """Return ids (L,) in which each of some spans is replaced by one MASK (text infilling).

    `share`: the average share of the ids that are masked; `span`: the mean length of a span, which is drawn from a
    Poisson distribution. A span of length 0 inserts a MASK.
    """
    n_masked = min(len(ids), int(share * len(ids) + rng.random()))
    lengths: list[int] = []
    while (left := n_masked - sum(lengths)) > 0:
        lengths.append(min(int(rng.poisson(span)), left))
    while len(lengths) > n_masked:  # spans of length 0 must not make the line longer
        lengths.remove(0)
    is_span = rng.permutation(np.arange(len(lengths) + len(ids) - n_masked) < len(lengths))
    noised = np.full(len(is_span), MASK, np.int64)
    place = 0
    spans = iter(lengths)
    for i, masks in enumerate(is_span.tolist()):
        if masks:
            place += next(spans)
        else:
            noised[i] = ids[place]
            place += 1
    return noised


def infilled(settings: DenoisingConfig, seed: int, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
    """Return the pairs `rows` (N,) with spans of the sources masked; row i of the result is row `rows[i]`."""
    corpus_rows = pairs.corpus_rows(rows)
    lines = unpadded(pairs.batch(rows).tgt_out)
    seeds = hashed(key_of(seed, epoch, DENOISING), corpus_rows).tolist()
    noised = []
    for ids, line_seed in zip(lines, seeds, strict=True):
        rng = np.random.default_rng(line_seed)
        noised.append(infill(ids, settings.mask_share, settings.mask_span, rng))
    return Pairs.changed(noised, lines, corpus_rows)


class RestorationValidator(TextValidator):
    """A validator that also restores the masked lines of the development set, and scores the text."""

    def __init__(
        self,
        objective: Objective,
        held_out: HeldOutSplit,
        execution: Execution,
        search: SearchConfig,
        open_lm: OpenLanguageModel,
    ) -> None:
        """Read the lines. Raises ConfigError if the search settings cannot be used."""
        searches = [search.model_copy(update={"context": 0})]
        super().__init__(objective, held_out, execution, searches, open_lm)
        split = held_out.corpus.split(held_out.name)
        self.references = [line for language in objective.learned_languages for line in split.text(language)]
        self.src_lines = self.references

    def scored(self, model: Model, poll: Callable[[], None]) -> Validation:
        validation = super().scored(model, poll)
        assert isinstance(model, DecodingModel), "only decoders write text"
        searcher = self._searcher.with_models([model])
        masked = unpadded(self.pairs.batch(np.arange(len(self.pairs))).src)
        sentences = []
        for row, ids in enumerate(masked):
            limit = longest_translation(ids.tolist(), 0, self._search, searcher.max_positions)
            sentences.append(Sentence("", "", ids.tolist(), row * MAX_PARTS, limit))
        restored = [""] * len(sentences)
        with Progress("validating", len(sentences)) as progress:
            for rows, hypotheses in searcher.search(sentences, self._search, 1):
                poll()
                progress.add(len(rows))
                for row, [best, *_] in zip(rows, hypotheses, strict=True):
                    restored[row] = self._tokenizer.decode(best.ids)
        return replace(validation, scores=self.text_scores(restored), translations=restored)
