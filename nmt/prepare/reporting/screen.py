"""The report of a dry run on the screen."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Mapping

from nmt.console import printable_sentence
from nmt.prepare.cleaning.reasons import REASONS, REPAIRS
from nmt.prepare.reporting.report import Report
from nmt.prepare.reporting.table import COLUMNS, count_lines

_N_SAMPLES = 3


def screen(report: Report) -> Iterator[str]:
    """Yield the lines of the report: the table, samples of what is dropped, and warnings."""
    rows: dict[str, tuple[int, int, Mapping[str, int]]] = {"train": (report.read, report.kept, report.dropped)}
    if len(report.corpora) > 1:
        rows |= {f"  {one.key} {one.corpus}": (one.read, one.kept, one.dropped) for one in report.corpora}
    rows |= {name: (n, n, {}) for name, n in report.held_out.items()}
    yield from count_lines(rows)
    for one in report.corpora:
        if one.skipped:
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(one.skipped.items()))
            yield from _wrapped(f"{one.key} {one.corpus}: units that are not one pair: {reasons}")
    if report.repaired:
        kinds = ", ".join(f"{REPAIRS[kind]} {n:,}" for kind, n in report.repaired.items())
        yield from _wrapped(f"repaired: {kinds}")
    for reason, n in report.dropped.items():
        if samples := list(_samples(report, reason)):
            yield ""
            yield f"{REASONS[reason]}: {n:,} of {report.read:,} pairs ({n / report.read:.1%}), such as"
            yield from samples
    yield ""
    for warning in report.warnings:
        yield from _wrapped(f"warning: {warning}")
    if report.sample is not None:
        yield f"at most {report.sample:,} pairs of each corpus: duplicates in all of it cannot be judged from a sample"
    more = ", and splitting off a development set" if report.sample is not None else ""
    yield f"nothing was prepared; not judged: pairs with too many pieces{more}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _samples(report: Report, reason: str) -> Iterator[str]:
    """Yield the first samples of a reason, in turn from each corpus."""
    samples = [
        (number, corpus, sample)
        for corpus in report.corpora
        for number, sample in enumerate(corpus.dropped_samples.get(reason, []))
    ]
    for _, corpus, sample in sorted(samples, key=lambda each: each[0])[:_N_SAMPLES]:
        yield f"  {corpus.corpus}, pair {sample['line']:,}"
        for language in report.languages:
            yield _fitted(f"    {language}  {printable_sentence(str(sample[language]))}".rstrip())


def _fitted(text: str) -> str:
    """Return as much of a text as fits into a line of the screen, on which some characters are two columns wide."""
    width = 0
    for end, character in enumerate(text):
        width += 1 + (unicodedata.east_asian_width(character) in "WF")
        if width > COLUMNS:
            return f"{text[: end - 2]} …"
    return text
