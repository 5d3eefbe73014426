"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text goes through the stages of `nmt.prepare.pipeline`, in as many processes as the engine has. A preparation
that was stopped continues where it was when it is repeated. The directory appears only when it is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from nmt.config import Config, DataConfig, Source
from nmt.console import show
from nmt.data.corpus import (
    FORMAT,
    PAIRS_FORMAT,
    SHARDED_FORMAT,
    Corpora,
    Manifest,
    PairsManifest,
    SourceRecord,
    read_manifest,
)
from nmt.errors import ConfigError, DataError
from nmt.files.document import document_text
from nmt.files.write import write_file
from nmt.layout import DataDir
from nmt.prepare.held_out import held_out_elsewhere, read_held_out, with_classes, write_held_out
from nmt.prepare.pairs import SentencePair, naming
from nmt.prepare.pipeline.clean import NO_OTHERS, Others
from nmt.prepare.pipeline.encode import encode_text, link_files, make_joint, make_tokenizers, use_tokenizers
from nmt.prepare.pipeline.fuzzy import match_lines
from nmt.prepare.pipeline.mono import MonoText, clean_mono, encode_mono
from nmt.prepare.pipeline.read import training_parts
from nmt.prepare.pipeline.settle import ChosenText, TrainingText, choose_text, settle_chosen
from nmt.prepare.pipeline.work import SIZES, Sizes, Work, building
from nmt.prepare.recipe import (
    NewPieces,
    Recipe,
    changes_since,
    check_replaceable,
    check_unneeded,
    recipe,
    reused_tokenizers,
)
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
    reused, new = reused_tokenizers(tokenizer_from, config) if tokenizer_from is not None else (None, NewPieces())
    wanted = recipe(config, reused, new)
    check_replaceable(directory)
    reasons = changes_since(directory, wanted, config)
    if reasons == []:
        _echo_up_to_date(directory, config.data, echo)
        return
    if reasons:
        if not force:
            check_unneeded(directory, config, reasons)
        echo(f"preparing {data_dir} again: {'; '.join(reasons)}")
    root = text_folder(config.data.root)
    if root != Path(config.data.root):
        echo(f"no {config.data.root} here: using the sample corpus shipped with nmt, {root}")
    if new.n:
        echo(f"up to {new.n:,} pieces of {' and '.join(new.languages)} are added to the vocabulary of {tokenizer_from}")
    engine = engine or InProcess()
    views = [config.towards(direction) for direction in config.data.pairs.values()]
    with building(data_dir) as (folder, staged):
        work = Work(folder, engine, sizes)
        if len(views) == 1:
            [view] = views
            build = _Build(view, work, root)
            build.choose(build.read_held_out(), None)
            build.settle()
            tokenizers = make_tokenizers(build.work, view, build.text, reused, build.mono_folders)
            reports = [build.write(staged, tokenizers, wanted)]
            splits = [build.splits]
        else:
            reports, splits = _build_pairs(
                config, views, Work(folder, engine, sizes), staged, root, reused, new, wanted
            )
    for report, own in zip(reports, splits, strict=True):
        if len(reports) > 1:
            echo("-".join(report.languages))
        for line in table(report, own, None if reused and not new.n else config.tokenizer.vocab_size):
            echo(line)
        echo_end(report.warnings, directory if len(reports) == 1 else _of_pair(directory, report.languages), echo)


def _of_pair(directory: DataDir, pair: Sequence[str]) -> DataDir:
    return DataDir(directory.path / "-".join(pair))


def _build_pairs(
    config: Config,
    views: Sequence[Config],
    work: Work,
    staged: DataDir,
    root: Path,
    reused: Tokenizers | None,
    new: NewPieces,
    wanted: Recipe,
) -> tuple[list[Report], list[dict[str, PreparedSplit]]]:
    """Write the data directories of several pairs of languages, with one tokenizer.

    No line that is held out for one pair is in the training text of another.
    """
    builds = {
        view.data.pair: _Build(view, Work(work.folder / "-".join(view.data.pair), work.engine, work.sizes), root)
        for view in views
    }
    held_out = {}
    for pair, build in builds.items():
        with naming(pair):
            held_out[pair] = build.read_held_out()
    for pair, build in builds.items():
        with naming(pair):
            build.choose(held_out[pair], held_out_elsewhere(pair, held_out))
    split_off = {pair: build.chosen.split_off or [] for pair, build in builds.items()}
    for pair, build in builds.items():
        with naming(pair):
            build.settle(held_out_elsewhere(pair, split_off))
    texts = {pair: build.text for pair, build in builds.items()}
    work.versions["texts"] = " ".join(build.work.version("settle") for build in builds.values())
    joint = make_joint(work, config, texts, reused, new)
    samples = {pair: [own for each in text.samples().values() for own in each.pairs] for pair, text in texts.items()}
    profiles: dict[str, dict[str, float]] = {}
    for pair, sample in samples.items():
        profiles |= {name: own for name, own in Profiles.of(pair, sample).profiles.items() if name not in profiles}
    joint = replace(joint.with_tags(config.data.tag_names), profiles=Profiles(profiles=profiles))
    reports = []
    for pair, build in builds.items():
        use_tokenizers(build.work, joint)
        directory = _of_pair(staged, pair)
        directory.path.mkdir()
        with naming(pair):
            reports.append(build.write(directory, joint.of_languages(pair), recipe(build.config, reused, new)))
    pairs = {"-".join(pair): read_manifest(_of_pair(staged, pair)).fingerprint for pair in builds}
    manifest = PairsManifest(
        format=PAIRS_FORMAT,
        languages=[*config.data.all_languages],
        pairs=pairs,
        fingerprint=hashlib.sha256(json.dumps(pairs, sort_keys=True).encode()).hexdigest()[:16],
        config=wanted,
        files=file_facts(staged.path),
    )
    write_file(staged.pairs, f"{document_text(manifest)}\n".encode())
    return reports, [build.splits for build in builds.values()]


def _echo_up_to_date(directory: DataDir, data: DataConfig, echo: Callable[[str], None]) -> None:
    corpora = Corpora.open(directory, data).distinct
    n = sum(corpus.split("train").n for corpus in corpora)
    echo(f"{directory.path} is up to date with {n:,} training pairs: nothing to do")
    for corpus in corpora:
        for warning in corpus.manifest.warnings:
            echo(f"warning: {warning}")


@dataclass
class _Build:
    """A data directory of two languages that is being written, and the records for its manifest."""

    config: Config
    work: Work
    root: Path
    splits: dict[str, PreparedSplit] = field(default_factory=dict)
    mono: dict[str, PreparedMono] = field(default_factory=dict)
    mono_reports: list[MonoReport] = field(default_factory=list)
    chosen: ChosenText = field(init=False)
    text: TrainingText = field(init=False)
    """The training text, once it is settled."""
    mono_text: dict[str, MonoText] = field(init=False)

    def __post_init__(self) -> None:
        data = self.config.data
        self.sources = {key: open_source(source, data.pair, self.root) for key, source in data.sources()}
        self.mono_sources = {key: open_source(each, (name, name), self.root) for key, name, each in data.mono_sources()}
        self.train = {key: source for key, source in self.sources.items() if key.startswith("train.")}
        self.records: dict[str, SourceRecord] = {key: source.record for key, source in self.sources.items()}
        self.held_out: dict[str, list[SentencePair]] = {}
        self.warnings: list[str] = []

    def read_held_out(self) -> list[SentencePair]:
        """Read the development and test sets, and return their pairs."""
        self.held_out, self.warnings = read_held_out(self.sources)
        for key, pairs in self.held_out.items():
            skipped = dict(self.sources[key].units.skipped)
            counts = {"read": len(pairs), **({"skipped": skipped} if skipped else {})}
            self.records[key] = self.records[key].model_copy(update=counts)
        return list(chain.from_iterable(self.held_out.values()))

    def choose(self, held_out: Sequence[SentencePair], others: Others | None) -> None:
        """Clean the training text, and choose the development set; for `others` see `choose_text`."""
        data = self.config.data
        parts, skipped = training_parts(self.work, data, self.train)
        self.chosen = choose_text(self.work, data, parts, skipped, held_out, others=others)

    def settle(self, others: Others = NO_OTHERS) -> None:
        """Settle the training text, and clean monolingual text; `others`: lines that other pairs have split off."""
        self.text = settle_chosen(self.work, self.config.data, self.chosen, others)
        self.samples_of_held_out = samples_of(self.held_out)
        if self.text.split_off is not None:
            self.held_out = {"valid": self.text.split_off, **self.held_out}
        held_out = list(chain.from_iterable(self.held_out.values()))
        self.mono_text = clean_mono(self.work, self.config.data, self.mono_sources, held_out)

    @property
    def mono_folders(self) -> dict[str, tuple[Path, int]]:
        """By language, the folder and the number of lines of its cleaned monolingual text."""
        return {language: (own.done.folder, own.lines) for language, own in self.mono_text.items()}

    def write(self, directory: DataDir, tokenizers: Tokenizers, wanted: Recipe) -> Report:
        """Write all files of the data directory, and return the report."""
        data, text, train, held_out = self.config.data, self.text, self.train, self.held_out
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
        for language, own in encode_mono(self.work, data, self.mono_text).items():
            link_files([own.done], directory.path)
            self._record_mono(language, own)
        for key, pairs in held_out.items():
            name = key.removeprefix("test.")
            self.splits[name] = write_held_out(directory, name, pairs, tokenizers, data.documents)
        if not isinstance(data.valid, Source):
            left_out = sum(report.dropped.get("shared", 0) for report in encoded.reports)
            split_off = SplitOffRecord(asked=data.valid, of=text.n_offered, left_out=left_out)
            self.splits["valid"] = self.splits["valid"].model_copy(update={"split_off": split_off})
        n_pairs = sum(own.pairs for own in self.splits.values())
        link_files(match_lines(self.work, directory, data, [*self.splits], n_pairs), directory.path)
        samples = text.samples()
        reports = dict(zip(train, text.reports, strict=True))
        names = {key: record.corpus for key, record in self.records.items()}
        samples_of_all = samples | self.samples_of_held_out
        warnings = self.warnings + text.warnings + corpus_warnings(reports, samples_of_all, data.pair, names)
        reports = dict(zip(train, encoded.reports, strict=True))
        report = Report(
            kind="prepared",
            sample=None,
            languages=data.pair,
            corpora=corpus_reports(reports, self.records, samples, data.pair),
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
