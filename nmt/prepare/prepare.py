"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text passes through twice and is never held in memory: it is cleaned into two files, the vocabulary is
learned from those, and then they are encoded chunk by chunk. The directory appears only when it is complete.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.config import Config, Source
from nmt.console import Progress, n_lines, show
from nmt.data.corpus import FORMAT, Corpus
from nmt.errors import DataError
from nmt.files.write import staged_directory
from nmt.layout import DataDir
from nmt.prepare.checks import changes_since, check_replaceable, reused_tokenizers
from nmt.prepare.clean import Cleaner, CleanReport, counted
from nmt.prepare.cleaned import CleanedText, samples_of
from nmt.prepare.languages import Sample, language_warnings
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.recipe import Recipe, recipe
from nmt.prepare.report import table
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.split_off import Draw
from nmt.prepare.write import SplitWriter, content_fingerprint, file_facts
from nmt.text.lines import held
from nmt.text.tokenizer import CONTROL, Tokenizer, Tokenizers, train_tokenizer

_CHUNK = 20_000  # pairs encoded at a time
_TOKENIZER_LINES = 10_000_000  # SentencePiece holds its training text in memory


def prepare(
    config: Config, data_dir: Path, tokenizer_from: Path | None = None, echo: Callable[[str], None] = show
) -> None:
    """Make the data directory of a config, or say that nothing has changed since it was made.

    tokenizer_from: a run or data directory whose vocabulary is taken instead of learning one.
    Raises DataError for sources, an empty corpus, or a directory that `prepare` did not write; HubError for the hub.
    """
    directory = DataDir(data_dir)
    reused = reused_tokenizers(tokenizer_from, config) if tokenizer_from is not None else None
    wanted = recipe(config, reused)
    check_replaceable(directory)
    changes = changes_since(directory, wanted, config)
    if changes == []:
        corpus = Corpus.open(directory)
        n = corpus.split("train").n
        hub = any(source.hub is not None for _, source in config.data.sources())
        asked = "; the hub was not asked, since its sources are configured as before" if hub else ""
        echo(f"{data_dir} is up to date with {n:,} training pairs: nothing to do{asked}")
        _echo_warnings(corpus.manifest.get("warnings", ()), echo)
        return
    if changes:
        echo(f"preparing {data_dir} again: {'; '.join(changes)}")
    root = text_folder(config.data.root)
    if root != Path(config.data.root):
        echo(f"no {config.data.root} here: taking the sample corpus that comes with nmt, {root}")
    sources = {key: open_source(source, config.data.languages, root) for key, source in config.data.sources()}
    with staged_directory(data_dir) as staged:
        build = _Build(config, DataDir(staged), sources, reused)
        report = build.write(wanted)
    for line in report:
        echo(line)
    if build.splits["train"]["clean"]["samples"]:
        where = f"splits.train.clean.samples in {directory.manifest}"
        echo(f"samples of what was dropped, with corpus and line: {where}")
    _echo_warnings(build.warnings, echo)
    echo(f"wrote {data_dir}")


def _echo_warnings(warnings: Iterable[str], echo: Callable[[str], None]) -> None:
    for warning in warnings:
        echo(f"warning: {warning}")


@dataclass
class _Build:
    """The making of one data directory; `warnings` are for people."""

    config: Config
    directory: DataDir
    sources: dict[str, OpenSource]
    reused: Tokenizers | None
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    split_off: dict[str, Any] | None = None
    """How the development set was split off the training text, if it was."""

    @property
    def languages(self) -> tuple[str, str]:
        return self.config.data.languages

    @property
    def train_keys(self) -> list[str]:
        return [f"train.{i}" for i in range(len(self.config.data.train))]

    def write(self, wanted: Recipe) -> list[str]:
        """Write everything; the lines of the report."""
        held_out = self._read_held_out()
        cleaned = self._clean_train(held_out)
        if not isinstance(self.config.data.valid, Source):
            held_out = {"valid": self._split_off(cleaned), **held_out}
        tokenizers = self.reused or self._train_tokenizers(cleaned)
        tokenizers.save(self.directory.tokenizer)
        self._encode_train(cleaned, tokenizers)
        cleaned.remove()
        for name, pairs in held_out.items():
            self._encode_held_out(name, pairs, tokenizers)
        self._write_manifest(wanted, tokenizers)
        records = {key: source.record for key, source in self.sources.items()}
        return list(table(self.splits, records, tokenizers, None if self.reused else self.config.tokenizer.vocab_size))

    def _read_held_out(self) -> dict[str, list[SentencePair]]:
        """The development and test sets by split."""
        keys = {"valid": "valid"} if "valid" in self.sources else {}
        keys |= {name: f"test.{name}" for name in self.config.data.test}
        held_out = {}
        for name, key in keys.items():
            held_out[name] = held(self.sources[key].pairs(), f"data.{key}")
            corpus = self.sources[key].record["corpus"]
            if not held_out[name]:
                raise DataError(f"data.{key}: {corpus} is empty: 0 pairs were read")
            if not any(pair.src.strip() and pair.tgt.strip() for pair in held_out[name]):
                raise DataError(f"data.{key}: {corpus} has no pair with text on both sides, only blank lines")
            if all(pair.src == pair.tgt for pair in held_out[name]):
                self.warnings.append(f"data.{key} ({corpus}): {_HINTS['copied']}")
            self.sources[key].record["read"] = len(held_out[name])
        return held_out

    def _clean_train(self, held_out: dict[str, list[SentencePair]]) -> CleanedText:
        """Write the cleaned training text."""
        pairs = [pair for split in held_out.values() for pair in split]
        cleaner = Cleaner(self.config.data, {pair.src for pair in pairs}, {pair.tgt for pair in pairs})
        cleaned = CleanedText(self.directory.path, self.languages)
        samples = {key: Sample() for key in self.train_keys}
        with Progress("cleaning", self._n_train(), "pairs") as progress:
            sources = (progress.track(self.sources[key].pairs()) for key in self.train_keys)
            for row in cleaned.write(sources, cleaner):
                samples[self.train_keys[row.source]].add(row.src, row.tgt)
        _refuse_nothing(cleaned.report)
        self._look(cleaned, samples, held_out)
        return cleaned

    def _n_train(self) -> int | None:
        """How many pairs will be read, if that is quickly found out."""
        root, sources = text_folder(self.config.data.root), self.config.data.train
        counts = [n_lines(root / min(source.files.values())) if source.files else None for source in sources]
        return None if None in counts else sum(filter(None, counts))

    def _look(self, cleaned: CleanedText, samples: dict[str, Sample], held_out: dict[str, list[SentencePair]]) -> None:
        """Warn of corpora of which nothing is kept, and of those whose sides are not of their languages."""
        names = {key: str(source.record["corpus"]) for key, source in self.sources.items()}
        for key, report in zip(self.train_keys, cleaned.reports, strict=True):
            if report.kept == 0:
                why = _why_dropped(report) if report.read else "0 pairs were read"
                self.warnings.append(f"data.{key} ({names[key]}): nothing of it is kept: {why}")
        for name, pairs in held_out.items():
            samples["valid" if name == "valid" else f"test.{name}"] = Sample.of((pair.src, pair.tgt) for pair in pairs)
        self.warnings += language_warnings(samples, self.languages, names)

    def _split_off(self, cleaned: CleanedText) -> list[SentencePair]:
        """Take the development set out of the cleaned training text."""
        amount = self.config.data.valid
        assert not isinstance(amount, Source)
        draw = Draw(amount)
        with Progress("splitting off", 2 * cleaned.report.kept, "pairs") as progress:  # which are read twice
            for row in progress.track(cleaned.rows()):
                draw.offer(SentencePair(row.src, row.tgt, ""))
            pairs = draw.chosen()
            cleaned.set_aside(pairs, progress)
        _refuse_nothing(cleaned.report)
        left_out = cleaned.report.dropped.get("shared", 0)
        self.split_off = {"asked": amount, "of": draw.n_offered, "left_out": left_out}
        return pairs

    def _train_tokenizers(self, cleaned: CleanedText) -> Tokenizers:
        def train(*languages: str) -> Tokenizer:
            lines = itertools.chain.from_iterable(cleaned.lines(language) for language in languages)
            stride = -(-len(languages) * cleaned.report.kept // _TOKENIZER_LINES)
            alphabet = sum((cleaned.alphabet[language] for language in languages), Counter[str]())
            with Progress("learning a vocabulary") as progress:
                progress.say(f"learning a vocabulary for {' and '.join(languages)} …")  # SentencePiece says nothing
                every = itertools.islice(lines, 0, None, stride)
                return train_tokenizer(every, self.config.tokenizer.vocab_size, alphabet)

        if self.config.tokenizer.joint:
            return Tokenizers(dict.fromkeys(self.languages, train(*self.languages)), joint=True)
        return Tokenizers({language: train(language) for language in self.languages}, joint=False)

    def _encode_train(self, cleaned: CleanedText, tokenizers: Tokenizers) -> None:
        """Write text and ids of the training pairs whose sides have at most `data.max_pieces` pieces."""
        repeats = [source.repeat for source in self.config.data.train]
        rows = cleaned.rows()
        progress = Progress("encoding", cleaned.report.kept, "pairs")
        with SplitWriter(self.directory, "train", tokenizers) as writer, progress:
            while chunk := list(itertools.islice(rows, _CHUNK)):
                lines = [[row.src for row in chunk], [row.tgt for row in chunk]]
                ids = [tokenizers[name].encode_all(lines[side]) for side, name in enumerate(self.languages)]
                wanted = []
                for i, row in enumerate(chunk):
                    if max(len(ids[0][i]), len(ids[1][i])) <= self.config.data.max_pieces:
                        wanted += [i] * repeats[row.source]
                    else:
                        cleaned.drop(row, "pieces")
                writer.add([[side[i] for i in wanted] for side in lines], [[side[i] for i in wanted] for side in ids])
                progress.add(len(chunk))
        _refuse_nothing(cleaned.report)
        for key, report in zip(self.train_keys, cleaned.reports, strict=True):
            self.sources[key].record.update(report.as_dict())
        samples = samples_of(cleaned.reports, [source.label for source in self.config.data.train], self.languages)
        clean = {**cleaned.report.as_dict(), "samples": samples}
        self.splits["train"] = {"pairs": writer.pairs, "clean": clean, "text": writer.counts}

    def _encode_held_out(self, name: str, pairs: list[SentencePair], tokenizers: Tokenizers) -> None:
        """Write text and ids of a development or test set, and see that the ids spell the text."""
        lines = [[pair.src for pair in pairs], [pair.tgt for pair in pairs]]
        ids = [tokenizers[language].encode_all(lines[side]) for side, language in enumerate(self.languages)]
        with SplitWriter(self.directory, name, tokenizers) as writer:
            writer.add(lines, ids)
        exact = control = 0
        for side, language in enumerate(self.languages):
            for number, (line, line_ids) in enumerate(zip(lines[side], ids[side], strict=True), start=1):
                if CONTROL.search(line):
                    control += 1
                elif tokenizers[language].decode(line_ids) == line:
                    exact += 1
                else:
                    raise DataError(f"{name}.{language}, line {number}: the tokenizer does not give it back as it was")
        self.splits[name] = {
            "pairs": writer.pairs,
            "clean": {**CleanReport(read=len(pairs), kept=len(pairs)).as_dict(), "samples": {}},
            "text": writer.counts,
            "round_trip": {"lines": 2 * len(pairs), "exact": exact, "control": control},
        }
        if name == "valid" and self.split_off is not None:
            self.splits[name]["split_off"] = self.split_off

    def _write_manifest(self, wanted: Recipe, tokenizers: Tokenizers) -> None:
        files = file_facts(self.directory.path)
        manifest = {
            "format": FORMAT,
            "languages": list(self.languages),
            "fingerprint": content_fingerprint(files),
            "config": wanted,
            "tokenizer": {
                "fingerprint": tokenizers.fingerprint,
                "joint": tokenizers.joint,
                "pieces": {language: len(tokenizers[language]) for language in self.languages},
            },
            "sources": {key: source.record for key, source in self.sources.items()},
            "splits": self.splits,
            "warnings": self.warnings,
            "files": files,
        }
        text = json.dumps(manifest, ensure_ascii=False, indent=1)
        self.directory.manifest.write_bytes(f"{text}\n".encode())


def _refuse_nothing(report: CleanReport) -> None:
    if report.read == 0:
        raise DataError("data.train: the training corpus is empty: 0 pairs were read")
    if report.kept == 0:
        raise DataError(f"data.train: all {report.read:,} training pairs were dropped: {_why_dropped(report)}")


def _why_dropped(report: CleanReport) -> str:
    """What was dropped, and what may be wrong."""
    hint = _HINTS.get(max(report.dropped, key=lambda reason: report.dropped[reason]))
    return f"{counted(report.dropped)}; {hint}" if hint else counted(report.dropped)


# What may be wrong where everything is dropped.
_HINTS = {
    "control": "is it text, with a line feed at the end of each line?",
    "long": "data.max_chars is the limit; is there a sentence on each line?",
    "ratio": "do the two files hold the same sentences?",
    "copied": "both sides are identical: is this one file with both languages?",
    "overlap": "is data.train the development or test set?",
    "pieces": "data.max_pieces is the limit",
}
