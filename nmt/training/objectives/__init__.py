"""The training objectives, each in a module of its own; `make` has the table of them.

An objective makes examples of the rows of a text, changes those of an update, and computes the loss of a batch and the
scores of the development set. `nmt.training.facts` has what the rest of the package needs to know about each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import nn

from nmt.config import Config
from nmt.data.batching import Indices, Pairs, Update
from nmt.data.corpus import Corpora, lines_of
from nmt.data.lines import Joined, Segments, Side
from nmt.data.modifiers import Modifiers
from nmt.data.rows import AnyBatch
from nmt.model.transformer import Model
from nmt.text.vocabularies import Tokenizers
from nmt.training.loss import Forward, LossSums, token_loss
from nmt.training.validate import Execution, HeldOut, SplitValidator, Validator

VALIDATION_SEED = 0
"""Seed of the masks and other changes to the development set, which do not depend on the seed of the run."""

Change = Callable[[Pairs, Indices, int], Pairs]
"""A function that returns the given rows (N,) of pairs as they are learned in an epoch, in this order. Its result
depends only on the seed, the epoch and the rows of the pairs in the corpus."""


class Objective:
    """A training objective. This base class learns single lines by the cross-entropy of their pieces."""

    modifiers: Modifiers | None = None
    """The modifiers of training pairs, with training.modifiers."""

    def __init__(self, config: Config, tokenizers: Tokenizers, corpora: Corpora | None = None) -> None:
        """`corpora`: the training text; None for validation only."""
        self.config = config
        self.tokenizers = tokenizers
        self.seed = VALIDATION_SEED if corpora is None else config.training.seed
        self.changes: list[Change] = []
        """The changes that are made to the pairs of each update, one after the other."""

    def examples(self, src: Side, tgt: Side, mono: Sequence[Side] = (), segments: Segments | None = None) -> Pairs:
        """Return the examples of a text, given its sources and targets, before they are changed for an update.

        Each has the same line on both sides: the lines of one language after the other, then `mono`.
        """
        sides = dict(zip(self.config.data.sides, (src, tgt), strict=True))
        lines = Joined(*(sides[language] for language in self.config.learned_languages), *mono)
        return Pairs(lines, lines, segments)

    def changed(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) as they are learned in an epoch; row i of the result is row `rows[i]`."""
        for change in self.changes:
            pairs = change(pairs, rows, epoch)
            rows = np.arange(len(pairs))
        return pairs

    def learned(self, pairs: Pairs, update: Update, epoch: int) -> tuple[Pairs | None, Update]:
        """Return the changed pairs of an update, if they change, and the update with their rows and target tokens."""
        if not self.changes:
            return None, update
        changed = self.changed(pairs, update.rows, epoch)
        return changed, Update(np.arange(len(changed)), changed.n_scored)

    def loss(self, model: Model, batch: AnyBatch, forward: Forward | None = None) -> LossSums:
        """Return the training loss of a batch. `forward` replaces the model's forward pass if given."""
        first_tag = self.tokenizers[self.config.data.src].first_tag
        return token_loss(model, batch, self.config.training, forward, first_tag)

    def validator(self, held_out: HeldOut, execution: Execution) -> Validator:
        """Return the validator of a split."""
        return SplitValidator(self.validated(held_out), execution)

    def validated(self, held_out: HeldOut) -> Pairs:
        """Return the pairs of a split as they are scored, which are changed once."""
        pairs = self.split_examples(held_out)
        return self.changed(pairs, np.arange(len(pairs)), 0) if self.changes else pairs

    def split_examples(self, held_out: HeldOut) -> Pairs:
        """Return the examples of a split before they are changed."""
        split = held_out.corpus.split(held_out.name)
        src, tgt = (lines_of(split, language, held_out.n_lines) for language in self.config.data.sides)
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
