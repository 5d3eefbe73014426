"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text goes through the stages of `nmt.prepare.pipeline`, in as many processes as its engine has; what has been
done is not done again when a preparation that was stopped is repeated. The directory appears only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmt.config import Config, Source
from nmt.config.source import HubSource
from nmt.console import show
from nmt.data.corpus import FORMAT, SHARDED_FORMAT, Corpus, Manifest, SourceRecord
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import total
from nmt.prepare.held_out import read_held_out, with_classes, write_held_out
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.pipeline.encode import link_files
from nmt.prepare.pipeline.mono import EncodedMono, clean_mono, encode_mono
from nmt.prepare.pipeline.run import EncodedText, TrainingText, encode_text, make_vocabulary, settle_text
from nmt.prepare.pipeline.work import SIZES, Sizes, Work, building
from nmt.prepare.recipe import Recipe, changes_since, check_replaceable, check_unneeded, recipe, reused_tokenizers
from nmt.prepare.records import (
    CleanRecord,
    PreparedMono,
    PreparedSplit,
    PreparedTokenizers,
    SplitOffRecord,
    content_fingerprint,
    counted_source,
    file_facts,
    samples_of,
    write_manifest,
)
from nmt.prepare.reporting.page import write_report
from nmt.prepare.reporting.report import MonoReport, Report, corpus_reports, mono_report, tokenizer_report
from nmt.prepare.reporting.screen import corpus_warnings, table
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.suspicions import Sample
from nmt.tasks.perform import Engine
from nmt.tasks.processes import InProcess
from nmt.text.profile import Profiles
from nmt.text.tokenizer import Tokenizers


def prepare(
    config: Config,
    data_dir: Path,
    tokenizer_from: Path | None = None,
    echo: Callable[[str], None] = show,
    engine: Engine | None = None,
    sizes: Sizes = SIZES,
    force: bool = False,
) -> None:
    """Make the data directory of a config, unless it exists and is up to date.

    Args:
        tokenizer_from: a run or data directory whose vocabulary is taken instead of learning one.
        engine: does the work; by default this process.
        sizes: how the work is divided.
        force: replace a directory of other languages, or one that runs were trained on.

    Raises DataError for sources, an empty corpus, or a directory that is not to be replaced; HubError for the hub;
    LockedError if another process prepares it.
    """
    directory = DataDir(data_dir)
    reused = reused_tokenizers(tokenizer_from, config) if tokenizer_from is not None else None
    wanted = recipe(config, reused)
    check_replaceable(directory)
    reasons = changes_since(directory, wanted, config)
    if reasons == []:
        _echo_up_to_date(directory, config, echo)
        return
    if reasons:
        if not force:
            check_unneeded(directory, config, reasons)
        echo(f"preparing {data_dir} again: {'; '.join(reasons)}")
    root = text_folder(config.data.root)
    if root != Path(config.data.root):
        echo(f"no {config.data.root} here: using the sample corpus shipped with nmt, {root}")
    sources = {key: open_source(source, config.data.languages, root) for key, source in config.data.sources()}
    mono = {key: open_source(source, (name, name), root) for key, name, source in config.data.mono_sources()}
    with building(data_dir) as (folder, staged):
        work = Work(folder, engine or InProcess(), sizes)
        build = _Build(config, work, sources, mono, reused)
        report = build.write(staged, wanted)
    for line in report:
        echo(line)
    if build.splits["train"].clean.samples:
        where = f"splits.train.clean.samples in {directory.manifest}"
        echo(f"examples of dropped pairs, with corpus and line: {where}")
    _echo_warnings(build.warnings, echo)
    echo(f"report: {directory.report_page}")
    echo(f"wrote {data_dir}")


def _echo_up_to_date(directory: DataDir, config: Config, echo: Callable[[str], None]) -> None:
    corpus = Corpus.open(directory)
    n = corpus.split("train").n
    data = config.data
    sources = [*(source for _, source in data.sources()), *(source for *_, source in data.mono_sources())]
    has_hub = any(isinstance(source, HubSource) for source in sources)
    hub = "; the hub was not contacted, since its sources are configured as before" if has_hub else ""
    echo(f"{directory.path} is up to date with {n:,} training pairs: nothing to do{hub}")
    _echo_warnings(corpus.manifest.warnings, echo)


def _echo_warnings(warnings: Iterable[str], echo: Callable[[str], None]) -> None:
    for warning in warnings:
        echo(f"warning: {warning}")


@dataclass
class _Build:
    """Writes one data directory, and collects what its manifest records."""

    config: Config
    work: Work
    sources: dict[str, OpenSource]
    mono_sources: dict[str, OpenSource]
    reused: Tokenizers | None
    splits: dict[str, PreparedSplit] = field(default_factory=dict)
    mono: dict[str, PreparedMono] = field(default_factory=dict)
    mono_reports: list[MonoReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.records: dict[str, SourceRecord] = {key: source.record for key, source in self.sources.items()}
        self.train_keys = [f"train.{i}" for i in range(len(self.config.data.train))]

    def write(self, directory: DataDir, wanted: Recipe) -> list[str]:
        """Write everything. Returns the lines of the report."""
        data = self.config.data
        held_out = self._read_held_out()
        pairs = [pair for split in held_out.values() for pair in split]
        text = settle_text(self.work, data, {key: self.sources[key] for key in self.train_keys}, pairs)
        self._check_corpora(text, held_out)
        if text.split_off is not None:
            held_out = {"valid": text.split_off, **held_out}
        mono = clean_mono(self.work, data, self.mono_sources, [pair for split in held_out.values() for pair in split])
        tokenizers = make_vocabulary(self.work, self.config, text, self.reused, mono)
        if not data.has_labels:
            sampled = [pair for sample in self.samples.values() for pair in sample.pairs]
            tokenizers = replace(tokenizers, profiles=Profiles.of(data.languages, sampled))
        tokenizers.save(directory.tokenizer)
        encoded = encode_text(self.work, data, text)
        encoded.put_into(directory)
        self._record_training(text, encoded, tokenizers)
        for language, own in encode_mono(self.work, data, mono).items():
            link_files([own.done], directory.path)
            self._record_mono(language, own)
        for name, pairs in held_out.items():
            self.splits[name] = write_held_out(directory, name, pairs, tokenizers)
        if not isinstance(data.valid, Source):
            left_out = sum(report.dropped.get("shared", 0) for report in encoded.reports)
            split_off = SplitOffRecord(asked=data.valid, of=text.n_offered, left_out=left_out)
            self.splits["valid"] = self.splits["valid"].model_copy(update={"split_off": split_off})
        self._write_manifest(directory, wanted, tokenizers)
        write_report(directory.path, self._report(encoded, wanted, tokenizers))
        asked = None if self.reused else self.config.tokenizer.vocab_size
        return list(table(self.splits, self.records, tokenizers, asked))

    def _record_training(self, text: TrainingText, encoded: EncodedText, tokenizers: Tokenizers) -> None:
        """Record the training set and its sources."""
        for key, report, skipped in zip(self.train_keys, encoded.reports, text.skipped, strict=True):
            self.records[key] = counted_source(self.records[key], report, skipped)
        labels = [source.label for source in self.config.data.train]
        report = total(encoded.reports)
        clean = CleanRecord(
            read=report.read,
            kept=report.kept,
            dropped=report.dropped_in_order,
            samples=samples_of(encoded.reports, labels, self.config.data.languages),
        )
        train = PreparedSplit(pairs=encoded.pairs, clean=clean, text=encoded.text)
        train = with_classes(train, encoded.classes, tokenizers.labels)
        self.splits["train"] = train if encoded.shards is None else train.model_copy(update={"shards": encoded.shards})

    def _record_mono(self, language: str, encoded: EncodedMono) -> None:
        """Record the monolingual text of a language and its sources."""
        own: list[MonoReport] = []
        for number, report in enumerate(encoded.reports):
            key = f"mono.{language}.{number}"
            self.records[key] = counted_source(self.mono_sources[key].record, report, {})
            own.append(mono_report(self.records[key], key, language, report))
        counts = total(encoded.reports)
        samples: dict[str, list[dict[str, str | int]]] = {
            reason: [
                {"source": each.key, "corpus": each.corpus, **sample}
                for each in own
                for sample in each.dropped_samples.get(reason, [])
            ]
            for reason in counts.dropped_in_order
        }
        clean = CleanRecord(read=counts.read, kept=counts.kept, dropped=counts.dropped_in_order, samples=samples)
        self.mono[language] = PreparedMono(
            lines=encoded.lines, documents=encoded.documents, clean=clean, text=encoded.text
        )
        self.mono_reports += own

    def _read_held_out(self) -> dict[str, list[SentencePair]]:
        """Read the development and test sets, by split."""
        held_out = read_held_out(self.sources, self.warnings)
        for key, pairs in held_out.items():
            self.records[key] = self.records[key].model_copy(update={"read": len(pairs)})
            self._count_skipped(key)
        return {key.removeprefix("test."): pairs for key, pairs in held_out.items()}

    def _count_skipped(self, key: str) -> None:
        """Record the units of a source that were no pair, now that it has been read."""
        if skipped := self.sources[key].units.skipped:
            self.records[key] = self.records[key].model_copy(update={"skipped": dict(skipped)})

    def _check_corpora(self, text: TrainingText, held_out: dict[str, list[SentencePair]]) -> None:
        """Warn of corpora of which no pair is kept, and of those whose sides are not in their languages."""
        self.samples = text.samples()
        others = {
            "valid" if name == "valid" else f"test.{name}": Sample.of((pair.src, pair.tgt) for pair in pairs)
            for name, pairs in held_out.items()
        }
        reports = dict(zip(self.train_keys, text.reports, strict=True))
        names = {key: record.corpus for key, record in self.records.items()}
        self.warnings += text.warnings + corpus_warnings(
            reports, self.samples | others, self.config.data.languages, names
        )

    def _report(self, encoded: EncodedText, wanted: Recipe, tokenizers: Tokenizers) -> Report:
        reports = dict(zip(self.train_keys, encoded.reports, strict=True))
        return Report(
            kind="prepared",
            sample=None,
            languages=self.config.data.languages,
            corpora=corpus_reports(reports, self.records, self.samples, self.config.data.languages),
            held_out={name: split.pairs for name, split in self.splits.items() if name != "train"},
            warnings=self.warnings,
            settings=wanted,
            tokenizer=tokenizer_report(tokenizers, encoded.text),
            mono=self.mono_reports,
            classes={name: split.classes for name, split in self.splits.items() if split.classes},
        )

    def _write_manifest(self, directory: DataDir, wanted: Recipe, tokenizers: Tokenizers) -> None:
        files = file_facts(directory.path)
        manifest = Manifest(
            format=FORMAT if self.splits["train"].shards is None else SHARDED_FORMAT,
            languages=self.config.data.languages,
            fingerprint=content_fingerprint(files),
            config=wanted,
            tokenizer=PreparedTokenizers(
                fingerprint=tokenizers.fingerprint, joint=tokenizers.joint, pieces=tokenizers.sizes
            ),
            sources=self.records,
            splits=dict(self.splits),
            warnings=self.warnings,
            files=files,
        )
        write_manifest(directory, manifest.model_copy(update={"mono": self.mono}) if self.mono else manifest)
