"""The base class of training objectives, which are in `nmt.training.objectives`.

An objective makes examples of the rows of a text, changes an update's examples, and computes the loss of a batch. Its
validator scores the development set. `nmt.training.facts` has what the rest of the package needs to know about each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from nmt.data.batching import Pairs, Update
from nmt.data.corpus import Corpora, lines_of
from nmt.data.lines import Indices, Joined, Segments, Side
from nmt.data.rows import AnyBatch
from nmt.data.settings import DataConfig
from nmt.model.transformer import Model
from nmt.text.vocabularies import Tokenizers
from nmt.training.loss import Forward, LossSums, token_loss
from nmt.training.settings import TrainingConfig
from nmt.training.validate import HeldOutSplit

VALIDATION_SEED = 0
"""Seed of the masks and other changes to the development set, which do not depend on the seed of the run."""

Change = Callable[[Pairs, Indices, int], Pairs]
"""A function that returns the given rows (N,) of pairs as they are learned in an epoch, in this order. Its result
depends only on the seed, the epoch and the rows of the pairs in the corpus."""


@dataclass(eq=False)
class Objective:
    """A training objective. This base class learns single lines by the cross-entropy of their pieces."""

    data: DataConfig
    settings: TrainingConfig
    learned_languages: Sequence[str]
    """The languages that a single-line objective learns from, the source language first."""
    joins_sides: bool
    """Whether source and target of a pair form one sequence (decoder-only translation)."""
    tokenizers: Tokenizers
    corpora: Corpora | None = None
    """The training text, in all directions; None for validation only."""
    glossary: str | None = field(default=None, init=False)
    """The fingerprint of training.glossary, if there is one."""
    changes: list[Change] = field(default_factory=list, init=False)
    """The changes that are made to the pairs of each update, one after the other."""

    def __post_init__(self) -> None:
        """A subclass adds its changes here."""

    @property
    def seed(self) -> int:
        """The seed of the changes."""
        return VALIDATION_SEED if self.corpora is None else self.settings.seed

    def examples(self, src: Side, tgt: Side, mono: Sequence[Side] = (), segments: Segments | None = None) -> Pairs:
        """Return the examples of a text, given its sources and targets, before they are changed for an update.

        Each has the same line on both sides: the lines of one language after the other, then `mono`.
        """
        sides = dict(zip(self.data.sides, (src, tgt), strict=True))
        lines = Joined(*(sides[language] for language in self.learned_languages), *mono)
        return Pairs(lines, lines, segments)

    def changed(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) as they are learned in an epoch; row i of the result is row `rows[i]`."""
        for change in self.changes:
            pairs = change(pairs, rows, epoch)
            rows = np.arange(len(pairs))
        return pairs

    def modified_examples(self, pairs: Pairs, n: int) -> Mapping[str, tuple[str, str] | None]:  # noqa: ARG002
        """Return a modified pair by modifier; None for one of training.modifiers that changes none of `n` sampled
        pairs."""
        return {}

    def learned(self, pairs: Pairs, update: Update, epoch: int) -> tuple[Pairs | None, Update]:
        """Return the changed pairs of an update, if they change, and the update with their rows and target tokens."""
        if not self.changes:
            return None, update
        changed = self.changed(pairs, update.rows, epoch)
        return changed, Update(np.arange(len(changed)), changed.n_scored)

    def loss(self, model: Model, batch: AnyBatch, forward: Forward | None = None) -> LossSums:
        """Return the training loss of a batch. `forward` replaces the model's forward pass if given."""
        first_tag = self.tokenizers[self.data.src].first_tag
        return token_loss(model, batch, self.settings, forward, first_tag)

    def validated(self, held_out: HeldOutSplit) -> Pairs:
        """Return the pairs of a split as they are scored, which are changed once."""
        pairs = self.split_examples(held_out)
        return self.changed(pairs, np.arange(len(pairs)), 0) if self.changes else pairs

    def split_examples(self, held_out: HeldOutSplit) -> Pairs:
        """Return the examples of a split before they are changed."""
        split = held_out.corpus.split(held_out.name)
        src, tgt = (lines_of(split, language, held_out.n_lines) for language in self.data.sides)
        return self.examples(src, tgt)


class Learner(nn.Module):
    """A model and its objective in one module, so that all passes of a micro-batch are one call of
    DistributedDataParallel."""

    def __init__(self, model: Model, objective: Objective, forward: Forward | None = None) -> None:
        """`forward` replaces the model's forward pass if given."""
        super().__init__()
        self.model = model
        self._objective = objective
        self._run = forward

    def forward(self, batch: AnyBatch) -> LossSums:
        """Return the training loss of a batch."""
        return self._objective.loss(self.model, batch, self._run)
