"""Sentence pairs and open sources of sentence pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from nmt.console import printable
from nmt.data.manifest import SourceRecord
from nmt.data.sources import AnyTrainSource
from nmt.errors import DataError
from nmt.languages.codes import side_of
from nmt.languages.directions import LanguagePair
from nmt.text.lines import TextPair, pair_lines
from nmt.text.segments import Codes, Segment, one_line
from nmt.text.tokenizer import is_blank
from nmt.text.words import beginning

Row: TypeAlias = tuple[str, str, float | None]
"""A pair as it is read from a file: the text in the alphabetically first language, the other text, and the score of the
pair if the source has scores."""


class SentencePair(NamedTuple):
    """A text and its translation. Pairs have no direction yet: `src` is in the alphabetically first language."""

    src: str
    tgt: str
    corpus: str
    score: float | None = None
    """The quality of the pair, where higher is better, if the source has scores."""
    document: int = 0
    """Differs from the number of the pair before it if this pair begins a document; blank lines are not counted."""


NO_SCORE = "no number as score"
"""The reason for which a unit without a valid score is skipped."""


def parse_score(value: object) -> float | None:
    """Return a value as a number; None if it is not a finite number."""
    try:
        score = float(value)  # type: ignore[arg-type]  # other types raise TypeError
    except (TypeError, ValueError, OverflowError):
        return None
    return score if isfinite(score) else None


def read_scores(lines: Iterable[str], name: Path | str, first_number: int = 1) -> Iterator[float]:
    """Yield the number in each line. Raises DataError for a line that is not a number.

    `name` and `first_number`, the number of the first line, are for messages.
    """
    for number, line in enumerate(lines, start=first_number):
        score = parse_score(line)
        if score is None:
            raise DataError(
                f"{name}: line {number}: {printable(beginning(line, 40))!r}, where a score must be a number"
            )
        yield score


def scored(pairs: Iterator[TextPair], name: Path, scores: Iterator[str] | None, scores_name: Path) -> Iterator[Row]:
    """Yield each pair with its score, or without one. Raises DataError if a score is not a number, or their number
    differs from the number of pairs; both names are for messages."""
    if scores is None:
        return ((src, tgt, None) for src, tgt in pairs)
    with_scores = pair_lines(pairs, read_scores(scores, scores_name), name, scores_name)
    return ((src, tgt, score) for (src, tgt), score in with_scores)


class Units:
    """Counters of a source that is being read: skipped units, such as units without text in one language, and
    documents."""

    def __init__(self) -> None:
        self.skipped: dict[str, int] = {}
        """Number of skipped units by reason."""
        self.document = 0
        """Number of the document of the next pair."""
        self.codes = Codes.NONE  # of the pair that was read last
        self._name: object = None

    def clear(self) -> None:
        """Forget all counts, before the source is read again."""
        self.skipped.clear()
        self.document = 0
        self._name = None

    def enter(self, document: object) -> None:
        """Count a document if its name differs from the name of the one before it."""
        self.codes = Codes.NONE
        self.document += self._name not in (None, document)
        self._name = document

    def separate(self) -> None:
        """Count a new document, so that the next pair does not follow the one before it."""
        self.document += 1

    def skip(self, reason: str, otherwise: str = "") -> None:
        """Count a skipped unit, which separates those beside it.

        reason: a short text such as `no text in de`; otherwise: used instead of a new reason when there are many.
        """
        self.separate()
        if otherwise and reason not in self.skipped and len(self.skipped) >= _MAX_REASONS:
            reason = otherwise
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def row(self, src: Segment, tgt: Segment, score: float | None = None) -> Row:
        """Return a pair of segments, whose codes are recorded."""
        self.codes = max(src.codes, tgt.codes)
        return src.text, tgt.text, score

    def rows(self, cells: Iterable[Sequence[Any]], layout: Layout, name: str) -> Iterator[Row]:
        """Yield the pairs of a table from the cells of each row: both texts, and the texts of `layout.more`."""
        score = None
        for src, tgt, *more in cells:
            if layout.score is not None and (score := parse_score(more[0])) is None:
                self.skip(NO_SCORE)
                continue
            if layout.document is not None:
                self.enter((name, more[-1]))
            yield one_line(src or ""), one_line(tgt or ""), score

    def skip_blank(self, texts: Sequence[str], languages: LanguagePair, note: str = "") -> bool:
        """Return whether a text of a pair is blank; if so, count it as a skipped unit, for a reason with this note."""
        blank = [language for language, text in zip(languages, texts, strict=False) if is_blank(text)]
        if blank:
            reason = f"no text in {' or '.join(blank)}"
            self.skip(reason + note, reason)
        return bool(blank)


@dataclass(frozen=True)
class Layout:
    """The assignment of the texts in a file to languages."""

    languages: LanguagePair
    """In alphabetical order."""
    columns: Mapping[str, str | Sequence[str]]
    """Language code -> name or number of its column, or several names in order of preference; empty: the columns are
    named after the languages."""
    score: str | None = None
    """The setting `score` of the source."""
    document: str | None = None
    """The setting `document` of the source."""
    format: str | None = None
    """The setting `format` of the source; None if names of files show their formats."""

    def names(self, language: str) -> Sequence[str]:
        """Return the names of the column of a language in order of preference; its code if none is given."""
        names = self.columns.get(language) or language
        return [names] if isinstance(names, str) else names

    @property
    def all_names(self) -> list[str]:
        """All names of the columns of both languages."""
        return [name for language in self.languages for name in self.names(language)]

    @property
    def more(self) -> list[str]:
        """The columns that are read besides the texts: of the scores, then of the documents."""
        return [name for name in (self.score, self.document) if name is not None]


@dataclass(frozen=True)
class OpenSource:
    """A source whose files are on this machine, with its record for the manifest; its pairs can be read repeatedly."""

    record: SourceRecord
    pairs: Callable[[], Iterator[SentencePair]]
    units: Units
    """Counts skipped units while `pairs` is read."""
    parts: tuple[AnyTrainSource, ...]
    """Parts of the source, which `nmt.prepare.sources.read_part` can read independently of each other."""


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name a pair of languages, unless `name` is empty, in the message of a DataError."""
    try:
        yield
    except DataError as error:
        if not name:
            raise
        raise DataError(f"{name}: {error}") from error


MAX_TAG = 20  # maximum length in a report
_MAX_REASONS = 50  # a damaged file may have a language of its own for each unit


def side_in_columns(name: str, layout: Layout, first: str, second: str) -> int | None:
    """Return the index of the language whose column is `first`; None if the layout specifies no columns.

    `name` is the file for messages. Raises DataError if the columns are not `first` and `second`.
    """
    if not layout.columns:
        return None
    columns = layout.all_names
    if sorted(columns) != sorted((first, second)):
        raise DataError(f"{name}: columns must be {first} and {second}, found {' and '.join(columns)}")
    return columns.index(first)


def side_of_source(source: str, target: str, layout: Layout, units: Units) -> int | None:
    """Return the index of the source language of a unit. A unit in other languages is counted, and None returned."""
    sides = side_of(source, layout.languages), side_of(target, layout.languages)
    if None not in sides and sides[0] != sides[1]:
        return sides[0]
    units.skip(f"languages {source[:MAX_TAG]}-{target[:MAX_TAG]}", "other languages")
    return None
