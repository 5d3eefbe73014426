"""The examples of an objective: pairs or lines of the corpus, and how they are changed for an update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from nmt.config import Config
from nmt.data.batching import Indices, Pairs
from nmt.data.corpus import Joined, Side
from nmt.data.masking import Masking, infilled
from nmt.data.mixing import Segments
from nmt.data.pair_sequences import PairSequences, joined
from nmt.text.tokenizer import EOS
from nmt.text.vocabularies import Tokenizers

Change = Callable[[Pairs, Indices, int], Pairs]
"""A function that returns the given rows (N,) of pairs as they are learned in an epoch, in this order. Its result
depends only on the seed, the epoch and the rows of the pairs in the corpus."""


def learned_pairs(
    config: Config, side_of: Callable[[str], Side], mono: Sequence[Side] = (), segments: Segments | None = None
) -> Pairs:
    """Return the examples of a text with a side in each language, before they are changed for an update.

    Objectives that learn from lines have the same line on both sides, for one language after the other, then for
    `mono`. The pair task has the sequence of a pair on both sides; classification the same text, with its label.
    """
    if config.learns_lines:
        lines = Joined(*(side_of(language) for language in config.learned_languages), *mono)
        return Pairs(lines, lines, segments)
    src, tgt = (side_of(language) for language in config.data.sides)
    if config.training.objective == "classification":
        classes = tgt.gather(np.arange(len(tgt)), EOS)[:, 0]  # a label is one id
        return Pairs(src, src, segments, labels=classes)
    if config.training.masked.pair_task:
        sequences = PairSequences(src, tgt)
        return Pairs(sequences, sequences, segments)
    return Pairs(src, tgt, segments)


def change_of(config: Config, tokenizers: Tokenizers, seed: int) -> Change | None:
    """Return the function with which an objective changes the pairs of an update; None if it changes nothing."""
    training = config.training
    match training.objective:
        case "denoising":
            return partial(infilled, training.denoising, seed)
        case "masked":
            return Masking(
                training.masked, tokenizers[config.learned_languages[-1]], config.data.max_pieces, seed
            ).masked
    return one_sequence if config.joins_sides else None


def in_turn(*changes: Change | None) -> Change | None:
    """Return the function that makes several changes, one after the other; None if there are none."""
    made = [change for change in changes if change is not None]
    if len(made) < 2:
        return made[0] if made else None

    def changed(pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        for change in made:
            pairs = change(pairs, rows, epoch)
            rows = np.arange(len(pairs))
        return pairs

    return changed


def one_sequence(pairs: Pairs, rows: Indices, epoch: int) -> Pairs:  # noqa: ARG001 (the signature of every change)
    """Return the pairs `rows` (N,) with targets `source SEPARATOR target`; row i of the result is row `rows[i]`.

    The loss is computed after the separator, end of sentence counted. The sources are not changed: their lengths are
    the lengths of the prefixes.
    """
    both = list(zip(*pairs.lines(rows), strict=True))
    scored = [np.arange(len(src) + len(tgt) + 2) > len(src) for src, tgt in both]
    sources, sequences = [src for src, _ in both], [joined(src, tgt) for src, tgt in both]
    return Pairs.changed(sources, sequences, pairs.corpus_rows(rows), scored)
