"""The report on a preparation: counts of the pairs read, kept and dropped for each training corpus, with samples.

It is formatted here for the screen, and as files in `report_page.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pydantic import Field

from nmt.console import columns, folded, printable_sentence
from nmt.data.manifest import CleanRecord, Recipe, RecordedPair, SourceRecord, SplitOffRecord, SplitRecord, TextRecord
from nmt.data.settings import DataConfig
from nmt.files.document import Document
from nmt.languages.codes import is_spaced
from nmt.languages.directions import LABEL, LanguagePair
from nmt.prepare.cleaning.counts import (
    CHARS,
    RATIOS,
    REASONS,
    REPAIRS,
    CleanReport,
    LengthCounts,
    counted,
    drop_summary,
    skipped_units,
    summed,
    total,
)
from nmt.prepare.cleaning.filters import UNSUPPORTED, supports
from nmt.prepare.pipeline.settle import TrainingText
from nmt.prepare.pipeline.work import DOCUMENT_BLOCK
from nmt.prepare.suspicions import script_counts, suspicions
from nmt.tables import wrapped
from nmt.tasks.perform import Json
from nmt.text.pairing import Sample
from nmt.text.vocabularies import Tokenizers
from nmt.text.words import beginning

_Samples: TypeAlias = dict[str, list[dict[str, str | int]]]


class Histograms(Document):
    """Histograms of the lengths of pairs. Bin i covers edges[i - 1] up to, but without, edges[i]; the last bin is open.

    The edges are in the report.
    """

    characters: dict[str, list[int]]
    """By language, pairs by the length of that side."""
    ratio: list[int]
    """Pairs with text on both sides, by the length of the second side divided by the first side's."""


class SourceReport(Document):
    """The counts of a source, in pairs or in lines of monolingual text."""

    key: str
    """Its key in `data`: train.0 or mono.en.0."""
    corpus: str
    read: int
    kept: int
    dropped: dict[str, int]
    """Pairs by reason, in the order in which reasons are tried."""
    repaired: dict[str, int]
    """Pairs by kind of repair, including pairs that were dropped after it."""
    dropped_samples: _Samples
    """A few of the dropped pairs by reason: line, and the text by language."""


class CorpusReport(SourceReport):
    """The report on a training corpus."""

    skipped: dict[str, int]
    """Units of the files that are not one pair, by reason."""
    repaired_samples: _Samples
    """A few repaired sides by kind of repair: line, before, after."""
    kept_samples: list[dict[str, str | int]]
    """A few of the kept pairs, spread over the corpus."""
    lengths_read: Histograms
    lengths_kept: Histograms
    scripts: dict[str, dict[str, int]]
    """By language, the number of lines by predominant script, in a sample of the cleaned text."""
    identified: dict[str, dict[str, int]]
    """By language, the number of lines by identified language; empty without language identification."""


class MonoReport(SourceReport):
    """The report on a source of monolingual text."""

    language: str


class TokenizerReport(Document):
    """The report on the vocabulary or vocabularies."""

    joint: bool
    pieces: dict[str, int]
    """Vocabulary size by language."""
    text: dict[str, TextRecord]
    """Counts of the training text by language."""


class PreparationReport(Document):
    """The report on a preparation or on a dry run."""

    kind: Literal["prepared", "dry run"]
    sample: int | None
    """Maximum number of pairs read from each corpus, spread over it; None if all were read."""
    languages: RecordedPair
    """In alphabetical order."""
    corpora: list[CorpusReport]
    held_out: dict[str, int]
    """Number of pairs of the development set and of each test set, which are not cleaned."""
    warnings: list[str]
    settings: Recipe
    """The recipe, see `nmt.prepare.recipe`."""
    tokenizer: TokenizerReport | None = None
    mono: list[MonoReport] = Field([])
    """Sources of monolingual text; left out of report.json if there are none."""
    classes: dict[str, dict[str, int]] = Field({})
    """Number of pairs by split and label; left out of report.json if there are no labels."""
    character_edges: list[int] = CHARS
    ratio_edges: list[float] = RATIOS

    @property
    def text_languages(self) -> list[str]:
        """The languages of the corpus, without labels."""
        return [language for language in self.languages if language != LABEL]

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped pairs of all training corpora by reason, in the order in which reasons are tried."""
        return summed((corpus.dropped for corpus in self.corpora), REASONS)

    @property
    def repaired(self) -> dict[str, int]:
        """The number of repaired pairs of all training corpora by kind, in the order in which repairs are applied."""
        return summed((corpus.repaired for corpus in self.corpora), REPAIRS)

    @property
    def read(self) -> int:
        """The number of pairs read from all training corpora."""
        return sum(corpus.read for corpus in self.corpora)

    @property
    def kept(self) -> int:
        """The number of pairs kept from all training corpora."""
        return sum(corpus.kept for corpus in self.corpora)


def make_report(
    data: DataConfig,
    text: TrainingText,
    reports: Mapping[str, CleanReport],
    records: dict[str, SourceRecord],
    samples: Mapping[str, Sample],
    warnings: Sequence[str] = (),
    **fields: Any,
) -> PreparationReport:
    """Return the report on a training text, and add the counts of its corpora to their records.

    Args:
        reports: counts of the corpora, by key.
        records: records of sources, by key.
        samples: samples of the cleaned text, and of the development and test sets, by key.
        warnings: earlier warnings.
        fields: the other fields of the report.
    """
    for key, report in reports.items():
        records[key] = counted_source(records[key], report, text.skipped[key])
    names = {key: record.corpus for key, record in records.items()}
    warnings = [*warnings, *text.warnings]
    asked = {reason for key in reports for reason in data.clean_of(key).drop or ()}
    for language in data.text_languages:
        unsupported = [reason for reason in UNSUPPORTED if reason in asked and not supports(language, reason)]
        if unsupported:
            reasons = ", ".join(f"{reason} ({UNSUPPORTED[reason]})" for reason in unsupported)
            warnings.append(f"data.clean, {language}: not checked: {reasons}; other steps: checked")
    for key, report in reports.items():
        if report.kept == 0:
            why = drop_summary(report) if report.read else "0 pairs were read"
            warnings.append(f"data.{key} ({names[key]}): none of its pairs is kept: {why}")
    warnings += suspicions(samples, samples.keys() - reports.keys(), data.pair, names, data.clean.repair or ())
    corpora = corpus_reports(reports, records, samples, data.pair)
    return PreparationReport(languages=data.pair, corpora=corpora, warnings=warnings, **fields)


def clean_record(reports: Iterable[CleanReport]) -> CleanRecord:
    """Return the sum of the counts of reports."""
    report = total(reports)
    return CleanRecord(read=report.read, kept=report.kept, dropped=report.dropped_in_order)


def counted_source(record: SourceRecord, report: CleanReport, skipped: Mapping[str, int]) -> SourceRecord:
    """Return the record of a source with the counts of its pairs."""
    counts = {"read": report.read, "kept": report.kept, "dropped": report.dropped_in_order}
    if skipped:
        counts["skipped"] = skipped
    if report.repaired:
        counts["repaired"] = report.repaired
    return record.model_copy(update=counts)


def corpus_reports(
    reports: Mapping[str, CleanReport],
    records: Mapping[str, SourceRecord],
    samples: Mapping[str, Sample],
    languages: LanguagePair,
) -> list[CorpusReport]:
    """Return the reports on training corpora.

    Args:
        reports: counts of cleaning, by the key of the corpus.
        records: records of sources, by key.
        samples: samples of the cleaned text, by key.
    """
    corpora = []
    for key, counts in reports.items():
        sample = samples.get(key, Sample())
        text_scripts = {}
        for side, language in enumerate(languages):
            if language != LABEL:
                text_scripts[language] = script_counts((pair[side] for pair in sample.pairs), language)
        repaired_samples: _Samples = {}
        for kind, repaired in counts.repaired_samples.items():
            repaired_samples[kind] = [
                {"line": line, "before": before, "after": after} for line, before, after in repaired
            ]
        kept_samples = sorted(counts.kept_samples, key=lambda kept: kept[1])
        corpora.append(
            CorpusReport(
                **source_fields(key, records[key], counts, languages),
                skipped=records[key].skipped or {},
                repaired_samples=repaired_samples,
                kept_samples=[_sample(languages, *kept[1:]) for kept in kept_samples],
                lengths_read=_histograms(languages, counts.read_lengths),
                lengths_kept=_histograms(languages, counts.kept_lengths),
                scripts=text_scripts,
                identified=counts.mix,
            )
        )
    return corpora


def tokenizer_report(tokenizers: Tokenizers, text: dict[str, TextRecord]) -> TokenizerReport:
    """Return the report on tokenizers. `text`: counts of the training text by language."""
    pieces = {language: tokenizers[language].n_pieces for language in tokenizers.languages if language != LABEL}
    return TokenizerReport(joint=tokenizers.joint, pieces=pieces, text=text)


def source_fields(key: str, record: SourceRecord, counts: CleanReport, languages: Sequence[str]) -> Json:
    """Return the fields of a `SourceReport`."""
    dropped_samples = {}
    for reason in counts.dropped_in_order:
        if reason != "valid":  # these pairs are not lost
            dropped_samples[reason] = [_sample(languages, *sample) for sample in counts.samples[reason]]
    return {
        "key": key, "corpus": record.corpus, "read": counts.read, "kept": counts.kept,
        "dropped": counts.dropped_in_order, "repaired": counts.repaired,
        "dropped_samples": dropped_samples,
    }  # fmt: skip


def _histograms(languages: Sequence[str], lengths: LengthCounts) -> Histograms:
    return Histograms(characters=dict(zip(languages, (lengths.src, lengths.tgt), strict=True)), ratio=lengths.ratio)


def _sample(languages: Sequence[str], line: int, *texts: str) -> dict[str, str | int]:
    return {"line": line, **dict(zip(languages, texts, strict=False))}


# --- on the screen ----------------------------------------------------------------------------------

_LONG_WORD = 12  # characters; with a longer mean, spaces do not separate words, whatever the language code

_WIDEST_NAME = 40
_MOST_LABELS = 12  # shown

_Rows: TypeAlias = dict[str, tuple[int, int, Mapping[str, int]]]
"""Numbers of pairs read and kept, and of those dropped by reason, by the name of the row."""


def table(report: PreparationReport, splits: Mapping[str, SplitRecord], asked: int | None) -> Iterator[str]:
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
    yield from lengths_of_pieces(report.tokenizer)
    for name, split in splits.items():
        if trip := split.round_trip:
            others = f"; {trip.control:,} with control characters are not" if trip.control else ""
            if n_normalised := trip.lines - trip.exact - trip.control:
                others += f"; {n_normalised:,} are normalised by the tokenizer, but references stay as they are"
            yield f"{name}: {trip.exact:,} lines are decoded exactly from their pieces{others}"


def _counts(report: PreparationReport) -> Iterator[str]:
    """Yield a table of the pairs read, kept and dropped, and the numbers of skipped units and of repairs."""
    rows: _Rows = {"train": (report.read, report.kept, report.dropped)}
    if len(report.corpora) > 1:
        rows |= _rows(report.corpora, "  ")
    rows |= {name: (n, n, {}) for name, n in report.held_out.items()}
    yield from count_lines(rows | _rows(report.mono))
    yield from _skipped_and_repaired(report)


def additions(report: PreparationReport) -> Iterator[str]:
    """Yield the lines of the report on corpora that were added to a data directory."""
    for corpus in report.corpora:
        yield f"{corpus.key} {corpus.corpus}: {corpus.kept:,} of {corpus.read:,} pairs added"
    yield from count_lines(_rows(report.corpora))
    yield from _skipped_and_repaired(report)


def _skipped_and_repaired(report: PreparationReport) -> Iterator[str]:
    for corpus in report.corpora:
        if corpus.skipped:
            yield from wrapped(skipped_units(f"{corpus.key} {corpus.corpus}", corpus.skipped))
    if report.repaired:
        kinds = ", ".join(f"{REPAIRS[kind]} {n:,}" for kind, n in report.repaired.items())
        yield from wrapped(f"repaired: {kinds}")


def _rows(sources: Sequence[SourceReport], indent: str = "") -> _Rows:
    return {f"{indent}{source.key} {source.corpus}": (source.read, source.kept, source.dropped) for source in sources}


def count_lines(rows: _Rows) -> Iterator[str]:
    """Yield a table of pairs read, kept and dropped; long lists of reasons continue below."""
    width = min(max(map(len, rows)), _WIDEST_NAME)
    yield f"{'split':<{width}}  {'read':>11}  {'kept':>11}  {'dropped':>11}"
    for name, (read, kept, dropped) in rows.items():
        if len(name) > width:
            yield name
            name = ""
        counts = f"{name:<{width}}  {read:>11,}  {kept:>11,}  {read - kept:>11,}"
        yield from folded(f"{counts}  {counted(dropped)}".rstrip(), columns(sys.stdout))


def lengths_of_pieces(tokenizer: TokenizerReport) -> Iterator[str]:
    """Yield for each language the mean length of pieces, and the shares of single bytes and unknown pieces.

    The length is in pieces per word, or in characters per piece where spaces do not separate words.
    """
    for language, counts in tokenizer.text.items():
        if not is_spaced(language) or counts.characters > _LONG_WORD * counts.words:
            length = f"{counts.characters / counts.pieces:.2f} characters per piece"
        else:
            length = f"{counts.pieces / counts.words:.2f} pieces per word"
        single = counts.bytes / counts.pieces
        unknown = counts.unknown / counts.pieces
        yield f"{language}: {length}; of the pieces {single:.2%} are single bytes, {unknown:.2%} unknown"


def _shares(classes: Mapping[str, int]) -> str:
    """Format the number of pairs of each label, the most frequent labels first."""
    most = sorted(classes, key=lambda label: -classes[label])
    n_pairs = sum(classes.values())
    shown = ", ".join(f"{label} {classes[label]:,} ({classes[label] / n_pairs:.1%})" for label in most[:_MOST_LABELS])
    if len(most) > _MOST_LABELS:
        shown += f" and {len(most) - _MOST_LABELS:,} more"
    return f"{len(most):,} labels, {shown}"


def _split_off(split_off: SplitOffRecord, n_pairs: int) -> str:
    asked = split_off.asked
    method = f"a share of {asked:g}"
    if isinstance(asked, int):
        method = f"{asked:,} lines, but at most a tenth"
        if n_pairs > min(asked, max(1, split_off.of // 10)):
            method += f"; more, so that documents, or blocks of {DOCUMENT_BLOCK} pairs, stay whole"
    left_out = f"; {split_off.left_out:,} that share a side with them were left out" if split_off.left_out else ""
    return f"{n_pairs:,} of {split_off.of:,} training pairs, split off by a hash of their text ({method}){left_out}"


_N_SAMPLES = 3


def screen(report: PreparationReport) -> Iterator[str]:
    """Yield the lines of the report on a dry run: the table, samples of dropped pairs, and warnings."""
    yield from _counts(report)
    for reason, n in report.dropped.items():
        if samples := list(_first_samples(report, reason)):
            yield ""
            yield f"{REASONS[reason]}: {n:,} of {report.read:,} pairs ({n / report.read:.1%}), such as"
            yield from samples
    yield ""
    if report.tokenizer is not None:
        yield from lengths_of_pieces(report.tokenizer)
    for warning in report.warnings:
        yield from wrapped(f"warning: {warning}")
    more = ""
    if report.sample is not None:
        yield f"at most {report.sample:,} pairs of each corpus were read, so most duplicates were not found"
        more = ", and no development set was split off"
    yield from wrapped(f"nothing was prepared; pairs with too many pieces were not dropped{more}")


def _first_samples(report: PreparationReport, reason: str) -> Iterator[str]:
    """Yield the first samples for a reason, from each corpus in turn."""
    samples = []
    for corpus in report.corpora:
        samples += [(number, corpus, sample) for number, sample in enumerate(corpus.dropped_samples.get(reason, []))]
    for _, corpus, sample in sorted(samples, key=lambda numbered: numbered[0])[:_N_SAMPLES]:
        yield f"  {corpus.corpus}, pair {sample['line']:,}"
        for language in report.languages:
            line = f"    {language}  {printable_sentence(str(sample[language]))}"
            yield beginning(line, columns(sys.stdout)).rstrip()
