"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text goes through the stages of `nmt.prepare.pipeline`, in as many processes as the engine has. A preparation
that was stopped continues where it was when it is repeated. The directory appears only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from nmt.config import Config, Source
from nmt.console import show
from nmt.data.corpus import FORMAT, SHARDED_FORMAT, Corpus, Manifest, SourceRecord
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir
from nmt.prepare.held_out import read_held_out, with_classes, write_held_out
from nmt.prepare.pairs import OpenSource
from nmt.prepare.pipeline.encode import encode_text, link_files, make_tokenizers
from nmt.prepare.pipeline.mono import MonoText, clean_mono, encode_mono
from nmt.prepare.pipeline.settle import settle_text
from nmt.prepare.pipeline.work import SIZES, Sizes, Work, building
from nmt.prepare.recipe import Recipe, changes_since, check_replaceable, check_unneeded, recipe, reused_tokenizers
from nmt.prepare.records import (
    CleanRecord,
    PreparedMono,
    PreparedSplit,
    PreparedTokenizers,
    SplitOffRecord,
    TextRecord,
    content_fingerprint,
    counted_source,
    file_facts,
    write_manifest,
)
from nmt.prepare.reporting.page import write_report
from nmt.prepare.reporting.report import MonoReport, Report, corpus_reports, mono_report, tokenizer_report
from nmt.prepare.reporting.screen import corpus_warnings, table
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.suspicions import samples_of
from nmt.tasks.perform import Engine
from nmt.tasks.processes import InProcess
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
    """Prepare the data directory of a config, unless it exists and is up to date.

    Args:
        tokenizer_from: a run or data directory whose vocabulary is used, so that none is learned.
        engine: runs the tasks; by default, this process does.
        sizes: how the work is divided.
        force: whether a directory of other languages, or one on which runs were trained, is replaced.

    Raises DataError for bad sources, an empty corpus, or a directory that may not be replaced, HubError if a download
    fails, and LockedError if another process prepares the directory.
    """
    directory = DataDir(data_dir)
    reused = reused_tokenizers(tokenizer_from, config) if tokenizer_from is not None else None
    wanted = recipe(config, reused)
    check_replaceable(directory)
    reasons = changes_since(directory, wanted, config)
    if reasons == []:
        _echo_up_to_date(directory, echo)
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
    for line in table(report, build.splits, None if reused else config.tokenizer.vocab_size):
        echo(line)
    echo_end(report.warnings, directory, echo)


def _echo_up_to_date(directory: DataDir, echo: Callable[[str], None]) -> None:
    corpus = Corpus.open(directory)
    n = corpus.split("train").n
    echo(f"{directory.path} is up to date with {n:,} training pairs: nothing to do")
    for warning in corpus.manifest.warnings:
        echo(f"warning: {warning}")


@dataclass
class _Build:
    """A data directory that is being written, and the records for its manifest."""

    config: Config
    work: Work
    sources: dict[str, OpenSource]
    mono_sources: dict[str, OpenSource]
    reused: Tokenizers | None
    splits: dict[str, PreparedSplit] = field(default_factory=dict)
    mono: dict[str, PreparedMono] = field(default_factory=dict)
    mono_reports: list[MonoReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.records: dict[str, SourceRecord] = {key: source.record for key, source in self.sources.items()}

    def write(self, directory: DataDir, wanted: Recipe) -> Report:
        """Write all files of the data directory, and return the report."""
        data = self.config.data
        train = {key: source for key, source in self.sources.items() if key.startswith("train.")}
        held_out, warnings = read_held_out(self.sources)
        for key, pairs in held_out.items():
            skipped = dict(self.sources[key].units.skipped)
            counts = {"read": len(pairs), **({"skipped": skipped} if skipped else {})}
            self.records[key] = self.records[key].model_copy(update=counts)
        text = settle_text(self.work, data, train, list(chain.from_iterable(held_out.values())))
        others = samples_of(held_out)
        if text.split_off is not None:
            held_out = {"valid": text.split_off, **held_out}
        mono = clean_mono(self.work, data, self.mono_sources, list(chain.from_iterable(held_out.values())))
        folders = {language: (own.done.folder, own.lines) for language, own in mono.items()}
        tokenizers = make_tokenizers(self.work, self.config, text, self.reused, folders)
        for key, source in data.sources():
            try:
                tokenizers.check_tags(source.tag_names)
            except DataError as error:
                raise ConfigError([f"data.{key}.tags: {error}"]) from error
        tokenizers.save(directory.tokenizer)
        encoded = encode_text(self.work, data, text)
        link_files(encoded.files, directory.path)
        for key, own_report, skipped in zip(train, encoded.reports, text.skipped, strict=True):
            self.records[key] = counted_source(self.records[key], own_report, skipped)
        split = PreparedSplit(pairs=encoded.pairs, clean=CleanRecord.of(encoded.reports), text=encoded.text)
        split = with_classes(split, encoded.classes, tokenizers.labels)
        self.splits["train"] = split if encoded.shards is None else split.model_copy(update={"shards": encoded.shards})
        for language, own in encode_mono(self.work, data, mono).items():
            link_files([own.done], directory.path)
            self._record_mono(language, own)
        for key, pairs in held_out.items():
            name = key.removeprefix("test.")
            self.splits[name] = write_held_out(directory, name, pairs, tokenizers)
        if not isinstance(data.valid, Source):
            left_out = sum(report.dropped.get("shared", 0) for report in encoded.reports)
            split_off = SplitOffRecord(asked=data.valid, of=text.n_offered, left_out=left_out)
            self.splits["valid"] = self.splits["valid"].model_copy(update={"split_off": split_off})
        samples = text.samples()
        reports = dict(zip(train, text.reports, strict=True))
        names = {key: record.corpus for key, record in self.records.items()}
        warnings += text.warnings + corpus_warnings(reports, samples | others, data.languages, names)
        reports = dict(zip(train, encoded.reports, strict=True))
        report = Report(
            kind="prepared",
            sample=None,
            languages=data.languages,
            corpora=corpus_reports(reports, self.records, samples, data.languages),
            held_out={name: split.pairs for name, split in self.splits.items() if name != "train"},
            warnings=warnings,
            settings=wanted,
            tokenizer=tokenizer_report(tokenizers, encoded.text),
            mono=self.mono_reports,
            classes={name: split.classes for name, split in self.splits.items() if split.classes},
        )
        self._write_manifest(directory, report, tokenizers)
        write_report(directory.path, report)
        return report

    def _record_mono(self, language: str, encoded: MonoText) -> None:
        """Record the monolingual text of a language and its sources."""
        for number, report in enumerate(encoded.reports):
            key = f"mono.{language}.{number}"
            self.records[key] = counted_source(self.mono_sources[key].record, report, {})
            self.mono_reports.append(mono_report(self.records[key], key, language, report))
        summary = encoded.done.summary
        self.mono[language] = PreparedMono(
            lines=summary["lines"],
            documents=summary["documents"],
            clean=CleanRecord.of(encoded.reports),
            text=TextRecord.model_validate(summary["text"]),
        )

    def _write_manifest(self, directory: DataDir, report: Report, tokenizers: Tokenizers) -> None:
        files = file_facts(directory.path)
        manifest = Manifest(
            format=FORMAT if self.splits["train"].shards is None else SHARDED_FORMAT,
            languages=report.languages,
            fingerprint=content_fingerprint(files),
            config=report.settings,
            tokenizer=PreparedTokenizers(
                fingerprint=tokenizers.fingerprint, joint=tokenizers.joint, pieces=tokenizers.sizes
            ),
            sources=self.records,
            splits=dict(self.splits),
            warnings=report.warnings,
            files=files,
        )
        write_manifest(directory, manifest.model_copy(update={"mono": self.mono}) if self.mono else manifest)


def echo_end(warnings: Sequence[str], directory: DataDir, echo: Callable[[str], None]) -> None:
    """Print the warnings, and the paths of the data directory and its report."""
    for warning in warnings:
        echo(f"warning: {warning}")
    echo(f"report: {directory.report_page}")
    echo(f"wrote {directory.path}")
