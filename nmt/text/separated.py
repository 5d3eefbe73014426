"""The separator of a table of text, by its first lines."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

SAMPLE_LINES = 200
"""Number of lines from which the separator is guessed."""
DECLARED = re.compile(r'"?sep=([^\s"]|\t)"?', re.IGNORECASE)
"""Matches the first line of a file for Excel."""
DIALECT: dict[str, Any] = {"skipinitialspace": True, "strict": True}
_SEPARATORS = "\t|;,"  # the first of those that fit equally well is taken: the later ones are more common in text


def separator_of(sample: Sequence[str]) -> str:
    """Return the separator that gives the most records at the beginning of a file the same number of columns."""

    def n_alike(separator: str) -> int:
        return max((n for width, n in widths(sample, separator).items() if width > 1), default=0)

    return max(_SEPARATORS, key=n_alike)


def widths(sample: Sequence[str], separator: str) -> Counter[int]:
    """Return the number of records by their number of columns at the beginning of a file, without blank lines."""
    n_records: Counter[int] = Counter()
    with suppress(csv.Error):  # at quotes beside another separator, or at the end, which may be within a record
        n_records.update(map(len, csv.reader(with_ends(sample), delimiter=separator, **DIALECT)))
    del n_records[0]
    return n_records


def with_ends(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with line feeds, which `csv` needs to keep line breaks in quotes."""
    return (f"{line}\n" for line in lines)
