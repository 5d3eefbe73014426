"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text passes through twice and is never held in memory: it is cleaned into two files, the vocabulary is
learned from those, and then they are encoded piece by piece. The directory appears only when it is complete.
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
from nmt.data.clean import REASONS, Cleaner, CleanReport
from nmt.data.corpus import FORMAT, Corpus, IdChunk, content_fingerprint, file_facts, write_ids, write_lines
from nmt.data.sources import OpenSource, SentencePair, open_source
from nmt.data.staging import staged_directory
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare_checks import changes_since, check_replaceable, recipe, reused_tokenizers
from nmt.tokenizer import CONTROL, N_SPECIAL, Tokenizer, Tokenizers, train_tokenizer

Echo = Callable[[str], None]

_CHUNK = 20_000  # pairs encoded at a time
_TOKENIZER_LINES = 10_000_000  # SentencePiece holds its training text in memory


def prepare(config: Config, data_dir: Path, tokenizer_from: Path | None = None, echo: Echo = print) -> None:
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
        asked = "" if not _uses_hub(config) else " (the hub was not asked: its sources are configured as before)"
        echo(f"{data_dir} is up to date with {corpus.split('train').n:,} training pairs: nothing to do{asked}")
        return
    if changes:
        echo(f"{data_dir} is prepared again: {'; '.join(changes)}")
    languages, root = config.data.languages, Path(config.data.root)
    sources = {key: open_source(source, languages, root) for key, source in config.data.sources()}
    with staged_directory(data_dir) as staged:
        build = _Build(config, DataDir(staged), sources, reused)
        build.write(wanted, echo)
    echo(f"wrote {data_dir}")


def _uses_hub(config: Config) -> bool:
    return any(source.hub is not None for _, source in config.data.sources())


@dataclass
class _Build:
    """One writing of a data directory."""

    config: Config
    directory: DataDir
    sources: dict[str, OpenSource]
    reused: Tokenizers | None
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, str]:
        return self.config.data.languages

    def write(self, wanted: dict[str, Any], echo: Echo) -> None:
        held_out = self._read_held_out()
        cleaned = self._clean_train(held_out)
        tokenizers = self.reused or self._train_tokenizers(cleaned)
        tokenizers.save(self.directory.tokenizer)
        self._encode_train(cleaned, tokenizers)
        cleaned.remove()
        for name, pairs in held_out.items():
            self._encode_held_out(name, pairs, tokenizers)
        self._write_manifest(wanted, tokenizers)
        for line in _table(self.splits, self.config, tokenizers, self.reused is not None):
            echo(line)

    def _read_held_out(self) -> dict[str, list[SentencePair]]:
        """The development and test sets by split."""
        keys = {"valid": "valid", **{name: f"test.{name}" for name in self.config.data.test}}
        held_out = {}
        for name, key in keys.items():
            held_out[name] = list(self.sources[key].pairs())
            if not held_out[name]:
                raise DataError(f"data.{key}: {held_out[name]!r} has no lines".replace("[]", "the source"))
            self.sources[key].record["read"] = len(held_out[name])
        return held_out

    def _clean_train(self, held_out: dict[str, list[SentencePair]]) -> _Cleaned:
        """Write the cleaned training text, a file per language."""
        pairs = [pair for split in held_out.values() for pair in split]
        cleaner = Cleaner(self.config.data, {pair.src for pair in pairs}, {pair.tgt for pair in pairs})
        cleaned = _Cleaned({name: self.directory.path / f"cleaned.{name}" for name in self.languages}, cleaner.report)
        first, second = self.languages
        with cleaned.files[first].open("wb") as src_file, cleaned.files[second].open("wb") as tgt_file:
            for key in self._train_keys():
                before = cleaner.report.read
                for raw in self.sources[key].pairs():
                    pair = cleaner.clean(raw)
                    if pair is not None:
                        src_file.write(f"{pair.src}\n".encode())
                        tgt_file.write(f"{pair.tgt}\n".encode())
                        cleaned.alphabet[first].update(pair.src)
                        cleaned.alphabet[second].update(pair.tgt)
                self.sources[key].record["read"] = cleaner.report.read - before
                cleaned.source_ends.append(cleaner.report.kept)
        self._refuse_nothing(cleaner.report)
        return cleaned

    def _train_keys(self) -> list[str]:
        return [f"train.{i}" for i in range(len(self.config.data.train))]

    def _refuse_nothing(self, report: CleanReport) -> None:
        if report.read == 0:
            raise DataError("data.train: the training corpus is empty: 0 pairs were read")
        if report.kept == 0:
            raise DataError(f"data.train: all {report.read:,} training pairs were dropped: {_reasons(report.dropped)}")

    def _train_tokenizers(self, cleaned: _Cleaned) -> Tokenizers:
        size = self.config.tokenizer.vocab_size
        stride = -(-2 * cleaned.report.kept // _TOKENIZER_LINES)

        def train(*languages: str) -> Tokenizer:
            lines = itertools.chain.from_iterable(cleaned.lines(language) for language in languages)
            alphabet: Counter[str] = sum((cleaned.alphabet[language] for language in languages), Counter())
            return train_tokenizer(itertools.islice(lines, 0, None, stride), size, alphabet)

        if self.config.tokenizer.joint:
            return Tokenizers(dict.fromkeys(self.languages, train(*self.languages)), joint=True)
        return Tokenizers({language: train(language) for language in self.languages}, joint=False)

    def _encode_train(self, cleaned: _Cleaned, tokenizers: Tokenizers) -> None:
        """Write text and ids of the training pairs whose sides have at most `data.max_pieces` pieces."""
        first, second = self.languages
        chunks: dict[str, list[IdChunk]] = {first: [], second: []}
        facts = _Facts(tokenizers)
        kept_by_source = [end - start for start, end in itertools.pairwise([0, *cleaned.source_ends])]
        number = 0
        with (
            self.directory.text("train", first).open("wb") as src_file,
            self.directory.text("train", second).open("wb") as tgt_file,
        ):
            pairs = zip(cleaned.lines(first), cleaned.lines(second), strict=True)
            while chunk := list(itertools.islice(pairs, _CHUNK)):
                encoded = [
                    tokenizers[language].encode_all([pair[side] for pair in chunk])
                    for side, language in enumerate(self.languages)
                ]
                kept = []
                for i, (src, tgt) in enumerate(chunk):
                    if max(len(encoded[0][i]), len(encoded[1][i])) <= self.config.data.max_pieces:
                        kept.append(i)
                    else:
                        cleaned.report.kept -= 1
                        cleaned.report.drop("pieces", src, tgt)
                        kept_by_source[bisect.bisect_right(cleaned.source_ends, number + i)] -= 1
                number += len(chunk)
                for side, (language, file) in enumerate(((first, src_file), (second, tgt_file))):
                    ids, lines = [encoded[side][i] for i in kept], [chunk[i][side] for i in kept]
                    file.writelines(f"{line}\n".encode() for line in lines)
                    chunks[language].append(IdChunk.of(ids, len(tokenizers[language])))
                    facts.count(language, lines, ids)
        self._refuse_nothing(cleaned.report)
        for language in self.languages:
            write_ids(self.directory, "train", language, chunks[language], len(tokenizers[language]))
        for key, count in zip(self._train_keys(), kept_by_source, strict=True):
            self.sources[key].record["kept"] = count
        self.splits["train"] = {"pairs": cleaned.report.kept, "clean": cleaned.report.as_dict(), **facts.as_dict()}

    def _encode_held_out(self, name: str, pairs: list[SentencePair], tokenizers: Tokenizers) -> None:
        """Write text and ids of a development or test set, and see that the ids spell the text."""
        facts = _Facts(tokenizers)
        round_trip = {"lines": 0, "exact": 0, "control": 0}
        for side, language in enumerate(self.languages):
            tokenizer = tokenizers[language]
            lines = [str(pair[side]) for pair in pairs]
            ids = tokenizer.encode_all(lines)
            write_lines(self.directory.text(name, language), lines)
            write_ids(self.directory, name, language, [IdChunk.of(ids, len(tokenizer))], len(tokenizer))
            facts.count(language, lines, ids)
            for number, (line, line_ids) in enumerate(zip(lines, ids, strict=True), start=1):
                round_trip["lines"] += 1
                if CONTROL.search(line):
                    round_trip["control"] += 1
                elif tokenizer.decode(line_ids) == line:
                    round_trip["exact"] += 1
                else:
                    raise DataError(f"{name}.{language}, line {number}: the tokenizer does not give it back as it was")
        report = CleanReport(read=len(pairs), kept=len(pairs))
        self.splits[name] = {
            "pairs": len(pairs), "clean": report.as_dict(), **facts.as_dict(), "round_trip": round_trip
        }

    def _write_manifest(self, wanted: dict[str, Any], tokenizers: Tokenizers) -> None:
        files = file_facts(self.directory)
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
        self.directory.manifest.write_text(f"{text}\n", encoding="utf-8", newline="\n")


@dataclass
class _Cleaned:
    """The cleaned training text, before it is encoded."""

    files: dict[str, Path]
    report: CleanReport
    source_ends: list[int] = field(default_factory=list)
    alphabet: dict[str, Counter[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.alphabet = {language: Counter() for language in self.files}

    def lines(self, language: str) -> Iterator[str]:
        with self.files[language].open("rb") as file:
            for raw in file:
                yield raw[:-1].decode("utf-8")

    def remove(self) -> None:
        for path in self.files.values():
            path.unlink()


class _Facts:
    """Words, pieces, and pieces that are single bytes or unknown, by language."""

    def __init__(self, tokenizers: Tokenizers) -> None:
        self._counts = {
            language: {"words": 0, "pieces": 0, "bytes": 0, "unknown": 0} for language in tokenizers.languages
        }

    def count(self, language: str, lines: list[str], ids: list[list[int]]) -> None:
        counts = self._counts[language]
        counts["words"] += sum(len(line.split()) for line in lines)
        counts["pieces"] += sum(map(len, ids))
        counts["bytes"] += sum(N_SPECIAL <= i < N_SPECIAL + 256 for line in ids for i in line)
        counts["unknown"] += sum(i < N_SPECIAL for line in ids for i in line)

    def as_dict(self) -> dict[str, Any]:
        return {"text": self._counts}


def _reasons(dropped: dict[str, int]) -> str:
    return ", ".join(f"{REASONS[reason]} {dropped[reason]:,}" for reason in REASONS if reason in dropped)


def _table(splits: dict[str, dict[str, Any]], config: Config, tokenizers: Tokenizers, reused: bool) -> Iterator[str]:
    """What was done, for the screen."""
    width = max(len(name) for name in splits)
    yield f"{'split':<{width}}  {'read':>11}  {'kept':>11}  {'dropped':>11}"
    for name, split in splits.items():
        clean = split["clean"]
        n_dropped = clean["read"] - clean["kept"]
        reasons = _reasons(clean["dropped"])
        yield f"{name:<{width}}  {clean['read']:>11,}  {clean['kept']:>11,}  {n_dropped:>11,}  {reasons}".rstrip()
    wanted = config.tokenizer.vocab_size
    for group in [tokenizers.languages] if tokenizers.joint else [(name,) for name in tokenizers.languages]:
        size = len(tokenizers[group[0]])
        how = ", taken as it is" if reused else f", all that this text has to merge ({wanted:,} were asked for)"
        yield f"vocabulary: {size:,} pieces for {' and '.join(group)}{how if reused or size < wanted else ''}"
    for language, counts in splits["train"]["text"].items():
        yield (
            f"{language}: {counts['pieces'] / max(counts['words'], 1):.2f} pieces per word, "
            f"{100 * counts['bytes'] / max(counts['pieces'], 1):.2f} % of them single bytes, {counts['unknown']} unknown"
        )
    for name, split in splits.items():
        if "round_trip" in split:
            trip = split["round_trip"]
            control = f", {trip['control']:,} with control characters left out" if trip["control"] else ""
            yield f"{name}: all {trip['exact']:,} lines come back exactly from their pieces (BLEU 100.0){control}"
