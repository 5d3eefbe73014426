"""Which of a true and a wrong translation the model finds more probable, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nmt.challenge.contrasts import Contrast
from nmt.significance.paired import Interval
from nmt.translate.score import Scored

Score = Callable[[Sequence[tuple[str, str]]], Iterable[Scored]]
"""From pairs of a source and a target line to their scores, in order."""


class Probability(NamedTuple):
    """The probability of a line, given its source."""

    log_prob: float
    """Sum over its pieces and the end of sentence (nats)."""
    n_pieces: int

    @property
    def per_piece(self) -> float:
        """The mean over its pieces, which does not favour short lines."""
        return self.log_prob / self.n_pieces


@dataclass(frozen=True)
class Outcome:
    """A contrast and the probabilities of its lines."""

    contrast: Contrast
    reference: Probability
    changed: tuple[Probability, ...]

    @property
    def margin(self) -> float:
        """By how much the reference is more probable than the most probable of the others (nats); right if > 0."""
        return self.reference.log_prob - max(changed.log_prob for changed in self.changed)

    @property
    def margin_per_piece(self) -> float:
        """The same by the mean per piece."""
        return self.reference.per_piece - max(changed.per_piece for changed in self.changed)


class NotScored(NamedTuple):
    """Numbers of contrasts that were left out."""

    blank: int
    """A line is blank."""
    cut: int
    """A line is longer than what the model takes."""


def score_contrasts(contrasts: Sequence[Contrast], score: Score) -> tuple[list[Outcome], NotScored]:
    """Score all lines, each once for its source, and return what came out, and how many contrasts were left out."""
    pairs = {
        (contrast.source, line): None for contrast in contrasts for line in (contrast.reference, *contrast.changed)
    }
    scored = dict(zip(pairs, map(_probability, score(list(pairs))), strict=True))
    outcomes, n_blank, n_cut = [], 0, 0
    for contrast in contrasts:
        found = [scored[contrast.source, line] for line in (contrast.reference, *contrast.changed)]
        if "cut" in found:
            n_cut += 1
        elif "blank" in found:
            n_blank += 1
        else:
            reference, *changed = (each for each in found if isinstance(each, Probability))
            outcomes.append(Outcome(contrast, reference, tuple(changed)))
    return outcomes, NotScored(n_blank, n_cut)


def _probability(scored: Scored) -> Probability | str:
    if scored.cut:
        return "cut"
    return Probability(scored.log_prob, len(scored.pieces)) if scored.pieces else "blank"


@dataclass(frozen=True)
class KindResult:
    """How often the model was right about one kind of contrasts."""

    kind: str
    n: int
    n_right: int
    """Contrasts whose reference has the highest log-probability; equal ones count as wrong, as in published scripts."""
    n_right_per_piece: int
    """The same by the mean log-probability per piece."""
    margin: float
    """Mean of `Outcome.margin`; NaN if there is no contrast."""

    @property
    def interval(self) -> Interval:
        """The share that is right, as a 95 % interval (Wilson, 1927)."""
        if not self.n:
            return Interval(0.0, 1.0)
        z, share = 1.959964, self.n_right / self.n
        middle, half = (
            share + z * z / (2 * self.n),
            z * math.sqrt((share * (1 - share) + z * z / (4 * self.n)) / self.n),
        )
        scale = 1 + z * z / self.n
        return Interval(max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))


def by_kind(outcomes: Sequence[Outcome], kinds: Iterable[str]) -> list[KindResult]:
    """Return the results of the kinds, in this order, also of those that have no contrast."""
    groups: dict[str, list[Outcome]] = {kind: [] for kind in kinds}
    for outcome in outcomes:
        groups[outcome.contrast.kind].append(outcome)
    return [_summarize(kind, group) for kind, group in groups.items()]


def _summarize(kind: str, outcomes: Sequence[Outcome]) -> KindResult:
    n = len(outcomes)
    return KindResult(
        kind,
        n,
        sum(outcome.margin > 0 for outcome in outcomes),
        sum(outcome.margin_per_piece > 0 for outcome in outcomes),
        math.fsum(outcome.margin for outcome in outcomes) / n if n else math.nan,
    )
