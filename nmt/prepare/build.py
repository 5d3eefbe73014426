"""The text of one pair of languages on its way into a data directory, with its development and test sets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nmt.console import printable
from nmt.data.manifest import (
    DATA_FORMAT,
    SHARDED_FORMAT,
    Manifest,
    MonoRecord,
    Recipe,
    RoundTripRecord,
    SplitOffRecord,
    SplitRecord,
    TextRecord,
    TokenizerRecord,
    content_fingerprint,
    file_facts,
    write_manifest,
)
from nmt.data.settings import DataConfig
from nmt.data.sources import train_number
from nmt.errors import ConfigError, DataError
from nmt.evaluate.metrics import few_four_grams
from nmt.languages.directions import LanguagePair
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import HINTS, CleanReport, skipped_units, total
from nmt.prepare.pairs import OpenSource, SentencePair, naming
from nmt.prepare.pipeline.clean import NO_OTHERS, Others
from nmt.prepare.pipeline.encode import (
    EncodedText,
    PreparedText,
    encode_text,
    link_files,
    text_record,
    write_encoded,
)
from nmt.prepare.pipeline.fuzzy import match_lines
from nmt.prepare.pipeline.mono import MonoText, clean_mono, encode_mono
from nmt.prepare.pipeline.read import read_side, sample_parts, training_parts
from nmt.prepare.pipeline.settle import ChosenText, TrainingText, choose_training_text, settle_chosen, split_off
from nmt.prepare.pipeline.work import Work, follows
from nmt.prepare.report import (
    MonoReport,
    PreparationReport,
    TokenizerReport,
    clean_record,
    counted_source,
    make_report,
    source_fields,
    tokenizer_report,
)
from nmt.prepare.report_page import write_report
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.suspicions import lacking, lengthened
from nmt.text.blocks import BlockEncoder
from nmt.text.letters import count_forms, usual_forms, write
from nmt.text.lines import bounded_list
from nmt.text.pairing import Place, Sample
from nmt.text.tokenizer import CONTROL, is_blank, known_id
from nmt.text.vocabularies import Labels, Tokenizers
from nmt.text.words import beginning


@dataclass
class Build:
    """The data directory of two languages that is being written, and the records for its manifest.

    A dry run only settles the text and reports on it.
    """

    data: DataConfig
    work: Work
    root: Path
    name: str
    """The languages, such as de-en, if there are several pairs; otherwise empty."""
    sample: int | None
    """Maximum number of pairs of each corpus that are cleaned, in a dry run; None: all pairs."""
    splits: dict[str, SplitRecord] = field(default_factory=dict)
    mono: dict[str, MonoRecord] = field(default_factory=dict)
    mono_reports: list[MonoReport] = field(default_factory=list)
    chosen: ChosenText = field(init=False)
    text: TrainingText = field(init=False)
    """The training text, once it is settled."""
    samples: dict[str, Sample] = field(init=False)
    """Samples of the settled text, and of the development and test sets, by key."""
    mono_text: dict[str, MonoText] = field(default_factory=dict)
    places: dict[str, list[Place]] = field(init=False)
    """The places of the sampled pairs in each corpus, by key; of all pairs, none."""
    manifest: Manifest = field(init=False)
    outcome: PreparationReport = field(init=False)

    def __post_init__(self) -> None:
        data = self.data
        self.sources = {key: open_source(source, data.pair, self.root) for key, source in data.sources()}
        self.train = {key: self.sources[key] for key in data.train_sources}
        self.records = {key: source.record for key, source in self.sources.items()}
        self.held_out: dict[str, list[SentencePair]] = {}
        self.warnings: list[str] = []

    def open_mono(self) -> None:
        """Open the sources of monolingual text."""
        self.mono_sources = {
            key: open_source(source, (language, language), self.root)
            for key, language, source in self.data.mono_sources()
        }

    def read_held_out(self) -> list[SentencePair]:
        """Read the development and test sets, and return their pairs."""
        self.held_out, self.warnings = read_held_out(self.sources)
        for key, pairs in self.held_out.items():
            counts: dict[str, object] = {"read": len(pairs)}
            if skipped := self.sources[key].units.skipped:
                counts["skipped"] = dict(skipped)
            self.records[key] = self.records[key].model_copy(update=counts)
        return list(chain.from_iterable(self.held_out.values()))

    def choose_pairs(self, held_out: Sequence[SentencePair], elsewhere: Others | None) -> None:
        """Clean the training text, and split sets off.

        elsewhere: see `choose_training_text`; None: there is only one pair of languages.
        """
        data = self.data
        if self.sample is None:
            text = training_parts(self.work, data, self.train)
        else:
            text = sample_parts(self.work, self.train, self.sample)
        self.places = text.places
        self.chosen = choose_training_text(self.work, data, text, held_out, elsewhere=elsewhere or NO_OTHERS)
        if self.sample is None:  # a development set would be most of a sample
            split_off(self.chosen, data, by_line=elsewhere is not None)

    def settle(self, elsewhere: Others) -> None:
        """Settle the training text; `elsewhere`: lines that other pairs have split off."""
        self.text = settle_chosen(self.work, self.data, self.chosen, elsewhere)
        self.samples = self.text.samples()
        for key, pairs in self.held_out.items():
            self.samples[key] = Sample.of(pair[:2] for pair in pairs)
        for key, places in self.places.items():
            self.text.reports[key].renumber([0, *(place.line for place in places)].__getitem__)
            self.samples[key].places = [places[place.line - 1] for place in self.samples[key].places]
        self.held_out = {**self.chosen.split_off, **self.held_out}
        data = self.data
        side = data.pair.index(data.tgt)
        for key, pairs in self.held_out.items():
            note = few_four_grams([str(pair[side]) for pair in pairs], data.tgt)
            if note and not data.has_labels:
                self.warnings.append(f"data.{key} ({data.tgt}): {note}")

    def clean_mono(self) -> None:
        """Clean the monolingual text."""
        held_out = list(chain.from_iterable(self.held_out.values()))
        self.mono_text = clean_mono(self.work, self.data, self.mono_sources, held_out)

    @property
    def prepared_text(self) -> PreparedText:
        """The text from which a vocabulary is learned."""
        return PreparedText(self.work, self.text, {name: text.done.folder for name, text in self.mono_text.items()})

    def report(self, reports: Mapping[str, CleanReport], settings: Recipe, **fields: Any) -> PreparationReport:
        """Return the report; `reports`: counts of the training corpora by key, fields: see `make_report`."""
        report = make_report(
            self.data, self.text, reports, self.records, self.samples, self.warnings, settings=settings,
            sample=self.sample,
            held_out={key.removeprefix("test."): len(pairs) for key, pairs in self.held_out.items()},
            **fields,
        )  # fmt: skip
        if not self.name:
            return report
        return report.model_copy(update={"warnings": [f"{self.name}: {warning}" for warning in report.warnings]})

    def try_tokenizers(self, tokenizers: Tokenizers, added: Collection[str]) -> TokenizerReport:
        """Return the report on tokenizers, with counts of a sample of the training text; warn of letters that they
        lack. added: the languages whose letters will be added."""
        text = {}
        for language, tokenizer in tokenizers.by_language.items():
            side = self.data.pair.index(language)
            lines = [pair[side] for key in self.train for pair in self.samples[key].pairs]
            text[language] = text_record(BlockEncoder(tokenizer).encode(lines))
        self._check_tokenizers(tokenizers, text, added)
        return tokenizer_report(tokenizers, text)

    def _check_tokenizers(
        self, tokenizers: Tokenizers, text: Mapping[str, TextRecord], added: Collection[str] = ()
    ) -> None:
        """Warn of what an imported vocabulary lacks."""
        self.warnings += lacking(self.samples, self.data.pair, tokenizers, added)
        if tokenizers.imported is not None and len(text) == 2:
            self.warnings += lengthened({language: record.pieces for language, record in text.items()})

    def write(self, directory: DataDir, tokenizers: Tokenizers, settings: Recipe) -> None:
        """Write all files of the data directory."""
        data = self.data
        directory.path.mkdir(exist_ok=True)
        for key, source in data.sources():
            try:
                for name in source.tag_names:
                    known_id(name, dict.fromkeys(tokenizers.tags, 0), "tag")
            except DataError as error:
                raise ConfigError(f"data.{key}.tags: {error}") from error
        tokenizers.save(directory.tokenizer)
        encoded = encode_text(self.work, data, self.text)
        link_files(encoded.files, directory.path)
        self.splits["train"] = _train_record(encoded, tokenizers.labels)
        self._write_mono(directory)
        for key, pairs in self.held_out.items():
            split = key.removeprefix("test.")
            self.splits[split] = write_held_out(directory, split, pairs, tokenizers, data.documents)
        self._record_split_off(encoded)
        n_pairs = sum(split.pairs for split in self.splits.values())
        link_files(match_lines(self.work, directory, data, [*self.splits], n_pairs), directory.path)
        self._check_tokenizers(tokenizers, encoded.text)
        classes = {name: split.classes for name, split in self.splits.items() if split.classes}
        self.outcome = self.report(
            encoded.reports,
            settings,
            kind="prepared",
            tokenizer=tokenizer_report(tokenizers, encoded.text),
            mono=self.mono_reports,
            classes=classes,
        )
        self._write_manifest(directory, tokenizers)
        write_report(directory.path, self.outcome)

    def _write_mono(self, directory: DataDir) -> None:
        """Write the monolingual text of each language, and record it and its sources."""
        for language, encoded in encode_mono(self.work, self.data, self.mono_text).items():
            link_files([encoded.done], directory.path)
            for number, report in enumerate(encoded.reports):
                key = f"mono.{language}.{number}"
                self.records[key] = counted_source(self.mono_sources[key].record, report, {})
                fields = source_fields(key, self.records[key], report, [language])
                self.mono_reports.append(MonoReport(**fields, language=language))
            summary = encoded.done.summary
            self.mono[language] = MonoRecord(
                lines=summary["lines"],
                documents=summary["documents"],
                clean=clean_record(encoded.reports),
                text=TextRecord.model_validate(summary["text"]),
            )

    def _record_split_off(self, encoded: EncodedText) -> None:
        """Record from how many pairs each development or test set was chosen."""
        left_out = sum(report.dropped.get("shared", 0) for report in encoded.reports.values())
        for name, amounts in self.data.drawn.items():
            record = SplitOffRecord(asked=sum(amounts.values()), of=self.chosen.n_offered[name], left_out=left_out)
            self.splits[name] = self.splits[name].model_copy(update={"split_off": record})
            left_out = 0  # counted once for all sets

    def _write_manifest(self, directory: DataDir, tokenizers: Tokenizers) -> None:
        files = file_facts(directory.path)
        counts = total(self.text.reports.values())
        report = self.outcome
        is_sharded = self.splits["train"].shards is not None
        self.manifest = Manifest(
            format=SHARDED_FORMAT if is_sharded else DATA_FORMAT,
            languages=report.languages,
            fingerprint=content_fingerprint(files, tokenizers.letters),
            config=report.settings,
            tokenizer=TokenizerRecord(
                fingerprint=tokenizers.fingerprint, joint=tokenizers.joint, pieces=tokenizers.sizes
            ),
            sources=self.records,
            several=counts.several / counts.kept,
            splits=self.splits,
            warnings=report.warnings,
            files=files,
        )
        if self.mono:
            self.manifest = self.manifest.model_copy(update={"mono": self.mono})
        write_manifest(directory, self.manifest)


Builds: TypeAlias = dict[LanguagePair, Build]
"""By their pairs of languages."""


def _train_record(encoded: EncodedText, labels: Labels | None) -> SplitRecord:
    split = SplitRecord(pairs=encoded.pairs, clean=clean_record(encoded.reports.values()), text=encoded.text)
    split = _with_classes(split, encoded.classes, labels)
    return split if encoded.shards is None else split.model_copy(update={"shards": encoded.shards})


def open_builds(data: DataConfig, work: Work, sample: int | None = None) -> Builds:
    """Open the sources of all pairs of languages; `sample`: see `Build`."""
    builds = Builds()
    root = text_folder(data.root)
    pairs = data.pairs
    for pair, direction in pairs.items():
        view = data.towards(direction)
        name = pair if len(pairs) > 1 else ""
        builds[view.pair] = Build(view, Work(work.folder / name, work.engine, work.sizes), root, name, sample)
    return builds


def settle_all(builds: Builds, reused: Tokenizers | None) -> None:
    """Read the text of all pairs of languages, and settle their training text.

    No line that is held out for one pair is in the training text of another. Letters have the forms of a `reused`
    tokenizer, or else with `repair: [letters]` the most frequent ones of the cleaned text of all pairs.
    """
    held_out = {}
    chosen = {}
    counts = defaultdict[str, Counter[str]](Counter)
    for pair, build in builds.items():
        with naming(build.name):
            held_out[pair] = build.read_held_out()
    for pair, build in builds.items():
        with naming(build.name):
            elsewhere = held_out_elsewhere(pair, held_out) if build.name else None
            build.choose_pairs(held_out[pair], elsewhere)
        chosen[pair] = list(chain.from_iterable(build.chosen.split_off.values()))
        if "letters" in (build.data.clean.repair or ()):
            for side, language in enumerate(pair):
                for part in build.chosen.cleaned:
                    counts[language] += count_forms(language, read_side(part.folder, side))
    letters = {language: usual_forms(language, counts[language]) for language in counts}
    for pair, build in builds.items():
        build.work.letters = letters if reused is None else letters | reused.letters
        with naming(build.name):
            build.settle(held_out_elsewhere(pair, chosen))


def read_held_out(sources: Mapping[str, OpenSource]) -> tuple[dict[str, list[SentencePair]], list[str]]:
    """Return the pairs of the development and test sets by their keys, and warnings about skipped units and suspicious
    content.

    Raises DataError if one is empty.
    """
    held_out = {}
    warnings = []
    for key, source in sources.items():
        if train_number(key) is not None:
            continue
        pairs = held_out[key] = bounded_list(source.pairs(), f"data.{key}")
        name = f"data.{key} ({source.record.corpus})"
        skipped = source.units.skipped
        if not pairs:
            empty = f"{name}: 0 pairs were read"
            if skipped:
                empty = skipped_units(empty, skipped)
            raise DataError(empty)
        if all(is_blank(pair.src) or is_blank(pair.tgt) for pair in pairs):
            raise DataError(f"{name}: no pair has text on both sides, only blank lines")
        if skipped:
            warnings.append(skipped_units(name, skipped))
        if all(pair.src == pair.tgt for pair in pairs):
            warnings.append(f"{name}: {HINTS['copied']}")
    return held_out, warnings


def held_out_elsewhere(pair: LanguagePair, held_out: Mapping[LanguagePair, Sequence[SentencePair]]) -> Others:
    """Return the distinct lines in the languages of a pair that are held out for other pairs of languages."""
    first = dict[str, None]()
    second = dict[str, None]()
    for other, sentence_pairs in held_out.items():
        for language, lines in zip(pair, (first, second), strict=True):
            if other != pair and language in other:
                lines |= dict.fromkeys(str(texts[other.index(language)]) for texts in sentence_pairs)
    return [*first], [*second]


def write_held_out(
    directory: DataDir, name: str, pairs: Sequence[SentencePair], tokenizers: Tokenizers, documents: bool
) -> SplitRecord:
    """Write the text, in the usual forms of its letters, and ids of a development or test set.

    documents: whether also to write which pair follows another.

    Raises DataError if a lossless tokenizer does not restore the text, or a label is not in the training text.
    """
    if documents:
        order = follows(np.arange(len(pairs)), np.array([pair.document for pair in pairs]))
        np.save(directory.follows(name), order.view(np.uint8))
    exact = control = 0
    text = {}
    classes = Counter[str]()
    for side, language in enumerate(tokenizers.languages):
        tokenizer = tokenizers.side(language)
        lines = [write(str(pair[side]), tokenizer.letters) for pair in pairs]
        if isinstance(tokenizer, Labels):
            _check_labels(name, lines, tokenizer)
        encoded = BlockEncoder(tokenizer).encode(lines)
        record = write_encoded(directory, name, language, [f"{line}\n".encode() for line in lines], encoded)
        if isinstance(tokenizer, Labels):
            classes.update(line.strip() for line in lines)
            continue
        text[language] = record
        start = 0
        for row, (line, end) in enumerate(zip(lines, encoded.ends.tolist(), strict=True)):
            if CONTROL.search(line):
                control += 1
            elif (decoded := tokenizer.decode(encoded.ids[start:end].tolist())) == line:
                exact += 1
            elif tokenizer.is_lossless and decoded != tokenizer.as_read(line):
                raise DataError(
                    f"{name}.{language}, line {row + 1}: the tokenizer does not restore the line from its pieces"
                )
            start = end
    round_trip = RoundTripRecord(lines=len(text) * len(pairs), exact=exact, control=control)
    clean = clean_record([CleanReport(read=len(pairs), kept=len(pairs))])
    split = SplitRecord(pairs=len(pairs), clean=clean, text=text, round_trip=round_trip)
    return _with_classes(split, classes, tokenizers.labels)


def _with_classes(split: SplitRecord, classes: Mapping[str, int], labels: Labels | None) -> SplitRecord:
    """Return a split with its number of pairs for each label; without labels, the split itself."""
    if labels is None:
        return split
    return split.model_copy(update={"classes": {label: classes.get(label, 0) for label in labels.names}})


def _check_labels(split: str, lines: Sequence[str], labels: Labels) -> None:
    for number, line in enumerate(lines, start=1):
        if line not in labels:
            label = printable(beginning(line.strip(), 40))
            raise DataError(
                f"{split}, line {number}: the label {label!r} is not in the training text, "
                f"which has {printable(labels.shown())}; remove such lines, or add examples to data.train"
            )
