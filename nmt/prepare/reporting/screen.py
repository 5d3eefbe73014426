"""The report on the screen, for a preparation or a dry run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from nmt.console import printable_sentence
from nmt.data.manifest import SplitOffRecord, SplitRecord, TextRecord
from nmt.languages.codes import is_spaced
from nmt.prepare.cleaning.counts import REASONS, REPAIRS, counted, skipped_units
from nmt.prepare.pipeline.work import BLOCK
from nmt.prepare.reporting.report import Report, SourceReport

_LONG_WORD = 12  # characters; with a longer mean, spaces do not separate words, whatever the language code

COLUMNS = 100
"""Width of the report on the screen; long names and messages may be wider."""
_WIDEST_NAME = 40
_MOST_LABELS = 12  # shown

_Rows: TypeAlias = dict[str, tuple[int, int, Mapping[str, int]]]
"""Numbers of pairs read and kept, and of those dropped by reason, by the name of the row."""


def table(report: Report, splits: Mapping[str, SplitRecord], asked: int | None) -> Iterator[str]:
    """Yield the lines of the report on a preparation.

    `asked`: the vocabulary size in the config, or None if the vocabulary was taken from another directory.
    """
    yield from _counts(report)
    for name, split in splits.items():
        if split.split_off:
            yield f"{name}: {_split_off(split.split_off, split.pairs)}"
    for name, classes in report.classes.items():
        yield f"{name}: {_shares(classes)}"
    assert report.tokenizer is not None
    pieces = report.tokenizer.pieces
    vocabularies = {" and ".join(pieces): max(pieces.values())} if report.tokenizer.joint else pieces
    for languages, size in vocabularies.items():
        note = ""
        if asked is None:
            note = ", not learned from this text"
        elif size < asked:
            note = f": the text allows no more, {asked:,} were requested"
        yield f"vocabulary: {size:,} pieces for {languages}{note}"
    for language, counts in report.tokenizer.text.items():
        yield f"{language}: {length_of_pieces(language, counts)}"
    for name, split in splits.items():
        if trip := split.round_trip:
            control = f"; {trip.control:,} with control characters are not" if trip.control else ""
            if n_normalised := trip.lines - trip.exact - trip.control:
                control = f"; {n_normalised:,} are normalised by the tokenizer, but references stay as they are"
            yield f"{name}: {trip.exact:,} lines are decoded exactly from their pieces{control}"


def _counts(report: Report) -> Iterator[str]:
    """Yield a table of the pairs read, kept and dropped, and the numbers of skipped units and of repairs."""
    rows: _Rows = {"train": (report.read, report.kept, report.dropped)}
    if len(report.corpora) > 1:
        rows |= _rows(report.corpora, "  ")
    rows |= {name: (n, n, {}) for name, n in report.held_out.items()}
    yield from count_lines(rows | _rows(report.mono))
    yield from _skipped_and_repaired(report)


def additions(report: Report) -> Iterator[str]:
    """Yield the lines of the report on corpora that were added to a data directory."""
    for corpus in report.corpora:
        yield f"{corpus.key} {corpus.corpus}: {corpus.kept:,} of {corpus.read:,} pairs added"
    yield from count_lines(_rows(report.corpora))
    yield from _skipped_and_repaired(report)


def _skipped_and_repaired(report: Report) -> Iterator[str]:
    for corpus in report.corpora:
        if corpus.skipped:
            yield from _wrapped(skipped_units(f"{corpus.key} {corpus.corpus}", corpus.skipped))
    if report.repaired:
        kinds = ", ".join(f"{REPAIRS[kind]} {n:,}" for kind, n in report.repaired.items())
        yield from _wrapped(f"repaired: {kinds}")


def _rows(sources: Sequence[SourceReport], indent: str = "") -> _Rows:
    return {f"{indent}{source.key} {source.corpus}": (source.read, source.kept, source.dropped) for source in sources}


def count_lines(rows: _Rows) -> Iterator[str]:
    """Yield a table of pairs read, kept and dropped; long lists of reasons are on a line of their own below."""
    width = min(max(map(len, rows)), _WIDEST_NAME)
    yield f"{'split':<{width}}  {'read':>11}  {'kept':>11}  {'dropped':>11}"
    for name, (read, kept, dropped) in rows.items():
        if len(name) > width:
            yield name
            name = ""
        counts = f"{name:<{width}}  {read:>11,}  {kept:>11,}  {read - kept:>11,}"
        line = f"{counts}  {counted(dropped)}".rstrip()
        if len(line) <= COLUMNS:
            yield line
        else:
            yield counts
            yield from textwrap.wrap(counted(dropped), COLUMNS, initial_indent="    ", subsequent_indent="    ")


def length_of_pieces(language: str, counts: TextRecord) -> str:
    """Format the mean length of pieces, and the shares of single bytes and unknown pieces.

    The length is in pieces per word, or in characters per piece where spaces do not separate words.
    """
    if not is_spaced(language) or counts.characters > _LONG_WORD * counts.words:
        length = f"{counts.characters / counts.pieces:.2f} characters per piece"
    else:
        length = f"{counts.pieces / counts.words:.2f} pieces per word"
    single, unknown = counts.bytes / counts.pieces, counts.unknown / counts.pieces
    return f"{length}; of the pieces {single:.2%} are single bytes, {unknown:.2%} unknown"


def _shares(classes: Mapping[str, int]) -> str:
    """Format the number of pairs of each label, the most frequent labels first."""
    most = sorted(classes, key=lambda label: -classes[label])
    shown = ", ".join(f"{label} {classes[label]:,} ({classes[label] / sum(classes.values()):.1%})"
                      for label in most[:_MOST_LABELS])  # fmt: skip
    more = f" and {len(most) - _MOST_LABELS:,} more" if len(most) > _MOST_LABELS else ""
    return f"{len(most):,} labels, {shown}{more}"


def _split_off(split_off: SplitOffRecord, n_pairs: int) -> str:
    asked = split_off.asked
    method = f"a share of {asked:g}"
    if isinstance(asked, int):
        method = f"{asked:,} lines, but at most a tenth"
        if n_pairs > min(asked, max(1, split_off.of // 10)):
            method += f"; more, so that documents, or blocks of {BLOCK} pairs, stay whole"
    left_out = f"; {split_off.left_out:,} that share a side with them were left out" if split_off.left_out else ""
    return f"{n_pairs:,} of {split_off.of:,} training pairs, split off by a hash of their text ({method}){left_out}"


_N_SAMPLES = 3


def screen(report: Report) -> Iterator[str]:
    """Yield the lines of the report on a dry run: the table, samples of dropped pairs, and warnings."""
    yield from _counts(report)
    for reason, n in report.dropped.items():
        if samples := list(_samples(report, reason)):
            yield ""
            yield f"{REASONS[reason]}: {n:,} of {report.read:,} pairs ({n / report.read:.1%}), such as"
            yield from samples
    yield ""
    for warning in report.warnings:
        yield from _wrapped(f"warning: {warning}")
    if report.sample is not None:
        yield f"at most {report.sample:,} pairs of each corpus were read, so most duplicates were not found"
    more = ", and no development set was split off" if report.sample is not None else ""
    yield from _wrapped(f"nothing was prepared; pairs with too many pieces were not dropped{more}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _samples(report: Report, reason: str) -> Iterator[str]:
    """Yield the first samples for a reason, from each corpus in turn."""
    samples = [
        (number, corpus, sample)
        for corpus in report.corpora
        for number, sample in enumerate(corpus.dropped_samples.get(reason, []))
    ]
    for _, corpus, sample in sorted(samples, key=lambda numbered: numbered[0])[:_N_SAMPLES]:
        yield f"  {corpus.corpus}, pair {sample['line']:,}"
        for language in report.languages:
            yield f"    {language}  {printable_sentence(str(sample[language]))}"[:COLUMNS].rstrip()
