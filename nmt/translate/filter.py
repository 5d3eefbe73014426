"""Scores of sentence pairs by trained models, and the selection of the best pairs of a noisy corpus.

A scorer yields a `PairScore` for each pair, in order, in a single pass: see `dual_cross_entropy` and `classified`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.config import Config
from nmt.console import LineNumbers, Progress, amount
from nmt.data.batching import joined
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.files.read import open_regular, reading
from nmt.model.device import pick_device
from nmt.model.transformer import EncoderModel
from nmt.runs.model import AnyModel, ModelRef, choose_precision, open_saved
from nmt.text.lines import READ_TWICE, read_aligned
from nmt.text.tokenizer import Tokenizer, is_blank
from nmt.training.objectives.classification import sequence_logits
from nmt.training.validate import Execution
from nmt.translate.loading import Translator
from nmt.translate.score import Scored, cut_message
from nmt.translate.types import WINDOW

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class PairScore:
    """The score of a pair of lines."""

    value: float
    """The score, from 0 to 1, higher is better; 0 if a side is blank."""
    is_blank: bool = False
    cut: bool = False
    """True if a side is too long for a model, which read only its start."""


# --- scorers --------------------------------------------------------------------------------------


def dual_cross_entropy(
    forward: Translator, reverse: Translator, pairs: Iterable[tuple[str, str]], progress: Progress | None = None
) -> Iterator[PairScore]:
    """Yield the dual cross-entropy score of each pair, from two models of opposite directions (Junczys-Dowmunt, 2018).

    `progress` counts each pair twice, once for each model. Raises what `Translator.forced_decoder` raises.
    """
    straight, copied = tee(pairs)  # one iterator is at most a window ahead of the other
    swapped = ((tgt, src) for src, tgt in copied)
    for there, back in zip(
        forward.score(straight, progress=progress), reverse.score(swapped, progress=progress), strict=True
    ):
        if there.pieces and back.pieces:
            value = dual_score(cross_entropy(there), cross_entropy(back))
            yield PairScore(value, cut=there.cut or back.cut)
        else:
            yield PairScore(0.0, is_blank=True)


def dual_score(forward: float, reverse: float) -> float:
    """Return the dual cross-entropy score of a pair, given its cross-entropies in both directions; 1 if both are 0.

    The score decreases with their mean, which is high for wrong pairs, and with their difference, which is high if one
    side contains more than the other.
    """
    return math.exp(-(abs(forward - reverse) + (forward + reverse) / 2))


def cross_entropy(scored: Scored) -> float:
    """Return the cross-entropy per piece (nats) of a pair without a blank side."""
    return -scored.log_prob / len(scored.pieces)


def classified(
    classifier: PairClassifier, pairs: Iterable[tuple[str, str]], progress: Progress | None = None
) -> Iterator[PairScore]:
    """Yield the score of each pair by a classifier, which reads `WINDOW` pairs at a time, without masking.

    `progress` counts pairs. Raises CheckpointError if a score is not finite.
    """
    stream = iter(pairs)
    longest = classifier.config.data.max_pieces  # as in training
    while chunk := list(islice(stream, WINDOW)):
        rows = [row for row, pair in enumerate(chunk) if not any(map(is_blank, pair))]
        sides = [classifier.tokenizer.encode_all([chunk[row][side] for row in rows]) for side in (0, 1)]
        read = [[np.array(ids[:longest], np.int64) for ids in side] for side in sides]
        scores = [PairScore(0.0, is_blank=True)] * len(chunk)
        values = classifier.log_odds([joined(*pair) for pair in zip(*read, strict=True)])
        for row, src, tgt, value in zip(rows, *sides, values, strict=True):
            scores[row] = PairScore(odds_score(value), cut=max(len(src), len(tgt)) > longest)
        if progress is not None:
            progress.add(len(chunk))
        yield from scores


Scorer = Callable[[Iterable[tuple[str, str]], Progress], Iterator[PairScore]]


def load_scorers(model: ModelRef, reverse: Path | None, classifier: Path | None, precision: str) -> list[Scorer]:
    """Load two runs of opposite directions, a classifier of pairs, or both, and return functions that score pairs.

    model: the run from source to target, or no paths, with the choice of weights of all; if runs have several
    directions, it has the languages of the pairs, and both runs may be the same.
    Raises ConfigError if their directions do not match, and what `Translator.load` and `PairClassifier.load` raise.
    """
    scorers: list[Scorer] = []
    if model.paths and reverse is not None:
        first = Translator.load(model.undirected, precision=precision)
        second = first
        if reverse != model.path:
            second = Translator.load(model.undirected.at(reverse), precision=precision)
        forward = first.towards(model.to, model.source)
        direction = forward.config.data.direction
        backward = second.opposite_of(direction)
        needed = f"{forward.config.data.tgt}-{forward.source}"
        if backward.config.data.direction != needed:
            opposite = f"specify a run of {needed}, opposite to --run"
            raise ConfigError(f"--reverse {reverse}: translates {backward.config.data.direction}; {opposite}")
        scorers.append(partial(dual_cross_entropy, forward, backward))
    if classifier is not None:
        judge = PairClassifier.load(model.undirected.at(classifier), precision)
        learned = judge.config.data.direction
        if scorers and learned != direction:
            was = f"was trained on pairs of {learned}, --run on {direction}"
            raise ConfigError(f"--classifier {classifier}: {was}")
        scorers.append(partial(classified, judge))
    return scorers


# --- the classifier of pairs ----------------------------------------------------------------------


def odds_score(log_odds: float) -> float:
    """Convert log-odds to a score from 0 to 1 that, unlike a probability, still distinguishes very high log-odds."""
    return (1 + log_odds / (1 + abs(log_odds))) / 2


@dataclass(frozen=True)
class PairClassifier:
    """A model trained with `training.masked.pair_task` to classify whether two lines are translations of each other."""

    model: EncoderModel
    config: Config
    tokenizer: Tokenizer
    device: torch.device
    precision: str

    @classmethod
    def load(cls, model: AnyModel, precision: str = "auto") -> PairClassifier:
        """Load the classifier of a run; for the arguments see `Translator.load`.

        Raises CheckpointError if the run or checkpoint is missing or damaged, DataError if its tokenizer is, and
        ConfigError if the run was trained without the pair task.
        """
        saved = open_saved(model)
        if not saved.config.training.masked.pair_task:
            raise ConfigError(f"{saved.path}: not a classifier of pairs; specify a run with training.masked.pair_task")
        encoder = saved.model()
        device = pick_device("auto")
        assert isinstance(encoder, EncoderModel), "only encoders learn the pair task"
        tokenizer = saved.tokenizers[saved.config.data.src]
        return cls(encoder.to(device), saved.config, tokenizer, device, choose_precision(saved, precision, device))

    def log_odds(self, sequences: Sequence[NDArray[np.int64]]) -> list[float]:
        """Return the log-odds that the two lines of each sequence are translations of each other.

        Raises CheckpointError if a value is not finite.
        """
        if not sequences:
            return []
        max_tokens = self.config.search.batch_size(self.device.type).tokens
        logits = sequence_logits(self.model, sequences, Execution(self.device, self.precision, max_tokens))
        values = logits[:, 1] - logits[:, 0]
        if not values.isfinite().all():
            raise CheckpointError(
                "the classifier's scores are not finite: the checkpoint is damaged, training diverged, or values "
                "overflow in this precision; try another checkpoint, or float32"
            )
        return values.tolist()


# --- scores ---------------------------------------------------------------------------------------


@dataclass
class PairScores:
    """The scores of all pairs, in order."""

    values: array[float] = field(default_factory=lambda: array("d"))
    """The scores, rounded as in the output file."""
    blank: LineNumbers = field(default_factory=LineNumbers)
    cut: LineNumbers = field(default_factory=LineNumbers)

    def lines(self) -> Iterator[str]:
        """Yield messages with the numbers of scored, blank and truncated pairs, and with quantiles of the scores."""
        yield f"{len(self.values) - self.blank.n:,} of {len(self.values):,} pairs scored"
        if self.blank.n:
            yield f"{amount(self.blank.n, 'pair')} with a blank side, score 0: {self.blank.first}"
        if self.cut.n:
            yield cut_message(self.cut)
        values = np.sort(np.asarray(self.values))[self.blank.n :]  # blank pairs have the lowest score
        if len(values):
            shares = zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)
            yield f"quantiles of the score: {', '.join(f'{100 * share:.0f} % {value:.3g}' for share, value in shares)}"


def collect_scores(scored: Iterable[PairScore], out: IO[bytes] | None = None) -> PairScores:
    """Collect the scores of pairs, and write one per line to `out`, as the setting `score` of a corpus requires."""
    scores = PairScores()
    for number, pair in enumerate(scored, start=1):
        text = f"{pair.value:.6g}"
        scores.values.append(float(text))
        if pair.is_blank:
            scores.blank.add(number)
        if pair.cut:
            scores.cut.add(number)
        if out is not None:
            out.write(f"{text}\n".encode())
    return scores


def agreed(first: PairScores, second: PairScores, out: IO[bytes] | None) -> PairScores:
    """Combine the scores of two scorers: the new score of a pair is its mean rank, divided by the number of pairs.

    out: see `collect_scores`.
    """
    values = [np.asarray(scores.values) for scores in (first, second)]
    ranks = [np.searchsorted(np.sort(column), column, side="right") / len(column) for column in values]
    is_blank = values[0] == 0
    means = np.where(is_blank, 0.0, (ranks[0] + ranks[1]) / 2).tolist()
    scores = collect_scores((PairScore(mean) for mean in means), out)
    scores.blank = first.blank
    scores.cut = max(first.cut, second.cut, key=lambda numbers: numbers.n)
    return scores


# --- the best pairs -------------------------------------------------------------------------------


def best(scores: Floats, share: float) -> Mask:
    """Return a mask of the best `share` of all pairs, without pairs of score 0; the first of equal scores are kept."""
    n = min(int(share * len(scores) + 0.5), int(np.count_nonzero(scores)))
    if n == 0:
        return np.zeros(len(scores), dtype=np.bool_)
    threshold = np.partition(scores, -n)[-n]
    is_kept: Mask = scores > threshold
    is_kept[np.flatnonzero(scores == threshold)[: n - np.count_nonzero(is_kept)]] = True
    return is_kept


def at_least(scores: Floats, least: float) -> Mask:
    """Return a mask of the pairs whose score is at least `least` and not 0."""
    return (scores >= least) & (scores > 0)


def kept_message(scores: Floats, is_kept: Mask) -> str:
    """Return a message with the number of kept pairs and the lowest score among them."""
    if not is_kept.any():
        return f"none of {len(scores):,} pairs are kept: the highest score is {scores.max():.6g}"
    n = np.count_nonzero(is_kept)
    least = scores[is_kept].min()
    return f"{n:,} of {len(scores):,} pairs ({n / len(scores):.1%}) are kept, with scores of at least {least:.6g}"


# --- files ----------------------------------------------------------------------------------------


def count_pairs(source: Path, target: Path) -> int:
    """Return the number of pairs of two files. This finds invalid text before hours of scoring.

    Raises what `read_aligned` raises, and DataError if there are no pairs or if a file can be read only once.
    """
    pairs = read_aligned(source, target)
    for path in (source, target):
        with reading(path):
            open_regular(path, READ_TWICE).close()
    with Progress("reading", unit="pairs") as progress:
        n = sum(1 for _ in progress.track(pairs))
    if n == 0:
        raise DataError(f"{source}: is empty; there is nothing to score")
    return n


def write_kept(pairs: Iterable[tuple[str, str]], is_kept: Mask, outs: Sequence[IO[bytes]]) -> None:
    """Write the kept pairs into two files, in order."""
    for pair, is_wanted in zip(pairs, is_kept, strict=True):
        if is_wanted:
            for line, out in zip(pair, outs, strict=True):
                out.write(f"{line}\n".encode())
