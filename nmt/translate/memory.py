"""Translation memories: segments with their translations, which are taken as they are when a line occurs again.

A memory may have millions of segments. Their texts are in a temporary file, which the system pages in as needed; each
segment takes 24 bytes of memory, and another 16 if it has numbers that can be replaced; about 100 while it is read. An
index of similar segments takes about 250 bytes for a segment of ten words.
"""

from __future__ import annotations

import mmap
import re
import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from nmt.errors import ConfigError
from nmt.files.write import writing
from nmt.languages.codes import is_spaced
from nmt.search.settings import SearchConfig
from nmt.text.case import lower, upper
from nmt.text.constraints import Span, spans
from nmt.text.letters import comparable
from nmt.text.segments import Codes, one_line
from nmt.text.similarity import SimilarTexts
from nmt.text.words import replaced, units

MatchKind = Literal["fuzzy", "adapted", "exact", "copied"]
"""How a segment matches a text: `exact`, `adapted` if numbers or the first letter were changed, or if the segment has
formatting, or `fuzzy` if it is similar and the model has read its translation. `copied`: it matches none, but has no
letters to translate."""
MATCH_KINDS: tuple[MatchKind, ...] = get_args(MatchKind)[:3]
"""The kinds of matches of segments, the best last."""


class Match(NamedTuple):
    """The translation of a text that the model need not translate."""

    text: str
    kind: MatchKind


_DIGIT = re.compile("[0-9]")
_Integers = npt.NDArray[np.int64]


class TranslationMemory:
    """A translation memory: segments in one language with their translations into another."""

    def __init__(self, segments: Iterable[tuple[str, str, Codes]], source: str, target: str) -> None:
        """Make a memory of segments with their translations, oldest first, and the codes that both lack.

        source, target: their languages.

        Segments with a blank side are left out. Raises DataError if the temporary file cannot be written.
        """
        self.source = source
        self.target = target
        self._lower = lower(source)
        self._upper = upper(target)
        self._is_inflected = is_spaced(target)
        exact = _Index()
        general = _Index()
        with writing(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
            for segment, translation, codes in segments:
                segment = self._folded(segment)
                translation = one_line(translation)
                if not (segment and translation):
                    continue
                place = file.tell()
                mark = "\n" * codes
                file.write(f"{segment}\n{translation}\n{mark}".encode())
                exact.add(mark + segment, translation, place)  # no text of one line equals a marked one
                numbers = _wanted(segment)
                is_sure = len(set(numbers)) == len(numbers) and sorted(numbers) == sorted(_wanted(translation))
                if is_sure and codes < Codes.OTHER and (numbers or codes):
                    general.add(self._general(segment), self._general(translation), place)
            file.flush()
            self._texts = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b""
        self._indexes = exact.sorted(), general.sorted()
        self._places = np.sort(self._indexes[0][1])  # not in the order of hashes, which differs between processes
        self._similar: SimilarTexts | None = None

    def __len__(self) -> int:
        """Return the number of different segments."""
        return len(self._places)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the segments, in their order."""
        return sha256(self._texts).hexdigest()

    def use_for(self, threshold: float | None, search: SearchConfig) -> None:
        """Index the segments for `similar` if the model reads the translations of similar texts.

        threshold: the least similarity of a text; None if the model does not read them. Raises ConfigError if neither
        exact nor similar segments would be used.
        """
        if threshold is None:
            if not search.exact_matches:
                raise ConfigError("search.exact_matches: false needs a model trained with training.modifiers.fuzzy")
            return
        if self._similar is None or self._similar.threshold != threshold:
            self._similar = SimilarTexts((self._segment(place)[0] for place in self._places.tolist()), threshold)

    def similar(self, text: str) -> str:
        """Return the translation of the most similar segment; empty if none is similar enough, or without an index."""
        return next((translation for _, translation in self.most_similar(text, 1)), "")

    def most_similar(self, text: str, n: int) -> list[tuple[str, str]]:
        """Return up to `n` segments that are similar enough, with their translations, the most similar first; none
        without an index."""
        if self._similar is None:
            return []
        return [self._segment(int(self._places[row])) for row in self._similar.nearest(self._folded(text), n)]

    def find(self, text: str) -> Match | None:
        """Return the translation of a text, if the memory has one.

        The text must equal a segment but for white space, Unicode normalization and forms of letters, for the values of
        whole numbers that occur once in the segment and once in its translation, for a capital at its start, and for
        formatting. A segment with other codes matches no text, since it lacks a part. Out of several translations, the
        most frequent is returned, and the latest of equally frequent ones.
        """
        text = self._folded(text)
        for form in dict.fromkeys((text, self._lower(text[:1]) + text[1:])):
            for (keys, places), key_text in zip(self._indexes, (form, self._general(form)), strict=True):
                key = hash(key_text)
                at = int(np.searchsorted(keys, key))
                if at == len(keys) or keys[at] != key:
                    continue
                source, translation = self._segment(int(places[at]))
                if self._general(source) != self._general(form):  # two texts with one hash
                    continue
                new = dict(zip(_wanted(source), _wanted(form), strict=True))
                adapted = _with_numbers(translation, lambda number, new=new: new.get(number, number))  # type: ignore[misc]
                if form != text:
                    adapted = self._upper(adapted[:1]) + adapted[1:]
                return Match(adapted, "exact" if adapted == translation and keys is self._indexes[0][0] else "adapted")
        return None

    def _folded(self, text: str) -> str:
        """Return a text on one line with one form of each letter; see `comparable`."""
        return " ".join(comparable(text, self.source).split())

    def _general(self, text: str) -> str:
        """Return a text with each whole number replaced by its plural class."""
        if not self._is_inflected:  # languages without spaces between words have no plural forms
            return _with_numbers(text, lambda _: "\x000")
        return _with_numbers(text, lambda number: f"\0{_plural(number)}")

    def _segment(self, place: int) -> tuple[str, str]:
        middle = self._texts.find(b"\n", place)
        end = self._texts.find(b"\n", middle + 1)
        return self._texts[place:middle].decode(), self._texts[middle + 1 : end].decode()


class _Index:
    """An index of texts by their hashes, which chooses among several translations of a text."""

    def __init__(self) -> None:
        self._keys = array("q")
        self._values = array("q")
        self._places = array("q")

    def add(self, text: str, translation: str, place: int) -> None:
        """Add a text with a translation, at a place in the file."""
        self._keys.append(hash(text))
        self._values.append(hash(translation))
        self._places.append(place)

    def sorted(self) -> tuple[_Integers, _Integers]:
        """Return the sorted hashes of the texts, and the place of the chosen translation of each."""
        keys, values, places = (np.array(column) for column in (self._keys, self._values, self._places))
        order = np.lexsort((values, keys))  # stable: equal segments stay in the order of their places
        keys = keys[order]
        values = values[order]
        places = places[order]
        last = np.flatnonzero(_differs(keys) | _differs(values))  # of equal segments
        keys = keys[last]
        places = places[last]
        counts = np.diff(last, prepend=-1)
        order = np.lexsort((places, counts, keys))
        keys = keys[order]
        places = places[order]
        return keys[_differs(keys)], places[_differs(keys)]


def _differs(values: _Integers) -> npt.NDArray[np.bool_]:
    """Return whether each value differs from the next one; the last one does."""
    return np.append(values[1:] != values[:-1], True)[: len(values)]


@lru_cache(maxsize=16)  # several functions ask for the numbers of one segment
def _numbers(text: str) -> list[Span]:
    """Return the whole numbers of a text that may be replaced: ASCII digits that are not part of anything longer."""
    if _DIGIT.search(text) is None:  # saves time
        return []
    numbers = (span for span in spans(text) if span.kind == "number" and span.wanted.isdecimal())
    ends = {end for _, end in units(text)}
    return [span for span in numbers if span.end in ends]


def _wanted(text: str) -> list[str]:
    return [number.wanted for number in _numbers(text)]


def _with_numbers(text: str, new: Callable[[str], str]) -> str:
    return replaced(text, {(number.start, number.end): new(number.wanted) for number in _numbers(text)})


def _plural(number: str) -> int:
    """Return the plural class of a number: nouns have the same form after all numbers of a class, in most languages."""
    last_two = int(number[-2:])
    is_small = not number[:-2].strip("0")
    # most rules depend on the last two digits from 0 to 19, and on the last digit of others
    kind = bisect_right((1, 2, 3, 5, 11), last_two)
    if last_two >= 20:
        kind = 10 + bisect_right((1, 2, 5), last_two % 10)
    return kind + 20 if is_small else kind
