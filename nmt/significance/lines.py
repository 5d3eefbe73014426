"""What each line contributes to a corpus score, so that the score of any selection of lines follows from sums.

Shapes are written with L lines, C counts of a metric, and S selections of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nmt.evaluate.metrics import MetricName, Reference, check_lines, make_scorer
from nmt.significance.n_grams import count_matches, number_characters, number_words
from nmt.significance.ter import count_edits

Floats = npt.NDArray[np.float64]

Formula = Literal["bleu", "chrf", "ter", "mean"]
"""How a corpus score follows from sums; mean: of scores that lines have, such as those of neural metrics."""

_NAMES: dict[MetricName, str] = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}  # as sacrebleu calls them
_BLEU_ORDERS, _CHRF_ORDERS = 4, 6
Lines = Sequence[str]
Counts = npt.NDArray[np.int64] | Floats


@dataclass(frozen=True)
class Metric:
    """A metric, as it is shown and compared."""

    name: str
    """bleu, chrf, ter, or the name that segment scores were given."""
    formula: Formula
    signature: str
    """Scores with different signatures are not comparable."""
    higher_is_better: bool


@dataclass(frozen=True)
class LineCounts:
    """What each line of one system's text contributes to a metric."""

    metric: Metric
    counts: Floats
    """(L, C); with the formula mean, one column of scores and one of ones."""

    def score(self) -> float:
        """Return the corpus score."""
        return float(self.scores(self.counts.sum(0, keepdims=True))[0])

    def scores(self, sums: Floats) -> Floats:
        """Return the corpus scores (S,) for sums of counts (S, C)."""
        return corpus_scores(self.metric.formula, sums)

    def line_scores(self) -> Floats:
        """Return the score of each line alone, (L,)."""
        return self.scores(self.counts)


def count_lines(
    metric: MetricName,
    systems: Sequence[Sequence[str]],
    refs: Sequence[Reference],
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> list[LineCounts]:
    """Count n-grams or edits of each line of each system with sacrebleu. The other arguments are those of
    `corpus_score`.

    Raises DataError as `corpus_score` does.
    """
    for hyps in systems:
        check_lines(hyps, refs)
    several = not all(isinstance(ref, str) or len(ref) == 1 for ref in refs) and metric != "ter"
    # for the signature one line is enough; the references are counted here
    scorer = make_scorer(metric, refs if several else refs[:1], tgt_lang, lowercase, tokenize)
    counted = Metric(metric, metric, f"{_NAMES[metric]}|{scorer.get_signature()}", metric != "ter")
    if several:
        # sacrebleu's own paired tests begin with this method; there is no public one
        counts = [np.array(scorer._extract_corpus_statistics(hyps, None)) for hyps in systems]
    else:
        prepared = [[scorer._preprocess_segment(line) for line in hyps] for hyps in systems]
        references = [[scorer._preprocess_segment(ref) for ref in each] for each in map(_as_tuple, refs)]
        counts = _COUNTING[metric](prepared, references)
    return [LineCounts(counted, of_system.astype(np.float64)) for of_system in counts]


def _as_tuple(reference: Reference) -> tuple[str, ...]:
    return (reference,) if isinstance(reference, str) else reference


def _count_bleu(systems: Sequence[Lines], references: Sequence[Lines]) -> list[Counts]:
    """Return the length of each line and of its reference, and the matches and n-grams of each order."""
    texts = [[line.split() for line in lines] for lines in ([ref for (ref,) in references], *systems)]
    reference, *others = number_words(texts)
    return [
        np.column_stack([other.lengths, reference.lengths, matches, other.n_grams(_BLEU_ORDERS)])
        for other, matches in zip(others, count_matches(reference, others, _BLEU_ORDERS), strict=True)
    ]


def _count_chrf(systems: Sequence[Lines], references: Sequence[Lines]) -> list[Counts]:
    """Return for each order the n-grams of the line, those of its reference, and the matches."""
    texts = (["".join(line.split()) for line in lines] for lines in ([ref for (ref,) in references], *systems))
    reference, *others = number_characters([*texts])
    n_ref = reference.n_grams(_CHRF_ORDERS)
    return [
        # as sacrebleu, which does not count the n-grams of a line if its reference has none of that order
        np.stack([np.where(n_ref, other.n_grams(_CHRF_ORDERS), 0), n_ref, matches], 2).reshape(len(n_ref), -1)
        for other, matches in zip(others, count_matches(reference, others, _CHRF_ORDERS), strict=True)
    ]


def _count_ter(systems: Sequence[Lines], references: Sequence[Lines]) -> list[Counts]:
    """Return the fewest edits of each line, and the mean length of its references."""
    counts: list[list[tuple[int, float]]] = [[] for _ in systems]
    for lines, refs in zip(zip(*systems, strict=True), references, strict=True):
        words = [ref.split() for ref in refs]
        length = sum(map(len, words)) / len(words)
        edits = {line: min(count_edits(line.split(), ref) for ref in words) for line in {*lines}}
        for of_system, line in zip(counts, lines, strict=True):
            of_system.append((edits[line], length))
    return [np.array(of_system) for of_system in counts]


_COUNTING: dict[MetricName, Callable[[Sequence[Lines], Sequence[Lines]], list[Counts]]] = {
    "bleu": _count_bleu,
    "chrf": _count_chrf,
    "ter": _count_ter,
}


def of_line_scores(name: str, scores: Sequence[float], signature: str, higher_is_better: bool = True) -> LineCounts:
    """Return the counts of a metric whose corpus score is the mean of scores that lines have."""
    values = np.asarray(scores, np.float64)
    return LineCounts(Metric(name, "mean", signature, higher_is_better), np.stack([values, np.ones_like(values)], 1))


def corpus_scores(formula: Formula, sums: Floats) -> Floats:
    """Return the corpus scores (S,) that follow from sums of counts (S, C), as sacrebleu computes them."""
    match formula:
        case "bleu":
            return _bleu(sums)
        case "chrf":
            return _chrf(sums)
        case "ter":
            edits, length = sums[:, 0], sums[:, 1]
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(length > 0, 100 * edits / length, np.where(edits > 0, 100.0, 0.0))
        case "mean":
            return sums[:, 0] / sums[:, 1]


def _bleu(sums: Floats) -> Floats:
    """Return BLEU with exponential smoothing (mteval-v13a) from lengths, and matches and totals of each order."""
    n_hyp, n_ref = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2 : 2 + _BLEU_ORDERS], sums[:, 2 + _BLEU_ORDERS :]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, 0.5**halvings) / totals
        logs = np.where(totals > 0, np.log(precisions), -np.inf).sum(1) / _BLEU_ORDERS
        penalty = np.where(n_hyp < n_ref, np.exp(1 - n_ref / n_hyp), 1.0)
    return np.where(matches.any(1), 100 * penalty * np.exp(logs), 0.0)


def _chrf(sums: Floats) -> Floats:
    """Return chrF from the n-grams of hypothesis and reference, and matches, of each order; beta is 2."""
    n_hyp, n_ref, n_match = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    counted = (n_hyp > 0) & (n_ref > 0)
    n_orders = np.maximum(counted.sum(1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(counted, n_match / n_hyp, 0.0).sum(1) / n_orders
        recall = np.where(counted, n_match / n_ref, 0.0).sum(1) / n_orders
        score = 500 * precision * recall / (4 * precision + recall)
    return np.where(precision + recall > 0, score, 0.0)
