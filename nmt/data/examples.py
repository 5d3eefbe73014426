"""The examples of an objective: pairs or lines of the corpus, changed as the objective requires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from nmt.config import Config
from nmt.data.batching import Indices, Pairs, unpadded
from nmt.data.corpus import Joined, Lines, Side
from nmt.data.masking import Infilling, Masking, OneSpan
from nmt.data.mixing import Segments
from nmt.data.pair_sequences import PairSequences, joined
from nmt.text.tokenizer import EOS, Tokenizers


class OneSequence:
    """Puts the source of each pair before its target."""

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:  # noqa: ARG002 (the protocol's)
        """Return the pairs `rows` (N,) with targets `source SEPARATOR target`; row i of the result is row `rows[i]`.

        The loss is of what follows the separator, the end of sentence counted. The sources stay: their lengths say how
        long the prefixes are.
        """
        batch = pairs.batch(rows)
        sources, targets = unpadded(batch.src), unpadded(batch.tgt_out)
        both = list(zip(sources, targets, strict=True))
        sequences = [joined(src, tgt) for src, tgt in both]
        scored = [np.arange(len(src) + len(tgt) + 2) > len(src) for src, tgt in both]
        corpus_rows = pairs.corpus_rows(rows)
        return Pairs.of_sides(Lines.of(sources), Lines.of(sequences), Segments.single(corpus_rows), scored)


class Change(Protocol):
    """Changes pairs for an update: a function of the seed, the epoch and the rows of the pairs in the corpus."""

    def modified(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the pairs `rows` (N,) as they are learned; row i of the result is row `rows[i]`."""


def learned_pairs(
    config: Config, side_of: Callable[[str], Side], mono: Sequence[Side] = (), segments: Segments | None = None
) -> Pairs:
    """Return the examples of a text with a side in each language, before they are changed.

    Objectives of single lines learn pairs of the same line, of one language after the other, then of `mono`; the pair
    task has the sequence of a pair on both sides, classification the same text on both sides, with its label.
    """
    if config.learns_lines:
        lines = Joined(*(side_of(language) for language in config.learned_languages), *mono)
        return Pairs.of_sides(lines, lines, segments)
    if config.training.objective == "classification":
        text, labels = side_of(config.data.src), side_of(config.data.tgt)
        classes = labels.gather(np.arange(len(labels)), EOS)[:, 0]  # a label is one id
        return Pairs.of_sides(text, text, segments, labels=classes)
    src, tgt = side_of(config.data.src), side_of(config.data.tgt)
    if config.training.masked.pair_task:
        sequences = PairSequences(src, tgt)
        return Pairs.of_sides(sequences, sequences, segments)
    if config.training.both_directions:
        return Pairs.of_sides(Joined(src, tgt), Joined(tgt, src), segments)
    return Pairs.of_sides(src, tgt, segments)


def objective_change(config: Config, tokenizers: Tokenizers, seed: int) -> Change | None:
    """Return the change that the objective makes to pairs, if it makes one."""
    training = config.training
    if training.objective == "denoising" and training.denoising.noise == "span":
        return OneSpan(training.denoising, len(tokenizers[config.learned_languages[-1]]), seed)
    if training.objective == "denoising":
        return Infilling(training.denoising, seed)
    if training.objective == "masked":
        return Masking(training.masked, tokenizers[config.learned_languages[-1]], config.data.max_pieces, seed)
    if config.joins_sides:
        return OneSequence()
    return None
