"""Sentence pairs, and a source of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import NamedTuple, TypeAlias

from nmt.config.source import AnyTrainSource
from nmt.console import printable
from nmt.data.corpus import SourceRecord
from nmt.errors import DataError

Row: TypeAlias = tuple[str, str, float | None]
"""A pair as it is read of a file: the texts, that of the alphabetically first language first, and its score if the
source has scores."""


class SentencePair(NamedTuple):
    """A text and its translation, `src` in the alphabetically first language: pairs have no direction here."""

    src: str
    tgt: str
    corpus: str
    score: float | None = None
    """Its quality, the greater the better, if the source has a column or a file of scores."""


NO_SCORE = "no number as score"
"""Why a unit is skipped."""


def parse_score(value: object) -> float | None:
    """Return a score, None if it is not a finite number."""
    try:
        score = float(value)  # type: ignore[arg-type]  # what it cannot take is an error
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
            raise DataError(f"{name}: line {number}: {printable(line[:40])!r}, where a number is needed as score")
        yield score


_BREAKS = re.compile(r"[\r\n]")


def one_line(text: str) -> str:
    """Return a text with each line break, and the white space around it, replaced by one space; ends are stripped."""
    if "\n" not in text and "\r" not in text:
        return text.strip()
    return " ".join(filter(None, map(str.strip, _BREAKS.split(text))))


class Units:
    """Counts the units of a source that are not one pair: without text in one language, or with several in one."""

    def __init__(self) -> None:
        self.skipped: dict[str, int] = {}
        """Their number by reason."""

    def skip(self, reason: str) -> None:
        """Count a unit; `reason` in words, such as `fuzzy` or `no text in de`."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


@dataclass(frozen=True)
class Layout:
    """Which text of a file belongs to which language."""

    languages: tuple[str, str]
    """In alphabetical order."""
    columns: Mapping[str, str]
    """Language code -> name or number of its column, from `columns`; empty: the columns have their names."""
    score: str | None = None
    """`score` of a source."""


@dataclass(frozen=True)
class OpenSource:
    """A source whose files are available: its record for the manifest, and its pairs, which can be read repeatedly."""

    record: SourceRecord
    pairs: Callable[[], Iterator[SentencePair]]
    units: Units = field(default_factory=Units)
    """What is no pair, counted while `pairs` is read."""
    parts: tuple[AnyTrainSource, ...] = ()
    """What is read one after the other by `nmt.prepare.sources.read_part`, each independently of the others."""
