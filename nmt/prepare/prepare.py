"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text goes through the stages of `nmt.prepare.pipeline`, in as many processes as the engine has. A preparation
that was stopped continues where it was when it is repeated. The directory appears only when it is complete.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from nmt.config import Config, DataConfig
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
from nmt.files.read import fingerprint_of
from nmt.files.write import write_file
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import CleanReport, total
from nmt.prepare.held_out import held_out_elsewhere, read_held_out, with_classes, write_held_out
from nmt.prepare.pairs import SentencePair, naming
from nmt.prepare.pipeline.clean import NO_OTHERS, Others
from nmt.prepare.pipeline.encode import (
    encode_text,
    link_files,
    make_joint,
    make_tokenizers,
    profiles_of,
    use_tokenizers,
)
from nmt.prepare.pipeline.fuzzy import match_lines
from nmt.prepare.pipeline.mono import MonoText, clean_mono, encode_mono
from nmt.prepare.pipeline.read import read_side, sample_parts, training_parts
from nmt.prepare.pipeline.settle import ChosenText, TrainingText, choose_text, settle_chosen, split_off
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
from nmt.prepare.reporting.report import MonoReport, Report, make_report, mono_report, tokenizer_report
from nmt.prepare.reporting.screen import table
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.suspicions import Place, Sample, lacking, samples_of
from nmt.tasks.perform import TaskRunner
from nmt.tasks.processes import InProcess
from nmt.text.language import Profiles
from nmt.text.letters import usual_forms
from nmt.text.vocabularies import Tokenizers
from nmt.text.words import count_characters


def prepare(
    config: Config,
    data_dir: Path,
    tokenizer_from: Path | None = None,
    echo: Callable[[str], None] = show,
    engine: TaskRunner | None = None,
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
    reused, new = reused_tokenizers(tokenizer_from, config)
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
    if (root := text_folder(config.data.root)) != Path(config.data.root):
        echo(f"no {config.data.root} here: using the sample corpus shipped with nmt, {root}")
    if new.n:
        echo(f"up to {new.n:,} pieces of {' and '.join(new.languages)} are added to the vocabulary of {tokenizer_from}")
    with building(data_dir) as (folder, staged):
        work = Work(folder, engine or InProcess(), sizes)
        builds = open_builds(config, work)
        for build in builds.values():
            build.open_mono()
        settle_all(builds, reused)
        if len(builds) == 1:
            build.clean_mono()
            mono = {language: own.done.folder for language, own in build.mono_text.items()}
            tokenizers = make_tokenizers(build.work, build.config, build.text, reused, mono)
            reports = [build.write(staged, tokenizers, wanted)]
        else:
            reports = _write_pairs(config, builds, work, staged, reused, new, wanted)
    for report, build in zip(reports, builds.values(), strict=True):
        if build.name:
            echo(build.name)
        for line in table(report, build.splits, None if reused and not new.n else config.tokenizer.vocab_size):
            echo(line)
        echo_end(report.warnings, DataDir(data_dir / build.name), echo)


def _write_pairs(
    config: Config,
    builds: Builds,
    work: Work,
    staged: DataDir,
    reused: Tokenizers | None,
    new: NewPieces,
    wanted: Recipe,
) -> list[Report]:
    """Write the data directories of several pairs of languages, with one tokenizer."""
    texts = {pair: build.text for pair, build in builds.items()}
    work.versions["texts"] = " ".join(build.work.version("settle") for build in builds.values())
    joint = make_joint(work, config, texts, reused, new)
    profiles = Profiles(profiles={})
    for pair, build in builds.items():
        more = profiles_of(build.work, build.text, pair)
        profiles = more.model_copy(update={"profiles": more.profiles | profiles.profiles})
    joint = replace(joint.with_tags(config.data.tag_names), profiles=profiles)
    reports = []
    for pair, build in builds.items():
        use_tokenizers(build.work, joint)
        directory = DataDir(staged.path / build.name)
        directory.path.mkdir()
        with naming(build.name):
            reports.append(build.write(directory, joint.of_languages(pair), recipe(build.config, reused, new)))
    pairs = {build.name: read_manifest(DataDir(staged.path / build.name)).fingerprint for build in builds.values()}
    manifest = PairsManifest(
        format=PAIRS_FORMAT,
        languages=[*config.data.all_languages],
        pairs=pairs,
        fingerprint=fingerprint_of(json.dumps(pairs, sort_keys=True).encode()),
        config=wanted,
        files=file_facts(staged.path),
    )
    write_file(staged.pairs, f"{document_text(manifest)}\n".encode())
    return reports


def _echo_up_to_date(directory: DataDir, data: DataConfig, echo: Callable[[str], None]) -> None:
    corpora = Corpora.open(directory, data).distinct
    n = sum(corpus.split("train").n for corpus in corpora)
    echo(f"{directory.path} is up to date with {n:,} training pairs: nothing to do")
    for corpus in corpora:
        for warning in corpus.manifest.warnings:
            echo(f"warning: {warning}")


@dataclass
class Build:
    """A data directory of two languages that is being written, and the records for its manifest.

    A dry run only settles the text and reports on it.
    """

    config: Config
    work: Work
    root: Path
    name: str
    """The languages, such as de-en, if there are several pairs; otherwise empty."""
    sample: int | None
    """Maximum number of pairs of each corpus that are cleaned, in a dry run; None: all pairs."""
    splits: dict[str, PreparedSplit] = field(default_factory=dict)
    mono: dict[str, PreparedMono] = field(default_factory=dict)
    mono_reports: list[MonoReport] = field(default_factory=list)
    chosen: ChosenText = field(init=False)
    text: TrainingText = field(init=False)
    """The training text, once it is settled."""
    samples: dict[str, Sample] = field(init=False)
    """Samples of the settled text, and of the development and test sets, by key."""
    mono_text: dict[str, MonoText] = field(default_factory=dict)
    places: dict[str, list[Place]] = field(default_factory=dict)
    """The places of the sampled pairs in each corpus, by key."""

    def __post_init__(self) -> None:
        data = self.config.data
        self.sources = {key: open_source(source, data.pair, self.root) for key, source in data.sources()}
        self.train = {key: source for key, source in self.sources.items() if key.startswith("train.")}
        self.records: dict[str, SourceRecord] = {key: source.record for key, source in self.sources.items()}
        self.held_out: dict[str, list[SentencePair]] = {}
        self.warnings: list[str] = []

    def open_mono(self) -> None:
        """Open the sources of monolingual text."""
        sources = self.config.data.mono_sources()
        self.mono_sources = {key: open_source(each, (name, name), self.root) for key, name, each in sources}

    def read_held_out(self) -> list[SentencePair]:
        """Read the development and test sets, and return their pairs."""
        self.held_out, self.warnings = read_held_out(self.sources)
        for key, pairs in self.held_out.items():
            skipped = dict(self.sources[key].units.skipped)
            counts = {"read": len(pairs), **({"skipped": skipped} if skipped else {})}
            self.records[key] = self.records[key].model_copy(update=counts)
        return list(chain.from_iterable(self.held_out.values()))

    def choose(self, held_out: Sequence[SentencePair], others: Others | None) -> None:
        """Clean the training text, and split sets off. `others`: see `choose_text`; None: there is only one pair."""
        data = self.config.data
        if self.sample is None:
            parts, skipped = training_parts(self.work, data, self.train)
        else:
            parts, skipped, self.places = sample_parts(self.work, self.train, self.sample)
        self.chosen = choose_text(self.work, data, parts, skipped, held_out, others=others or NO_OTHERS)
        if self.sample is None:  # a development set would be most of a sample
            split_off(self.chosen, data, by_line=others is not None)

    def settle(self, others: Others) -> None:
        """Settle the training text; `others`: lines that other pairs have split off."""
        self.text = settle_chosen(self.work, self.config.data, self.chosen, others)
        self.samples = self.text.samples() | samples_of(self.held_out)
        for key, own in self.places.items():
            self.text.reports[key].renumber([0, *(place.line for place in own)].__getitem__)
            self.samples[key].places = [own[place.line - 1] for place in self.samples[key].places]
        self.held_out = {**self.chosen.split_off, **self.held_out}

    def clean_mono(self) -> None:
        """Clean the monolingual text."""
        held_out = list(chain.from_iterable(self.held_out.values()))
        self.mono_text = clean_mono(self.work, self.config.data, self.mono_sources, held_out)

    def report(self, reports: Mapping[str, CleanReport], wanted: Recipe, **fields: Any) -> Report:
        """Return the report; `reports`: counts of the training corpora by key, fields: see `make_report`."""
        found = make_report(
            self.config.data, self.text, reports, self.records, self.samples, self.warnings, settings=wanted,
            sample=self.sample, held_out={key.removeprefix("test."): len(own) for key, own in self.held_out.items()},
            **fields,
        )  # fmt: skip
        named = [f"{self.name}: {warning}" if self.name else warning for warning in found.warnings]
        return found.model_copy(update={"warnings": named})

    def write(self, directory: DataDir, tokenizers: Tokenizers, wanted: Recipe) -> Report:
        """Write all files of the data directory, and return the report."""
        data, text = self.config.data, self.text
        for key, source in data.sources():
            try:
                tokenizers.check_tags(source.tag_names)
            except DataError as error:
                raise ConfigError(f"data.{key}.tags: {error}") from error
        tokenizers.save(directory.tokenizer)
        encoded = encode_text(self.work, data, text)
        link_files(encoded.files, directory.path)
        split = PreparedSplit(pairs=encoded.pairs, clean=CleanRecord.of(encoded.reports.values()), text=encoded.text)
        split = with_classes(split, encoded.classes, tokenizers.labels)
        self.splits["train"] = split if encoded.shards is None else split.model_copy(update={"shards": encoded.shards})
        for language, own in encode_mono(self.work, data, self.mono_text).items():
            link_files([own.done], directory.path)
            self._record_mono(language, own)
        for key, pairs in self.held_out.items():
            name = key.removeprefix("test.")
            self.splits[name] = write_held_out(directory, name, pairs, tokenizers, data.documents)
        left_out = sum(report.dropped.get("shared", 0) for report in encoded.reports.values())
        for name, amounts in data.drawn.items():
            record = SplitOffRecord(asked=sum(amounts.values()), of=self.chosen.n_offered[name], left_out=left_out)
            self.splits[name] = self.splits[name].model_copy(update={"split_off": record})
            left_out = 0  # counted once for all sets
        n_pairs = sum(own.pairs for own in self.splits.values())
        link_files(match_lines(self.work, directory, data, [*self.splits], n_pairs), directory.path)
        self.warnings += lacking(self.samples, tokenizers)
        report = self.report(
            encoded.reports,
            wanted,
            kind="prepared",
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
        files, counts = file_facts(directory.path), total(self.text.reports.values())
        manifest = Manifest(
            format=FORMAT if self.splits["train"].shards is None else SHARDED_FORMAT,
            languages=report.languages,
            fingerprint=content_fingerprint(files, tokenizers.letters),
            config=report.settings,
            tokenizer=PreparedTokenizers(
                fingerprint=tokenizers.fingerprint, joint=tokenizers.joint, pieces=tokenizers.sizes
            ),
            sources=self.records,
            several=counts.several / counts.kept,
            splits=dict(self.splits),
            warnings=report.warnings,
            files=files,
        )
        write_manifest(directory, manifest.model_copy(update={"mono": self.mono}) if self.mono else manifest)


Builds: TypeAlias = dict[tuple[str, str], Build]
"""By their pairs of languages."""


def open_builds(config: Config, work: Work, sample: int | None = None) -> Builds:
    """Open the sources of all pairs of languages; `sample`: see `Build`."""
    builds, root, pairs = Builds(), text_folder(config.data.root), config.data.pairs
    for pair, direction in pairs.items():
        view, name = config.towards(direction), pair if len(pairs) > 1 else ""
        own = Work(work.folder / name, work.engine, work.sizes)
        builds[view.data.pair] = Build(view, own, root, name, sample)
    return builds


def settle_all(builds: Builds, reused: Tokenizers | None) -> None:
    """Read the text of all pairs of languages, and settle their training text.

    No line that is held out for one pair is in the training text of another. Letters have the forms of a `reused`
    tokenizer, or else with `repair: [letters]` the most frequent ones of the cleaned text of all pairs.
    """
    held_out, chosen, counts = {}, {}, defaultdict[str, Counter[str]](Counter)
    for pair, build in builds.items():
        with naming(build.name):
            held_out[pair] = build.read_held_out()
    for pair, build in builds.items():
        with naming(build.name):
            build.choose(held_out[pair], held_out_elsewhere(pair, held_out) if build.name else None)
        chosen[pair] = list(chain.from_iterable(build.chosen.split_off.values()))
        for side, language in enumerate(pair) if "letters" in (build.config.data.clean.repair or ()) else ():
            for part in build.chosen.cleaned:
                counts[language] += count_characters(read_side(part.folder, side))
    letters = {language: usual_forms(language, counts[language]) for language in counts}
    for pair, build in builds.items():
        build.work.letters = letters if reused is None else letters | reused.letters
        with naming(build.name):
            build.settle(held_out_elsewhere(pair, chosen))


def echo_end(warnings: Sequence[str], directory: DataDir, echo: Callable[[str], None]) -> None:
    """Print the warnings, and the paths of the data directory and its report."""
    for warning in warnings:
        echo(f"warning: {warning}")
    echo(f"report: {directory.report_page}")
    echo(f"wrote {directory.path}")
