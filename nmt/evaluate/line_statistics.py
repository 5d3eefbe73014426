"""The contribution of each line to a corpus score, from which the score of any selection of lines is computed.

BLEU and chrF are counted by sacrebleu. TER is counted here, with the same results and many times faster: as long as a
shift of a phrase saves edits, the best one is applied; then the edit distance is added. The rows of its table are bit
vectors (Hyyrö, 2003, A bit-vector algorithm for computing Levenshtein and Damerau edit distances) with a bit for each
word of the reference.

Shapes are written with L lines, C counts of a metric, and S selections of lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.lib_ter import translation_edit_rate

from nmt.evaluate.metrics import MetricName, Reference, as_tuple, check_lines, make_scorer

Ints = npt.NDArray[np.int64]

Item = TypeVar("Item")

# limits of tercom and of sacrebleu
_LONGEST_SHIFT = 10
_PHRASE_BITS = (1 << _LONGEST_SHIFT) - 1
_FARTHEST_MATCH = 50
_MOST_SHIFTS = 1000
_IN_BEAM = 45
"""The largest sum of edits and difference in length for which an alignment stays within 25 cells of the diagonal, where
sacrebleu searches."""


class _Row(NamedTuple):
    """A row of a table of edit distances: between the first i words of a translation and each prefix of a reference.

    Bit j describes the distance d(i, j + 1) to the first j + 1 words of the reference.
    """

    rises: int
    """Bits where d(i, j + 1) = d(i, j) + 1."""
    falls: int
    """Bits where d(i, j + 1) = d(i, j) - 1."""
    matched: int
    """Bits where d(i, j + 1) = d(i - 1, j)."""
    deleted: int
    """Bits where d(i, j + 1) = d(i - 1, j + 1) + 1."""


class _Shift(NamedTuple):
    """A shift of a phrase to the position before the word `target`.

    If `target` is within the phrase, the phrase moves to the right by the number of its words before `target`.
    """

    length: int
    start: int
    target: int


class _Alignment(NamedTuple):
    """The edits that turn a translation into the reference."""

    of_reference: list[int]
    """For each word of the reference, the last word of the translation that is not after it, or -1."""
    wrong: int
    """Bits of the words of the translation that are substituted or deleted."""
    missed: int
    """Bits of the words of the reference that are substituted or inserted."""


def count_edits(words: list[str], reference: list[str]) -> int:
    """Count the insertions, deletions, substitutions and shifts that turn a translation into the reference."""
    longer = max(len(words), len(reference))
    if words == reference or not words or not reference:
        return 0 if words == reference else longer
    n_common = sum((Counter(words) & Counter(reference)).values())
    least = longer - n_common  # shifts do not change it
    table, n_tried, n_shifts = _Table(reference), 0, 0
    rows = table.rows(words)
    distance = _distance(rows[-1], len(words))
    if distance + abs(len(words) - len(reference)) > _IN_BEAM:
        edits: int = translation_edit_rate(words, reference)[0]
        return edits
    while distance > least:
        shifts = list(islice(table.shifts(words, rows), _MOST_SHIFTS - n_tried))
        n_tried += len(shifts)
        if n_tried >= _MOST_SHIFTS or (best := table.best(words, rows, shifts, distance - least)) is None:
            break
        words = _shifted(words, best)
        rows = table.rows(words)
        distance = _distance(rows[-1], len(words))
        n_shifts += 1
    return n_shifts + distance


class _Table:
    """A table of edit distances to a reference."""

    def __init__(self, reference: list[str]) -> None:
        self._reference = reference
        self._all = (1 << len(reference)) - 1
        self._positions: dict[str, list[int]] = defaultdict(list)
        self._bits: dict[str, int] = defaultdict(int)
        for position, word in enumerate(reference):
            self._positions[word].append(position)
            self._bits[word] |= 1 << position

    def rows(self, words: list[str]) -> list[_Row]:
        """Return the rows of the distance table for a translation; the first row is for its empty prefix."""
        rows = [_Row(self._all, 0, 0, 0)]
        rises, falls, every = self._all, 0, self._all
        for same in self._places(words):
            matched = (((same & rises) + rises) ^ rises) | same | falls
            deleted = falls | ~(matched | rises)
            from_left = deleted << 1 | 1
            rises, falls = ((rises & matched) << 1 | ~(matched | from_left)) & every, matched & from_left & every
            rows.append(_Row(rises, falls, matched, deleted))
        return rows

    def _places(self, words: list[str]) -> list[int]:
        """Return for each word the bits of its positions in the reference."""
        return [self._bits.get(word, 0) for word in words]

    def shifts(self, words: list[str], rows: list[_Row]) -> Iterator[_Shift]:
        """Yield the phrase shifts to try: both the phrase and its position in the reference must have errors."""
        aligned, wrong, missed = self._align(words, rows)
        for start, word in enumerate(words):
            if not wrong >> start & _PHRASE_BITS:  # no phrase from here on is wrong
                continue
            for at in self._positions.get(word, ()):
                if not missed >> at & _PHRASE_BITS or abs(at - start) > _FARTHEST_MATCH:
                    continue
                pairs = zip(words[start : start + _LONGEST_SHIFT], self._reference[at:], strict=False)
                for length, _ in enumerate(takewhile(lambda pair: pair[0] == pair[1], pairs), 1):
                    phrase = (1 << length) - 1
                    if not (wrong >> start & phrase and missed >> at & phrase) or 0 <= aligned[at] - start < length:
                        continue
                    before = -1
                    for target in (aligned[at - 1] + 1 if at else 0, *(n + 1 for n in aligned[at : at + length])):
                        if target != before:
                            yield _Shift(length, start, target)
                        before = target

    def _align(self, words: list[str], rows: list[_Row]) -> _Alignment:
        """Return an alignment of a translation with the reference that has the fewest edits."""
        i, j = len(words), len(self._reference)
        wrong = missed = 0
        aligned = [-1] * j
        while i and j:
            row, bit = rows[i], 1 << (j - 1)
            is_same = words[i - 1] == self._reference[j - 1]
            if is_same or not row.matched & bit:
                if not is_same:
                    wrong, missed = wrong | 1 << (i - 1), missed | bit
                i, j = i - 1, j - 1
                aligned[j] = i
            elif row.deleted & bit:
                i -= 1
                wrong |= 1 << i
            else:  # the reference's word is inserted
                j -= 1
                missed |= bit
                aligned[j] = i - 1
        return _Alignment(aligned, wrong | ((1 << i) - 1), missed | ((1 << j) - 1))

    def best(self, words: list[str], rows: list[_Row], shifts: list[_Shift], most: int) -> _Shift | None:
        """Return the phrase shift that saves the most edits, or None if no shift saves any.

        Of equally good shifts, the longest and then the first is returned. `most` is an upper limit of the saved edits.
        """
        places, every, n = self._places(words), self._all, len(words)
        distance, saved, best = _distance(rows[-1], n), 0, None
        for shift in sorted({*shifts}, key=lambda shift: (-shift.length, shift.start, shift.target)):
            length, start, target = shift
            if saved >= min(most, 2 * length):  # the words could be deleted and inserted instead
                break
            last = max(start + length, target if target > start + length else target + length)
            moved, i = _shifted(places, shift), min(start, target)
            rises, falls = rows[i][:2]
            for same in moved[i:]:
                matched = (((same & rises) + rises) ^ rises) | same | falls
                from_left = (falls | ~(matched | rises)) << 1 | 1
                rises, falls = ((rises & matched) << 1 | ~(matched | from_left)) & every, matched & from_left & every
                i += 1
                if i >= last and rows[i][:2] == (rises, falls):
                    break  # the other rows do not change
            else:
                of_shift = distance - _distance(_Row(rises, falls, 0, 0), n)
                if of_shift > saved:
                    saved, best = of_shift, shift
        return best


def _shifted(items: list[Item], shift: _Shift) -> list[Item]:
    length, start, target = shift
    end = start + length
    if target < start:
        return items[:target] + items[start:end] + items[target:start] + items[end:]
    until = target if target > end else target + length
    return items[:start] + items[end:until] + items[start:end] + items[until:]


def _distance(row: _Row, n_words: int) -> int:
    """Return the edit distance to the whole reference, given the last row of the table."""
    return n_words + row.rises.bit_count() - row.falls.bit_count()


Floats = npt.NDArray[np.float64]

Formula = Literal["bleu", "chrf", "ter", "mean"]
"""How a corpus score is computed from sums over lines; `mean` is the mean of line scores, as for neural metrics."""

_NAMES: dict[MetricName, str] = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}  # as sacrebleu calls them
_BLEU_ORDERS = 4
_Lines = Sequence[str]
_Counts = npt.NDArray[np.int64] | Floats


@dataclass(frozen=True)
class Metric:
    """A metric by which systems are compared."""

    name: str
    """bleu, chrf, ter, or the name of the segment scores."""
    formula: Formula
    signature: str
    """The signature of the metric. Scores with different signatures are not comparable."""
    higher_is_better: bool


@dataclass(frozen=True)
class LineCounts:
    """The contribution of each line of a system's translations to a corpus score."""

    metric: Metric
    counts: Floats
    """The counts (L, C); with the formula `mean`, a column of scores and a column of ones."""

    def score(self) -> float:
        """Return the corpus score of all lines."""
        return float(self.scores(self.counts.sum(0, keepdims=True))[0])

    def scores(self, sums: Floats) -> Floats:
        """Return the corpus scores (S,) for sums of counts (S, C)."""
        return corpus_scores(self.metric.formula, sums)

    def line_scores(self) -> Floats:
        """Return the score of each single line, (L,)."""
        return self.scores(self.counts)


def count_lines(
    metric: MetricName,
    systems: Sequence[Sequence[str]],
    refs: Sequence[Reference],
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> list[LineCounts]:
    """Count the n-grams or edits of each line of each system, as sacrebleu does.

    The other arguments are described at `corpus_score`. Raises DataError as `corpus_score` does.
    """
    for hyps in systems:
        check_lines(hyps, refs)
    # TER is counted here, so its scorer needs only one line for the signature
    scorer = make_scorer(metric, refs[:1] if metric == "ter" else refs, tgt_lang, lowercase, tokenize)
    counted = Metric(metric, metric, f"{_NAMES[metric]}|{scorer.get_signature()}", metric != "ter")
    if metric == "ter":
        prepared = [[scorer._preprocess_segment(line) for line in hyps] for hyps in systems]
        references = [[scorer._preprocess_segment(ref) for ref in each] for each in map(as_tuple, refs)]
        counts = _count_ter(prepared, references)
    else:
        # the method that sacrebleu's own paired tests use; there is no public one
        counts = [np.array(scorer._extract_corpus_statistics(hyps, None)) for hyps in systems]
    return [LineCounts(counted, of_system.astype(np.float64)) for of_system in counts]


def _count_ter(systems: Sequence[_Lines], references: Sequence[_Lines]) -> list[_Counts]:
    """Return for each system the number of edits of each line and the mean length of its references, (L, 2)."""
    counts: list[list[tuple[int, float]]] = [[] for _ in systems]
    for lines, refs in zip(zip(*systems, strict=True), references, strict=True):
        words = [ref.split() for ref in refs]
        length = sum(map(len, words)) / len(words)
        edits = {line: min(count_edits(line.split(), ref) for ref in words) for line in {*lines}}
        for of_system, line in zip(counts, lines, strict=True):
            of_system.append((edits[line], length))
    return [np.array(of_system) for of_system in counts]


def of_line_scores(name: str, scores: Sequence[float], signature: str, higher_is_better: bool = True) -> LineCounts:
    """Return the line counts of a metric whose corpus score is the mean of its line scores."""
    values = np.asarray(scores, np.float64)
    return LineCounts(Metric(name, "mean", signature, higher_is_better), np.stack([values, np.ones_like(values)], 1))


def corpus_scores(formula: Formula, sums: Floats) -> Floats:
    """Return the corpus scores (S,) that follow from sums of counts (S, C), as sacrebleu computes them."""
    match formula:
        case "bleu":
            return _bleu(sums)
        case "chrf":
            return chrf(sums[:, 0::3], sums[:, 1::3], sums[:, 2::3])
        case "ter":
            edits, length = sums[:, 0], sums[:, 1]
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(length > 0, 100 * edits / length, np.where(edits > 0, 100.0, 0.0))
        case "mean":
            return sums[:, 0] / sums[:, 1]


def _bleu(sums: Floats) -> Floats:
    """Compute BLEU with exponential smoothing (mteval-v13a) from lengths and n-gram matches and totals by order."""
    n_hyp, n_ref = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2 : 2 + _BLEU_ORDERS], sums[:, 2 + _BLEU_ORDERS :]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, 0.5**halvings) / totals
        logs = np.where(totals > 0, np.log(precisions), -np.inf).sum(1) / _BLEU_ORDERS
        penalty = np.where(n_hyp < n_ref, np.exp(1 - n_ref / n_hyp), 1.0)
    return np.where(matches.any(1), 100 * penalty * np.exp(logs), 0.0)


def chrf(n_hyp: Floats, n_ref: Floats, n_match: Floats) -> Floats:
    """Compute chrF with beta 2 from the n-gram counts of each order in the hypothesis, the reference and both.

    chrF is the F-score of the mean precision and recall of character n-grams (Popović, 2015). The orders are the last
    dimension, the others are broadcast.
    """
    counted = (n_hyp > 0) & (n_ref > 0)
    n_orders = np.maximum(counted.sum(-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(counted, n_match / n_hyp, 0.0).sum(-1) / n_orders
        recall = np.where(counted, n_match / n_ref, 0.0).sum(-1) / n_orders
        score = 500 * precision * recall / (4 * precision + recall)
    return np.where(precision + recall > 0, score, 0.0)
