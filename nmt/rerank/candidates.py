"""The candidates of lines: translated by a run, or read from what `nmt translate --n-best` has written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, tee
from pathlib import Path
from typing import NamedTuple

from nmt.config import SearchConfig
from nmt.console import Progress, say
from nmt.errors import DataError
from nmt.text.lines import read_lines
from nmt.text.tokenizer import is_blank
from nmt.translate.files import Warnings
from nmt.translate.translator import Translator
from nmt.translate.types import Line

COLUMNS = "line number, score, log-probability and translation, separated by tabs (nmt translate --n-best)"


class Candidate(NamedTuple):
    """A translation of a line."""

    text: str
    score: float
    """That of search."""


class NBest(NamedTuple):
    """A line and its candidates, at least one; a blank line has a blank one."""

    source: str
    candidates: Sequence[Candidate]
    """With different texts; those of beam search best first."""


def translated(
    translator: Translator, lines: Iterable[str], search: SearchConfig, n_best: int, progress: Progress | None = None
) -> Iterator[NBest]:
    """Translate lines into up to `n_best` candidates each. Warnings are printed at the end.

    Raises ConfigError if the settings of the search are incompatible.
    """
    warnings = Warnings()
    lines, sources = tee(lines)
    by_line = translator.translate_lines(lines, search, n_best, progress)
    for number, (source, translations) in enumerate(zip(sources, by_line, strict=True), start=1):
        warnings.add(number, Line(source), translations)
        yield _n_best(source, (Candidate(each.text, each.score) for each in translations))
    for warning in warnings.lines():
        say(warning)


def read_n_best(path: Path, lines: Iterable[str], source: Path) -> Iterator[NBest]:
    """Read the candidates of the lines of `source`.

    Raises DataError if a row is none of `nmt translate --n-best`, or if the rows are not those of these lines in their
    order.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file")
    rows = (_parsed(row, f"{path}: line {number}") for number, row in enumerate(read_lines(path), start=1))
    groups = groupby(rows, key=lambda row: row[0])
    n_lines = 0
    for n_lines, line in enumerate(lines, start=1):
        number, group = next(groups, (None, ()))
        if number != n_lines:
            instead = "the end" if number is None else f"those of line {number}"
            raise DataError(f"{path}: no candidates of line {n_lines} of {source}, found {instead} in their place")
        yield _n_best(line, (candidate for _, candidate in group))
    if rest := next(groups, None):
        raise DataError(f"{path}: has candidates of line {rest[0]}, but {source} has {n_lines} lines")


def _n_best(source: str, candidates: Iterable[Candidate]) -> NBest:
    different: dict[str, Candidate] = {}
    for candidate in candidates:
        different.setdefault(candidate.text, candidate)
    return NBest(source, (Candidate("", 0.0),) if is_blank(source) else tuple(different.values()))


def _parsed(row: str, where: str) -> tuple[int, Candidate]:
    try:
        number, score, _, text = row.split("\t", 3)
        parsed = int(number), Candidate(text, float(score))
    except ValueError:
        raise DataError(f"{where} is {row[:40]!r}, expected {COLUMNS}") from None
    if not math.isfinite(parsed[1].score):
        raise DataError(f"{where} has the score {score}: not a number to rank by")
    return parsed
