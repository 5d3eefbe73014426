"""The report on a preparation: counts of the pairs read, kept and dropped for each training corpus, with samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from nmt.config import DataConfig
from nmt.config.data import LABEL
from nmt.data.manifest import CleanRecord, SourceRecord, TextRecord
from nmt.files.document import Document
from nmt.prepare.cleaning.counts import (
    CHARS,
    RATIOS,
    REASONS,
    REPAIRS,
    CleanReport,
    Lengths,
    drop_summary,
    summed,
    total,
)
from nmt.prepare.cleaning.filters import UNSUPPORTED, supports
from nmt.prepare.pipeline.settle import TrainingText
from nmt.prepare.suspicions import Sample, script_counts, suspicions
from nmt.tasks.perform import Json
from nmt.text.vocabularies import Tokenizers


class Histograms(Document):
    """Histograms of the lengths of pairs. Bin i covers edges[i - 1] up to, but without, edges[i]; the last bin is open.

    The edges are in the report.
    """

    characters: dict[str, list[int]]
    """By language, pairs by the length of that side."""
    ratio: list[int]
    """Pairs with text on both sides, by the length of the second side divided by that of the first."""


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
    dropped_samples: dict[str, list[dict[str, str | int]]]
    """A few of the dropped pairs by reason: line, and the text by language."""


class CorpusReport(SourceReport):
    """The report on a training corpus."""

    skipped: dict[str, int]
    """Units of the files that are not one pair, by reason."""
    repaired_samples: dict[str, list[dict[str, str | int]]]
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


class Report(Document):
    """The report on a preparation or on a dry run."""

    kind: Literal["prepared", "dry run"]
    sample: int | None
    """Maximum number of pairs read from each corpus, spread over it; None if all were read."""
    languages: Annotated[tuple[str, str], Field(strict=False)]
    """In alphabetical order."""
    corpora: list[CorpusReport]
    held_out: dict[str, int]
    """Number of pairs of the development set and of each test set, which are not cleaned."""
    warnings: list[str]
    settings: dict[str, object]
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
) -> Report:
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
    return Report(languages=data.pair, corpora=corpora, warnings=warnings, **fields)


def clean_record(reports: Iterable[CleanReport]) -> CleanRecord:
    """Return the sum of the counts of reports."""
    report = total(reports)
    return CleanRecord(read=report.read, kept=report.kept, dropped=report.dropped_in_order)


def counted_source(record: SourceRecord, report: CleanReport, skipped: Mapping[str, int]) -> SourceRecord:
    """Return the record of a source with the counts of its pairs."""
    counts: dict[str, object] = {"read": report.read, "kept": report.kept, "dropped": report.dropped_in_order}
    if skipped:
        counts["skipped"] = skipped
    if report.repaired:
        counts["repaired"] = report.repaired
    return record.model_copy(update=counts)


def corpus_reports(
    reports: Mapping[str, CleanReport],
    records: Mapping[str, SourceRecord],
    samples: Mapping[str, Sample],
    languages: tuple[str, str],
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
        sides = zip(*sample.pairs, strict=True) if sample.pairs else [(), ()]
        corpora.append(
            CorpusReport(
                **_source_fields(key, records[key], counts, languages),
                skipped=records[key].skipped or {},
                repaired_samples={
                    kind: [{"line": line, "before": before, "after": after} for line, before, after in samples]
                    for kind, samples in counts.repaired_samples.items()
                },
                kept_samples=[
                    _sample(languages, *sample[1:]) for sample in sorted(counts.kept_samples, key=lambda kept: kept[1])
                ],
                lengths_read=_histograms(languages, counts.read_lengths),
                lengths_kept=_histograms(languages, counts.kept_lengths),
                scripts={
                    language: script_counts(lines)
                    for language, lines in zip(languages, sides, strict=True)
                    if language != LABEL
                },
                identified=counts.mix,
            )
        )
    return corpora


def mono_report(record: SourceRecord, key: str, language: str, counts: CleanReport) -> MonoReport:
    """Return the report on a source of monolingual text."""
    return MonoReport(**_source_fields(key, record, counts, [language]), language=language)


def tokenizer_report(tokenizers: Tokenizers, text: dict[str, TextRecord]) -> TokenizerReport:
    """Return the report on tokenizers. `text`: counts of the training text by language."""
    pieces = {language: tokenizers[language].n_pieces for language in tokenizers.languages if language != LABEL}
    return TokenizerReport(joint=tokenizers.joint, pieces=pieces, text=text)


def _source_fields(key: str, record: SourceRecord, counts: CleanReport, languages: Sequence[str]) -> Json:
    """Return the fields of a `SourceReport`."""
    return {
        "key": key, "corpus": record.corpus, "read": counts.read, "kept": counts.kept,
        "dropped": counts.dropped_in_order, "repaired": counts.repaired,
        "dropped_samples": {
            reason: [_sample(languages, *sample) for sample in counts.samples[reason]]
            for reason in counts.dropped_in_order
            if reason != "valid"  # these pairs are not lost
        },
    }  # fmt: skip


def _histograms(languages: Sequence[str], lengths: Lengths) -> Histograms:
    return Histograms(characters=dict(zip(languages, (lengths.src, lengths.tgt), strict=True)), ratio=lengths.ratio)


def _sample(languages: Sequence[str], line: int, *texts: str) -> dict[str, str | int]:
    return {"line": line, **dict(zip(languages, texts, strict=False))}
