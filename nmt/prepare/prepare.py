"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text is read twice and never held in memory: it is cleaned into two files, the vocabulary is learned from
those, and then they are encoded chunk by chunk. The directory appears only when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nmt.config import Config, Source
from nmt.console import Progress, n_lines, show
from nmt.data.corpus import Corpus
from nmt.data.manifest import FORMAT, Manifest, SourceRecord
from nmt.files.write import staged_directory
from nmt.layout import DataDir
from nmt.prepare.checks import changes_since, check_replaceable, reused_tokenizers
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.counts import refuse_empty
from nmt.prepare.encode import encode_held_out, encode_train, train_tokenizers
from nmt.prepare.held_out import read_held_out
from nmt.prepare.languages import Sample
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.recipe import Recipe, recipe
from nmt.prepare.records import PreparedSplit, PreparedTokenizers, SplitOffRecord
from nmt.prepare.report import table
from nmt.prepare.reporting.report import Report, corpus_report, tokenizer_report
from nmt.prepare.reporting.warnings import corpus_warnings
from nmt.prepare.reporting.write import write_report
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.split_off import Draw
from nmt.prepare.write import CleanedText, content_fingerprint, file_facts
from nmt.text.tokenizer import Tokenizers


def prepare(
    config: Config, data_dir: Path, tokenizer_from: Path | None = None, echo: Callable[[str], None] = show
) -> None:
    """Make the data directory of a config, unless it exists and is up to date.

    tokenizer_from: a run or data directory whose vocabulary is taken instead of learning one.
    Raises DataError for sources, an empty corpus, or a directory that `prepare` did not write; HubError for the hub.
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
        echo(f"preparing {data_dir} again: {'; '.join(reasons)}")
    root = text_folder(config.data.root)
    if root != Path(config.data.root):
        echo(f"no {config.data.root} here: using the sample corpus shipped with nmt, {root}")
    sources = {key: open_source(source, config.data.languages, root) for key, source in config.data.sources()}
    with staged_directory(data_dir) as staged:
        build = _Build(config, DataDir(staged), sources, reused)
        report = build.write(wanted)
    for line in report:
        echo(line)
    if build.splits["train"].clean.samples:
        where = f"splits.train.clean.samples in {directory.manifest}"
        echo(f"samples of what was dropped, with corpus and line: {where}")
    _echo_warnings(build.warnings, echo)
    echo(f"report: {directory.report_page}")
    echo(f"wrote {data_dir}")


def _echo_up_to_date(directory: DataDir, config: Config, echo: Callable[[str], None]) -> None:
    corpus = Corpus.open(directory)
    n = corpus.split("train").n
    has_hub = any(source.hub is not None for _, source in config.data.sources())
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
    directory: DataDir
    sources: dict[str, OpenSource]
    reused: Tokenizers | None
    splits: dict[str, PreparedSplit] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.records: dict[str, SourceRecord] = {key: source.record for key, source in self.sources.items()}
        self.train_keys = [f"train.{i}" for i in range(len(self.config.data.train))]

    def write(self, wanted: Recipe) -> list[str]:
        """Write everything. Returns the lines of the report."""
        held_out = self._read_held_out()
        cleaned = self._clean_train(held_out)
        split_off = None
        if not isinstance(self.config.data.valid, Source):
            pairs, split_off = self._split_off(cleaned, self.config.data.valid)
            held_out = {"valid": pairs, **held_out}
        tokenizers = self.reused or train_tokenizers(self.config.tokenizer, cleaned)
        tokenizers.save(self.directory.tokenizer)
        self.splits["train"] = encode_train(self.directory, cleaned, tokenizers, self.config.data)
        for key, report in zip(self.train_keys, cleaned.reports, strict=True):
            self._count_skipped(key)
            counts = {"read": report.read, "kept": report.kept, "dropped": report.dropped_in_order}
            self.records[key] = self.records[key].model_copy(update=counts)
        cleaned.remove()
        for name, pairs in held_out.items():
            self.splits[name] = encode_held_out(self.directory, name, pairs, tokenizers)
        if split_off is not None:
            self.splits["valid"] = self.splits["valid"].model_copy(update={"split_off": split_off})
        self._write_manifest(wanted, tokenizers)
        write_report(self.directory.path, self._report(cleaned, wanted, tokenizers))
        asked = None if self.reused else self.config.tokenizer.vocab_size
        return list(table(self.splits, self.records, tokenizers, asked))

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

    def _clean_train(self, held_out: dict[str, list[SentencePair]]) -> CleanedText:
        """Write the cleaned training text."""
        lines = HeldOut.of(pair for split in held_out.values() for pair in split)
        cleaners = [Cleaner(self.config.data, key, lines) for key in self.train_keys]
        cleaned = CleanedText(self.directory.path, self.config.data.languages)
        samples = {key: Sample() for key in self.train_keys}
        with Progress("cleaning", self._n_train(), "pairs") as progress:
            sources = (progress.track(self.sources[key].pairs()) for key in self.train_keys)
            for row in cleaned.write(sources, cleaners):
                samples[self.train_keys[row.source]].add(row.src, row.tgt)
        refuse_empty(cleaned.report)
        self.samples = samples
        self._check_corpora(cleaned, dict(samples), held_out)
        return cleaned

    def _n_train(self) -> int | None:
        """Return the number of training pairs to read, if they can be counted quickly."""
        root, sources = text_folder(self.config.data.root), self.config.data.train
        counts = [n_lines(root / min(source.files.values())) if source.files else None for source in sources]
        return None if None in counts else sum(filter(None, counts))

    def _check_corpora(
        self, cleaned: CleanedText, samples: dict[str, Sample], held_out: dict[str, list[SentencePair]]
    ) -> None:
        """Warn of corpora of which no pair is kept, and of those whose sides are not in their languages."""
        names = {key: record.corpus for key, record in self.records.items()}
        for name, pairs in held_out.items():
            samples["valid" if name == "valid" else f"test.{name}"] = Sample.of((pair.src, pair.tgt) for pair in pairs)
        reports = dict(zip(self.train_keys, cleaned.reports, strict=True))
        self.warnings += corpus_warnings(reports, samples, self.config.data.languages, names)

    def _split_off(self, cleaned: CleanedText, amount: int | float) -> tuple[list[SentencePair], SplitOffRecord]:
        """Move the development set out of the cleaned training text."""
        draw = Draw(amount)
        with Progress("splitting off", 2 * cleaned.report.kept, "pairs") as progress:  # they are read twice
            for row in progress.track(cleaned.rows()):
                draw.offer(SentencePair(row.src, row.tgt, ""))
            pairs = draw.chosen()
            cleaned.set_aside(pairs, progress)
        refuse_empty(cleaned.report)
        left_out = cleaned.report.dropped.get("shared", 0)
        return pairs, SplitOffRecord(asked=amount, of=draw.n_offered, left_out=left_out)

    def _report(self, cleaned: CleanedText, wanted: Recipe, tokenizers: Tokenizers) -> Report:
        languages = self.config.data.languages
        corpora = [
            corpus_report(key, self.records[key], report, self.samples[key], languages)
            for key, report in zip(self.train_keys, cleaned.reports, strict=True)
        ]
        return Report(
            kind="prepared",
            sample=None,
            languages=languages,
            corpora=corpora,
            held_out={name: split.pairs for name, split in self.splits.items() if name != "train"},
            warnings=self.warnings,
            settings=wanted,
            tokenizer=tokenizer_report(tokenizers, self.splits["train"].text),
        )

    def _write_manifest(self, wanted: Recipe, tokenizers: Tokenizers) -> None:
        files = file_facts(self.directory.path)
        pieces = {language: len(tokenizers[language]) for language in tokenizers.languages}
        manifest = Manifest(
            format=FORMAT,
            languages=self.config.data.languages,
            fingerprint=content_fingerprint(files),
            config=wanted,
            tokenizer=PreparedTokenizers(fingerprint=tokenizers.fingerprint, joint=tokenizers.joint, pieces=pieces),
            sources=self.records,
            splits=dict(self.splits),
            warnings=self.warnings,
            files=files,
        )
        # serialize_as_any: splits and tokenizer have more fields than a reader of the manifest needs
        tree = manifest.model_dump(mode="json", exclude_unset=True, serialize_as_any=True)
        text = json.dumps(tree, ensure_ascii=False, indent=1)
        self.directory.manifest.write_bytes(f"{text}\n".encode())
