"""The report on a preparation: what was read, kept and dropped of each training corpus, with samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from nmt.config.data import LABEL
from nmt.data.corpus import Record, SourceRecord
from nmt.prepare.cleaning.counts import CHARS, RATIOS, REASONS, REPAIRS, CleanReport, Lengths
from nmt.prepare.records import TextRecord
from nmt.prepare.suspicions import Sample, script_counts
from nmt.text.tokenizer import Tokenizers


class Histograms(Record):
    """Numbers of pairs by length. Bin i is from edge i - 1 up to, but without, edge i of the report's edges; the last
    one has no end."""

    characters: dict[str, list[int]]
    """By language, by the length of that side."""
    ratio: list[int]
    """By the length of the second side divided by that of the first, of pairs with text on both."""


class CorpusReport(Record):
    """A training corpus."""

    key: str
    """Its key in `data`: train.0."""
    corpus: str
    read: int
    kept: int
    dropped: dict[str, int]
    """Pairs by reason, in the order in which reasons are tried."""
    skipped: dict[str, int]
    """Units of the files that are no pair, by reason."""
    repaired: dict[str, int]
    """Pairs by kind of repair, also of those that were dropped after it."""
    repaired_samples: dict[str, list[dict[str, str | int]]]
    """A few of their sides by kind of repair: line, before, after."""
    dropped_samples: dict[str, list[dict[str, str | int]]]
    """A few of the dropped pairs by reason: line, and the text by language."""
    kept_samples: list[dict[str, str | int]]
    """A few of the pairs kept, spread over the corpus."""
    lengths_read: Histograms
    lengths_kept: Histograms
    scripts: dict[str, dict[str, int]]
    """By language, how many lines of a sample of the cleaned text are mostly in a script."""
    identified: dict[str, dict[str, int]]
    """By language, how many lines were identified as which language; empty if that is not in the config."""


class MonoReport(Record):
    """A source of monolingual text; fields as in `CorpusReport`, of lines."""

    key: str
    """Its key in `data`: mono.en.0."""
    corpus: str
    language: str
    read: int
    kept: int
    dropped: dict[str, int]
    repaired: dict[str, int]
    dropped_samples: dict[str, list[dict[str, str | int]]]


class TokenizerReport(Record):
    """The vocabulary or vocabularies."""

    joint: bool
    pieces: dict[str, int]
    """Vocabulary size by language."""
    text: dict[str, TextRecord]
    """Counts of the training text by language."""


class Report(Record):
    """The report on the training text, of a preparation or of a dry run."""

    kind: Literal["prepared", "dry run"]
    sample: int | None
    """Maximum number of pairs that were read of each corpus, spread over it; None: all."""
    languages: tuple[str, str]
    """In alphabetical order."""
    corpora: list[CorpusReport]
    held_out: dict[str, int]
    """Pairs of the development set and of each test set, which are not cleaned."""
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
        """`languages` without labels."""
        return [language for language in self.languages if language != LABEL]

    @property
    def dropped(self) -> dict[str, int]:
        """Pairs dropped of all training corpora by reason, in the order in which reasons are tried."""
        return summed((corpus.dropped for corpus in self.corpora), REASONS)

    @property
    def repaired(self) -> dict[str, int]:
        """Pairs repaired of all training corpora by kind, in the order in which repairs are made."""
        return summed((corpus.repaired for corpus in self.corpora), REPAIRS)

    @property
    def read(self) -> int:
        """Pairs read of all training corpora."""
        return sum(corpus.read for corpus in self.corpora)

    @property
    def kept(self) -> int:
        """Pairs kept of all training corpora."""
        return sum(corpus.kept for corpus in self.corpora)


def summed(counts: Iterable[Mapping[str, int]], order: Iterable[str]) -> dict[str, int]:
    """Return the sums of counts by kind, in this order."""
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return {kind: total[kind] for kind in order if kind in total}


def corpus_reports(
    reports: Mapping[str, CleanReport],
    records: Mapping[str, SourceRecord],
    samples: Mapping[str, Sample],
    languages: tuple[str, str],
) -> list[CorpusReport]:
    """Return the reports on training corpora.

    Args:
        reports: by the keys of the corpora.
        records, samples: those of all corpora, and of their cleaned text, by key.
    """
    found = []
    for key, counts in reports.items():
        sample = samples.get(key, Sample())
        sides = zip(*sample.pairs, strict=True) if sample.pairs else [(), ()]
        found.append(
            CorpusReport(
                key=key,
                corpus=records[key].corpus,
                read=counts.read,
                kept=counts.kept,
                dropped=counts.dropped_in_order,
                skipped=records[key].skipped or {},
                repaired=counts.repaired,
                repaired_samples={
                    kind: [{"line": line, "before": before, "after": after} for line, before, after in samples]
                    for kind, samples in counts.repaired_samples.items()
                },
                dropped_samples=_dropped_samples(counts, languages),
                kept_samples=[
                    _sample(languages, *sample[1:]) for sample in sorted(counts.kept_samples, key=lambda one: one[1])
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
    return found


def mono_report(record: SourceRecord, key: str, language: str, counts: CleanReport) -> MonoReport:
    """Return the report on a source of monolingual text."""
    return MonoReport(
        key=key, corpus=record.corpus, language=language, read=counts.read, kept=counts.kept,
        dropped=counts.dropped_in_order, repaired=counts.repaired,
        dropped_samples=_dropped_samples(counts, [language]),
    )  # fmt: skip


def tokenizer_report(tokenizers: Tokenizers, text: dict[str, TextRecord]) -> TokenizerReport:
    """Return the report on tokenizers. `text`: counts of the training text by language."""
    pieces = {language: len(tokenizers[language]) for language in tokenizers.languages if language != LABEL}
    return TokenizerReport(joint=tokenizers.joint, pieces=pieces, text=text)


def _histograms(languages: Sequence[str], lengths: Lengths) -> Histograms:
    return Histograms(characters=dict(zip(languages, (lengths.src, lengths.tgt), strict=True)), ratio=lengths.ratio)


def _dropped_samples(counts: CleanReport, languages: Sequence[str]) -> dict[str, list[dict[str, str | int]]]:
    return {
        reason: [_sample(languages, *sample) for sample in counts.samples[reason]]
        for reason in counts.dropped_in_order
        if reason != "valid"  # they are not lost
    }


def _sample(languages: Sequence[str], line: int, *texts: str) -> dict[str, str | int]:
    return {"line": line, **dict(zip(languages, texts, strict=False))}
