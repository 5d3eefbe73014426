"""Which word of a text each word of its translation comes from."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence

from nmt.documents.types import Alignment, Translated
from nmt.text.words import is_boundary

_LOOK_BACK = 3
"""Units before or after a mark by which its place is looked for."""


class Origins:
    """Units of a text and of its translation, (start, end), and which of the text each of the translation comes from.

    A unit is a word or a sign; words of the text are cut where markup begins or ends within them.
    """

    def __init__(self, source: str, translated: Translated, edges: set[int]) -> None:
        self.source, self.text = source, translated.text
        self._is_aligned = translated.alignment is not None
        self.src_units = _units(source, edges)
        self._starts = [start for start, _ in self.src_units]
        self.units = _units(self.text, _same_cuts(source, self.text, edges))
        self._word_starts = [
            unit
            for unit, (start, _) in enumerate(self.units)
            if start == 0 or self.text[start - 1].isspace() or min(self.text[start - 1 : start + 1]) > "\u2fff"
        ]
        """Units that follow white space, or in a script without spaces another word."""
        self.of: list[int | None] = [None] * len(self.units)
        if translated.alignment is None:
            self._by_place()
        else:
            self._by_alignment(translated.alignment)
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        for unit, origin in enumerate(self.of):
            if origin is not None:
                self._first.setdefault(origin, unit)
                self._last[origin] = unit

    def inside(self, start: int, end: int) -> range:
        """Return the units of the text that begin inside these characters."""
        return range(bisect_left(self._starts, start), bisect_left(self._starts, end))

    def by_place(self, position: int) -> int:
        """Return the unit of the translation that is as far from its start as this character of the text from its."""
        place = position * len(self.text) // max(len(self.source), 1)
        return bisect_left(self.units, place, key=lambda unit: unit[1])

    def nearest_word(self, unit: int) -> int:
        """Return the unit nearest to this one that begins a word, or the number of units: the end."""
        place = bisect_left(self._word_starts, unit)
        near = [*self._word_starts[max(place - 1, 0) : place + 1], len(self.units)]
        return min(near, key=lambda start: (abs(start - unit), -start))

    def may_take(self, unit: int) -> bool:
        """Whether a span may enclose a unit though it does not come from inside it: a word of unknown origin."""
        return (self.of[unit] is None or not self._is_aligned) and self.is_word(unit)

    def is_word(self, unit: int) -> bool:
        """Whether a unit of the translation is a word, not a sign."""
        return _is_word(self.text, self.units[unit])

    def rest_of_word(self, src_units: range) -> int | None:
        """Return a unit that comes from the word of which these units of the text are a part."""
        for step, edge in ((-1, src_units.start), (1, src_units.stop - 1)):
            unit = edge
            for _ in range(_LOOK_BACK):
                if not self._touch(unit, unit + step):
                    break
                unit += step
                if unit in self._first and _is_word(self.source, self.src_units[unit]):
                    return self._first[unit]
        return None

    def _touch(self, unit: int, other: int) -> bool:
        first, second = sorted((unit, other))
        return first >= 0 and second < len(self.src_units) and self.src_units[first][1] == self._starts[second]

    def gap(self, position: int, is_attached: bool) -> int:
        """Return before which unit of the translation a mark is that is at this character of the text.

        is_attached: whether it belongs to what is before it rather than to what follows.
        """
        following = bisect_left(self._starts, position)
        before = [self._last[i] + 1 for i in _down(following - 1) if i in self._last]
        after = [self._first[i] for i in range(following, following + _LOOK_BACK) if i in self._first]
        found = before[:1] + after[:1] if is_attached else after[:1] + before[:1]
        return found[0] if found else self.by_place(position)

    def _by_place(self) -> None:
        for unit, (start, end) in enumerate(self.units):
            middle = (start + end) * len(self.source) // (2 * len(self.text))
            self.of[unit] = max(0, bisect_right(self._starts, middle) - 1)

    def _by_alignment(self, alignment: Alignment) -> None:
        sources: dict[tuple[int, int], set[int]] = defaultdict(set)
        for source, (start, end) in alignment:
            sources[start, end].update(_overlapping(self.src_units, *source))
        for target, units in sources.items():
            self._align(_overlapping(self.units, *target), sorted(units))

    def _align(self, units: Sequence[int], origins: Sequence[int]) -> None:
        """Align the units of one word: words in their order, a sign with the same one, or the one at the same end."""
        words = [unit for unit in units if self.is_word(unit)]
        src_words = [unit for unit in origins if _is_word(self.source, self.src_units[unit])]
        if src_words:
            for i, unit in enumerate(words):
                self.of[unit] = src_words[i * len(src_words) // len(words)]
        src_signs = sorted(set(origins) - set(src_words))
        by_sign = {self.source[slice(*self.src_units[unit])]: unit for unit in src_signs}
        for unit in sorted(set(units) - set(words)):
            outer = origins[-1 if words and unit > words[0] else 0] if src_signs else None
            same = by_sign.get(self.text[slice(*self.units[unit])])
            self.of[unit] = same if same is not None else outer if outer in by_sign.values() else None


def _units(text: str, cuts: set[int]) -> list[tuple[int, int]]:
    """Return where the words of a text are, and the signs around them; words are cut at `cuts`, too."""
    found: list[tuple[int, int]] = []
    for word in re.finditer(r"\S+", text):
        start, end = word.span()
        places = [start, *(i for i in range(start + 1, end) if i in cuts or is_boundary(text, i)), end]
        found += itertools.pairwise(places)
    return found


def _same_cuts(source: str, text: str, cuts: set[int]) -> set[int]:
    """Return where a translation is cut, given where its source is: inside words that both have."""
    same: dict[str, set[int]] = defaultdict(set)
    for start, end in _units(source, set()):
        if inner := {i - start for i in range(start + 1, end) if i in cuts}:
            same[source[start:end]] |= inner
    return {start + i for start, end in _units(text, set()) for i in same.get(text[start:end], ())} if same else set()


def _is_word(text: str, unit: tuple[int, int]) -> bool:
    return any(map(str.isalnum, text[slice(*unit)]))


def _down(unit: int) -> range:
    return range(unit, max(unit - _LOOK_BACK, -1), -1)


def _overlapping(units: Sequence[tuple[int, int]], start: int, end: int) -> range:
    """Return the units of which a part is inside these characters."""
    first = bisect_right(units, start, key=lambda unit: unit[1])
    return range(first, max(first, bisect_left(units, end, key=lambda unit: unit[0])))
