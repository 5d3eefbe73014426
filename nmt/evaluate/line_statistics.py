"""The contribution of each line to a corpus score, to compute the score of any selection of lines.

BLEU and chrF are counted by sacrebleu. TER is counted here, to the same figures and many times faster: the phrase whose
shift saves the most edits is shifted, again and again; what remains is an edit distance. The rows of its table are bit
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

from nmt.evaluate.metrics import MetricName, Reference, check_lines, make_scorer

Ints = npt.NDArray[np.int64]

Item = TypeVar("Item")

# limits of tercom and of sacrebleu
_LONGEST_SHIFT = 10
_PHRASE_BITS = (1 << _LONGEST_SHIFT) - 1
_FARTHEST_MATCH = 50
_MOST_SHIFTS = 1000
_IN_BEAM = 45
"""sacrebleu computes the cells within 25 of the diagonal. Alignments that leave them have more edits than this, less
the difference in length."""


class _Row(NamedTuple):
    """A row of the table: distances between some first words of the translation and all beginnings of the reference.

    Bit j is about the distance to the first j + 1 words of the reference.
    """

    rises: int
    """It is larger than that to j words."""
    falls: int
    """It is smaller than that to j words."""
    matched: int
    """It is that of one word less on both sides."""
    deleted: int
    """It is larger than in the row before."""


class _Shift(NamedTuple):
    """A phrase that moves before the word `target`; if `target` is within the phrase, it moves to the right by as many
    words as precede `target` in it."""

    length: int
    start: int
    target: int


class _Alignment(NamedTuple):
    """The edits that turn a translation into the reference."""

    of_reference: list[int]
    """By word of the reference: the last word of the translation that is not after it, or -1."""
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
    least = longer - n_common  # which no shift changes
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
    """Edit distances to a reference."""

    def __init__(self, reference: list[str]) -> None:
        self._reference = reference
        self._all = (1 << len(reference)) - 1
        self._positions: dict[str, list[int]] = defaultdict(list)
        self._bits: dict[str, int] = defaultdict(int)
        for position, word in enumerate(reference):
            self._positions[word].append(position)
            self._bits[word] |= 1 << position

    def rows(self, words: list[str]) -> list[_Row]:
        """Return the rows of a translation; the first row is for no words."""
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
        """Return the bits of the places where the reference has each word."""
        return [self._bits.get(word, 0) for word in words]

    def shifts(self, words: list[str], rows: list[_Row]) -> Iterator[_Shift]:
        """Yield the shifts to try: of phrases found elsewhere in the reference, if both places are wrong so far."""
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
        """Return an alignment with the fewest edits."""
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
        """Return the shift that saves the most edits, the longest and first on ties; None if none saves any.

        most: none can save more.
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
                    break  # nothing changes from here on
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
    """Return the distance to the whole reference."""
    return n_words + row.rises.bit_count() - row.falls.bit_count()


Floats = npt.NDArray[np.float64]

Formula = Literal["bleu", "chrf", "ter", "mean"]
"""How a corpus score follows from sums; mean: of scores that lines have, such as those of neural metrics."""

_NAMES: dict[MetricName, str] = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}  # as sacrebleu calls them
_BLEU_ORDERS = 4
_Lines = Sequence[str]
_Counts = npt.NDArray[np.int64] | Floats


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
    """The contribution of each line of one system's text to a metric."""

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
    """Count n-grams or edits of each line of each system with sacrebleu. The other arguments are those of
    `corpus_score`.

    Raises DataError as `corpus_score` does.
    """
    for hyps in systems:
        check_lines(hyps, refs)
    # for the signature one line is enough; TER is counted here
    scorer = make_scorer(metric, refs[:1] if metric == "ter" else refs, tgt_lang, lowercase, tokenize)
    counted = Metric(metric, metric, f"{_NAMES[metric]}|{scorer.get_signature()}", metric != "ter")
    if metric == "ter":
        prepared = [[scorer._preprocess_segment(line) for line in hyps] for hyps in systems]
        references = [[scorer._preprocess_segment(ref) for ref in each] for each in map(_as_tuple, refs)]
        counts = _count_ter(prepared, references)
    else:
        # sacrebleu's own paired tests begin with this method; there is no public one
        counts = [np.array(scorer._extract_corpus_statistics(hyps, None)) for hyps in systems]
    return [LineCounts(counted, of_system.astype(np.float64)) for of_system in counts]


def _as_tuple(reference: Reference) -> tuple[str, ...]:
    return (reference,) if isinstance(reference, str) else reference


def _count_ter(systems: Sequence[_Lines], references: Sequence[_Lines]) -> list[_Counts]:
    """Return the minimum number of edits of each line, and the mean length of its references."""
    counts: list[list[tuple[int, float]]] = [[] for _ in systems]
    for lines, refs in zip(zip(*systems, strict=True), references, strict=True):
        words = [ref.split() for ref in refs]
        length = sum(map(len, words)) / len(words)
        edits = {line: min(count_edits(line.split(), ref) for ref in words) for line in {*lines}}
        for of_system, line in zip(counts, lines, strict=True):
            of_system.append((edits[line], length))
    return [np.array(of_system) for of_system in counts]


def of_line_scores(name: str, scores: Sequence[float], signature: str, higher_is_better: bool = True) -> LineCounts:
    """Return the counts of a metric whose corpus score is the mean of its line scores."""
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
