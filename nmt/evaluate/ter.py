"""Translation edit rate (TER), with the results of sacrebleu and many times faster.

As long as a shift of a phrase saves edits, the best one is applied; then the edit distance is added. The rows of its
table are bit vectors (Hyyrö, 2003, A bit-vector algorithm for computing Levenshtein and Damerau edit distances) with a
bit for each word of the reference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from sacrebleu.metrics.lib_ter import translation_edit_rate
from sacrebleu.metrics.ter import TER

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


def count_edits(words: list[str], reference: list[str], is_exact: bool = False) -> int:
    """Count the insertions, deletions, substitutions and shifts that turn a translation into the reference.

    `is_exact`: do not return to sacrebleu's slow search, which is not exact, where it leaves out alignments.
    """
    longer = max(len(words), len(reference))
    if words == reference or not words or not reference:
        return 0 if words == reference else longer
    n_common = sum((Counter(words) & Counter(reference)).values())
    least = longer - n_common  # shifts do not change it
    table = _Table(reference)
    n_tried = 0
    n_shifts = 0
    rows = table.rows(words)
    distance = _distance(rows[-1], len(words))
    if not is_exact and distance + abs(len(words) - len(reference)) > _IN_BEAM:
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
        first = _Row(self._all, 0, 0, 0)
        return [first, *self._rows_after(first, self._places(words))]

    def _rows_after(self, row: _Row, places: Iterable[int]) -> Iterator[_Row]:
        """Yield the rows for the next words of a translation, given the bits of their positions in the reference."""
        rises = row.rises
        falls = row.falls
        every = self._all
        for same in places:
            matched = (((same & rises) + rises) ^ rises) | same | falls
            deleted = falls | ~(matched | rises)
            from_left = deleted << 1 | 1
            rises = ((rises & matched) << 1 | ~(matched | from_left)) & every
            falls = matched & from_left & every
            yield _Row(rises, falls, matched, deleted)

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
        i = len(words)
        j = len(self._reference)
        wrong = missed = 0
        aligned = [-1] * j
        while i and j:
            row = rows[i]
            bit = 1 << (j - 1)
            is_same = words[i - 1] == self._reference[j - 1]
            if is_same or not row.matched & bit:
                if not is_same:
                    wrong |= 1 << (i - 1)
                    missed |= bit
                i -= 1
                j -= 1
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

        Ties go to the longest shift, then to the first. `most` is an upper limit of the saved edits.
        """
        places = self._places(words)
        n = len(words)
        distance = _distance(rows[-1], n)
        saved = 0
        best = None
        for shift in sorted({*shifts}, key=lambda shift: (-shift.length, shift.start, shift.target)):
            length, start, target = shift
            if saved >= min(most, 2 * length):  # the words could be deleted and inserted instead
                break
            last = max(start + length, target if target > start + length else target + length)
            first = min(start, target)
            for i, row in enumerate(self._rows_after(rows[first], _shifted(places, shift)[first:]), first + 1):
                if i >= last and rows[i][:2] == row[:2]:
                    break  # the other rows do not change
            else:
                of_shift = distance - _distance(row, n)
                if of_shift > saved:
                    saved = of_shift
                    best = shift
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


class FastTER(TER):
    """TER of sacrebleu, computed by `count_edits`."""

    def __init__(self, by_characters: bool, **options: Any) -> None:
        """Take the options of sacrebleu's TER. `by_characters`: each character counts as a word."""
        self._by_characters = by_characters
        super().__init__(**options)
        if by_characters:
            self.tokenizer_signature = "char"

    def _preprocess_segment(self, sent: str) -> str:
        words: str = super()._preprocess_segment(sent)
        return " ".join(words) if self._by_characters else words

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: Mapping[str, list[list[str]]]) -> list[float]:
        """Return the number of edits to the nearest reference, and the mean length of the references."""
        words = hypothesis.split()
        references = ref_kwargs["ref_words"]
        edits = min(count_edits(words, reference, self._by_characters) for reference in references)
        return [edits, fmean(map(len, references))]
