"""Comparisons of made-up translations."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from nmt.compare.types import Comparison, Difference, Group, GroupScore, Result, System, TextToTranslate
from nmt.evaluate.metrics import METRICS
from nmt.significance.lines import LineCounts, count_lines
from nmt.significance.paired import SEED, Interval, bootstrap_scores, interval

_TRIALS = 100


def damaged(lines: Sequence[str], share: float, seed: int) -> tuple[str, ...]:
    """Lines in which a share of the words is left out, doubled or replaced by a neighbour."""
    rng = random.Random(seed)
    result = []
    for line in lines:
        words = []
        for word in line.split():
            kind = rng.random() / share
            words += [word] if kind > 1 else [[], [word, word], [word[::-1]]][int(kind * 3)]
        result.append(" ".join(words))
    return tuple(result)


def compared(text: TextToTranslate, groups: Sequence[Group], baseline: int = 0) -> Comparison:
    """Compare groups, with few samples and no tests."""
    results = []
    for metric in METRICS:
        counts = tuple(
            tuple(count_lines(metric, [s.translations for s in group.systems], text.references)) for group in groups
        )
        drawn = [bootstrap_scores(own, _TRIALS).mean(0) for own in counts]
        scores = tuple(_score(own, interval(draws)) for own, draws in zip(counts, drawn, strict=True))
        differences = tuple(
            None
            if number == baseline
            else Difference(
                score.value - scores[baseline].value, interval(drawn[number] - drawn[baseline]), 0.0123, 0.0246, 0.3,
                None, None,
            )
            for number, score in enumerate(scores)
        )  # fmt: skip
        results.append(Result(counts[0][0].metric, scores, differences, counts))
    return Comparison(text, tuple(groups), baseline, tuple(results), _TRIALS, SEED, ("one training each",))


def _score(counts: Sequence[LineCounts], of_lines: Interval) -> GroupScore:
    values = tuple(each.score() for each in counts)
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return GroupScore(float(np.mean(values)), of_lines, values, deviation)


def systems(references: Sequence[str], n: int = 3) -> list[Group]:
    """Systems that are worse and worse."""
    return [
        Group(f"system {chr(97 + number)}", (System(f"system {chr(97 + number)}", damaged(references, share, number)),))
        for number, share in zip(range(n), (0.3, 0.25, 0.4), strict=False)
    ]
