"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text passes through twice and is never held in memory: it is cleaned into two files, the vocabulary is
learned from those, and then they are encoded chunk by chunk. The directory appears only when it is complete.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.data.clean import Cleaner, CleanReport, counted
from nmt.data.corpus import FORMAT, Corpus
from nmt.data.sources import OpenSource, SentencePair, held, open_source
from nmt.data.writing import SplitWriter, content_fingerprint, file_facts
from nmt.errors import DataError
from nmt.files import staged_directory
from nmt.layout import DataDir
from nmt.prepare_checks import changes_since, check_replaceable, recipe, reused_tokenizers
from nmt.prepare_report import table
from nmt.tokenizer import CONTROL, Tokenizer, Tokenizers, train_tokenizer

_CHUNK = 20_000  # pairs encoded at a time
_TOKENIZER_LINES = 10_000_000  # SentencePiece holds its training text in memory


def prepare(
    config: Config, data_dir: Path, tokenizer_from: Path | None = None, echo: Callable[[str], None] = print
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
        n = Corpus.open(directory).split("train").n
        hub = any(source.hub is not None for _, source in config.data.sources())
        asked = "; the hub was not asked, since its sources are configured as before" if hub else ""
        echo(f"{data_dir} is up to date with {n:,} training pairs: nothing to do{asked}")
        return
    if changes:
        echo(f"preparing {data_dir} again: {'; '.join(changes)}")
    root = Path(config.data.root)
    sources = {key: open_source(source, config.data.languages, root) for key, source in config.data.sources()}
    with staged_directory(data_dir) as staged:
        report = _Build(config, DataDir(staged), sources, reused).write(wanted)
    for line in report:
        echo(line)
    echo(f"wrote {data_dir}")


@dataclass
class _Cleaned:
    """The cleaned training text in temporary files, how many pairs up to the end of each source, and its characters."""

    files: dict[str, Path]
    report: CleanReport
    source_ends: list[int] = field(default_factory=list)
    alphabet: dict[str, Counter[str]] = field(default_factory=dict)

    def lines(self, language: str) -> Iterator[str]:
        with self.files[language].open("rb") as file:
            for raw in file:
                yield raw[:-1].decode("utf-8")


@dataclass
class _Build:
    """The making of one data directory."""

    config: Config
    directory: DataDir
    sources: dict[str, OpenSource]
    reused: Tokenizers | None
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, str]:
        return self.config.data.languages

    @property
    def train_keys(self) -> list[str]:
        return [f"train.{i}" for i in range(len(self.config.data.train))]

    def write(self, wanted: dict[str, Any]) -> list[str]:
        """Write everything; the lines of the report."""
        held_out = self._read_held_out()
        cleaned = self._clean_train(held_out)
        tokenizers = self.reused or self._train_tokenizers(cleaned)
        tokenizers.save(self.directory.tokenizer)
        self._encode_train(cleaned, tokenizers)
        for path in cleaned.files.values():
            path.unlink()
        for name, pairs in held_out.items():
            self._encode_held_out(name, pairs, tokenizers)
        self._write_manifest(wanted, tokenizers)
        asked = None if self.reused else self.config.tokenizer.vocab_size
        return list(table(self.splits, tokenizers, asked))

    def _read_held_out(self) -> dict[str, list[SentencePair]]:
        """The development and test sets by split."""
        keys = {"valid": "valid", **{name: f"test.{name}" for name in self.config.data.test}}
        held_out = {}
        for name, key in keys.items():
            held_out[name] = held(self.sources[key].pairs(), f"data.{key}")
            corpus = self.sources[key].record["corpus"]
            if not held_out[name]:
                raise DataError(f"data.{key}: {corpus} is empty: 0 pairs were read")
            if not any(pair.src.strip() and pair.tgt.strip() for pair in held_out[name]):
                raise DataError(f"data.{key}: {corpus} has no pair with text on both sides, only blank lines")
            self.sources[key].record["read"] = len(held_out[name])
        return held_out

    def _clean_train(self, held_out: dict[str, list[SentencePair]]) -> _Cleaned:
        """Write the cleaned training text, a file per language."""
        pairs = [pair for split in held_out.values() for pair in split]
        cleaner = Cleaner(self.config.data, {pair.src for pair in pairs}, {pair.tgt for pair in pairs})
        cleaned = _Cleaned({name: self.directory.path / f"cleaned.{name}" for name in self.languages}, cleaner.report)
        src_count, tgt_count = Counter[str](), Counter[str]()
        src_path, tgt_path = cleaned.files.values()
        with src_path.open("wb") as src_file, tgt_path.open("wb") as tgt_file:
            for key in self.train_keys:
                before = cleaner.report.read
                for pair in filter(None, map(cleaner.clean, self.sources[key].pairs())):
                    src_file.write(f"{pair.src}\n".encode())
                    tgt_file.write(f"{pair.tgt}\n".encode())
                    src_count.update(pair.src)
                    tgt_count.update(pair.tgt)
                self.sources[key].record["read"] = cleaner.report.read - before
                cleaned.source_ends.append(cleaner.report.kept)
        cleaned.alphabet = dict(zip(self.languages, (src_count, tgt_count), strict=True))
        _refuse_nothing(cleaner.report)
        return cleaned

    def _train_tokenizers(self, cleaned: _Cleaned) -> Tokenizers:
        def train(*languages: str) -> Tokenizer:
            lines = itertools.chain.from_iterable(cleaned.lines(language) for language in languages)
            stride = -(-len(languages) * cleaned.report.kept // _TOKENIZER_LINES)
            alphabet = sum((cleaned.alphabet[language] for language in languages), Counter[str]())
            return train_tokenizer(itertools.islice(lines, 0, None, stride), self.config.tokenizer.vocab_size, alphabet)

        if self.config.tokenizer.joint:
            return Tokenizers(dict.fromkeys(self.languages, train(*self.languages)), joint=True)
        return Tokenizers({language: train(language) for language in self.languages}, joint=False)

    def _encode_train(self, cleaned: _Cleaned, tokenizers: Tokenizers) -> None:
        """Write text and ids of the training pairs whose sides have at most `data.max_pieces` pieces."""
        kept_by_source = [end - start for start, end in itertools.pairwise([0, *cleaned.source_ends])]
        repeats = [source.repeat for source in self.config.data.train]
        pairs = enumerate(zip(*(cleaned.lines(language) for language in self.languages), strict=True))
        with SplitWriter(self.directory, "train", tokenizers) as writer:
            while chunk := list(itertools.islice(pairs, _CHUNK)):
                lines = [[pair[side] for _, pair in chunk] for side in (0, 1)]
                ids = [tokenizers[name].encode_all(lines[side]) for side, name in enumerate(self.languages)]
                fits = [max(len(ids[0][i]), len(ids[1][i])) <= self.config.data.max_pieces for i in range(len(chunk))]
                for number, pair in itertools.compress(chunk, (not fit for fit in fits)):
                    cleaned.report.kept -= 1
                    cleaned.report.drop("pieces", *pair)
                    kept_by_source[bisect.bisect_right(cleaned.source_ends, number)] -= 1
                rows = [
                    row
                    for row, (number, _) in enumerate(chunk)
                    for _ in range(fits[row] * repeats[bisect.bisect_right(cleaned.source_ends, number)])
                ]
                writer.add(
                    [[side[row] for row in rows] for side in lines], [[side[row] for row in rows] for side in ids]
                )
        _refuse_nothing(cleaned.report)
        for key, count in zip(self.train_keys, kept_by_source, strict=True):
            self.sources[key].record["kept"] = count
        self.splits["train"] = {"pairs": writer.pairs, "clean": cleaned.report.as_dict(), "text": writer.counts}

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
            "clean": CleanReport(read=len(pairs), kept=len(pairs)).as_dict(),
            "text": writer.counts,
            "round_trip": {"lines": 2 * len(pairs), "exact": exact, "control": control},
        }

    def _write_manifest(self, wanted: dict[str, Any], tokenizers: Tokenizers) -> None:
        files = file_facts(self.directory.path)
        manifest = {
            "format": FORMAT,
            "languages": list(self.languages),
            "fingerprint": content_fingerprint(files),
            **wanted,
            "tokenizer": {
                "fingerprint": tokenizers.fingerprint,
                "joint": tokenizers.joint,
                "pieces": {language: len(tokenizers[language]) for language in self.languages},
            },
            "sources": {key: source.record for key, source in self.sources.items()},
            "splits": self.splits,
            "files": files,
        }
        text = json.dumps(manifest, ensure_ascii=False, indent=1)
        self.directory.manifest.write_bytes(f"{text}\n".encode())


def _refuse_nothing(report: CleanReport) -> None:
    if report.read == 0:
        raise DataError("data.train: the training corpus is empty: 0 pairs were read")
    if report.kept == 0:
        problem = f"data.train: all {report.read:,} training pairs were dropped: {counted(report.dropped)}"
        hint = _HINTS.get(max(report.dropped, key=lambda reason: report.dropped[reason]))
        raise DataError(f"{problem}; {hint}" if hint else problem)


# What may be wrong where everything is dropped.
_HINTS = {
    "control": "is it text, with a line feed at the end of each line?",
    "long": "data.max_chars is the limit; is there a sentence on each line?",
    "ratio": "do the two files hold the same sentences?",
    "copied": "are the two files the same?",
    "overlap": "is data.train the development or test set?",
    "pieces": "data.max_pieces is the limit",
}
