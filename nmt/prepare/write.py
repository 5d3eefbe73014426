"""Write cleaned text to temporary files, and a data directory: text and ids of each split, then checksums."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.console import Progress
from nmt.data.manifest import FileRecord
from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.prepare.cleaning.cleaner import Cleaner
from nmt.prepare.cleaning.counts import CleanReport, total
from nmt.prepare.cleaning.grouping import pair_hash
from nmt.prepare.pairs import SentencePair
from nmt.prepare.records import TextRecord
from nmt.text.tokenizer import N_SPECIAL, Tokenizers


class Row(NamedTuple):
    """A kept pair, with the index of its source, from 0, and its line number there, from 1."""

    source: int
    line: int
    src: str
    tgt: str


class CleanedText:
    """The pairs of all sources in order, with a report on each source and character counts by language."""

    def __init__(self, folder: Path, languages: tuple[str, str]) -> None:
        self.languages = languages
        self.reports: list[CleanReport] = []
        self.alphabet = {language: Counter[str]() for language in languages}
        self._files = [folder / f"cleaned.{language}" for language in languages]
        self._origins = folder / "cleaned-origins"

    @property
    def report(self) -> CleanReport:
        """Sum of the reports of all sources."""
        return total(self.reports)

    def write(self, sources: Iterable[Iterator[SentencePair]], cleaners: Sequence[Cleaner]) -> Iterator[Row]:
        """Clean all sources; yield each kept row after it has been written."""
        seen: set[bytes] = set()
        with self._writing() as add:
            for number, (pairs, cleaner) in enumerate(zip(sources, cleaners, strict=True)):
                self.reports.append(cleaner.report)
                for pair in filter(None, map(cleaner.clean, pairs)):
                    row = Row(number, cleaner.report.read, pair.src, pair.tgt)
                    key = pair_hash(pair.src, pair.tgt)
                    if key in seen:
                        self.drop(row, "duplicate")
                        continue
                    seen.add(key)
                    self._count(row, 1)
                    add(row)
                    yield row

    def rows(self) -> Iterator[Row]:
        """Yield all pairs."""
        with self._origins.open("rb") as origins:
            for origin, src, tgt in zip(origins, *map(_lines, self._files), strict=True):
                source, line = origin.split()
                yield Row(int(source), int(line), src, tgt)

    def lines(self, language: str) -> Iterator[str]:
        """Yield one side of all pairs."""
        return _lines(self._files[self.languages.index(language)])

    def drop(self, row: Row, reason: str) -> None:
        """Count a row as dropped after all; it stays in the file."""
        self.reports[row.source].kept -= 1
        self.reports[row.source].drop(reason, row.line, row.src, row.tgt)

    def set_aside(self, pairs: Sequence[SentencePair], progress: Progress) -> None:
        """Remove and count these pairs, and every other pair that shares a side with one of them."""
        chosen, src, tgt = {pair[:2] for pair in pairs}, {pair.src for pair in pairs}, {pair.tgt for pair in pairs}
        with self._writing() as add:
            for row in progress.track(self.rows()):
                if row.src not in src and row.tgt not in tgt:
                    add(row)
                    continue
                self.drop(row, "valid" if row[2:] in chosen else "shared")
                self._count(row, -1)

    def remove(self) -> None:
        """Remove the files."""
        for path in (*self._files, self._origins):
            path.unlink()

    def _count(self, row: Row, by: int) -> None:
        for counter, text in zip(self.alphabet.values(), row[2:], strict=True):
            counter.update(text) if by > 0 else counter.subtract(text)

    @contextmanager
    def _writing(self) -> Iterator[Callable[[Row], None]]:
        """Context manager that writes replacement files while the old ones can still be read."""
        parts = {path: path.with_name(f"{path.name}.part") for path in (*self._files, self._origins)}
        with ExitStack() as stack:
            src_file, tgt_file, origins = (stack.enter_context(part.open("wb")) for part in parts.values())

            def add(row: Row) -> None:
                src_file.write(f"{row.src}\n".encode())
                tgt_file.write(f"{row.tgt}\n".encode())
                origins.write(b"%d %d\n" % row[:2])

            yield add
        for path, part in parts.items():
            part.replace(path)


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for raw in file:
            yield raw[:-1].decode("utf-8")


def samples_of(
    reports: Sequence[CleanReport], labels: Sequence[str], languages: Sequence[str]
) -> dict[str, list[dict[str, str | int]]]:
    """Return a few of the dropped pairs by reason, each with its corpus and its line number there.

    Those of the development set are left out: they are not lost, and have a file of their own.
    """
    reasons = [reason for reason in total(reports).dropped_in_order if reason != "valid"]
    return {
        reason: [
            {"source": f"train.{number}", "corpus": label, "line": line, **dict(zip(languages, texts, strict=True))}
            for number, (report, label) in enumerate(zip(reports, labels, strict=True))
            for line, *texts in report.samples.get(reason, [])
        ]
        for reason in reasons
    }


class SplitWriter:
    """Writes the text of one split as it comes, and its ids, held in two or four bytes each, at the end."""

    def __init__(self, directory: DataDir, split: str, tokenizers: Tokenizers) -> None:
        self.pairs = 0
        self._counts = {name: dict.fromkeys(TextRecord.model_fields, 0) for name in tokenizers.languages}
        self._directory, self._split = directory, split
        self._languages = tokenizers.languages
        self._dtype = {name: id_dtype(len(tokenizers[name])) for name in tokenizers.languages}
        self._ids: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in tokenizers.languages}
        self._lengths: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in tokenizers.languages}

    def __enter__(self) -> SplitWriter:
        self._files = [self._directory.text(self._split, language).open("wb") for language in self._languages]
        return self

    def add(self, lines: Sequence[Sequence[str]], ids: Sequence[Sequence[Sequence[int]]]) -> None:
        """Append pairs: `lines[side][i]` and `ids[side][i]`, sides in the alphabetical order of their languages."""
        self.pairs += len(lines[0])
        for side, language in enumerate(self._languages):
            self._files[side].writelines(f"{line}\n".encode() for line in lines[side])
            lengths = np.fromiter((len(line) for line in ids[side]), np.int64, len(ids[side]))
            every_id = itertools.chain.from_iterable(ids[side])
            flat: npt.NDArray[Any] = np.fromiter(every_id, self._dtype[language], int(lengths.sum()))
            self._ids[language].append(flat)
            self._lengths[language].append(lengths)
            counts = self._counts[language]
            words = [line.split() for line in lines[side]]
            counts["words"] += sum(map(len, words))
            counts["characters"] += sum(len(word) for line in words for word in line)
            counts["pieces"] += len(flat)
            counts["bytes"] += int(((flat >= N_SPECIAL) & (flat < N_SPECIAL + 256)).sum())
            counts["unknown"] += int((flat < N_SPECIAL).sum())

    def record(self) -> dict[str, TextRecord]:
        """Return the counts so far, by language."""
        return {language: TextRecord(**counts) for language, counts in self._counts.items()}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for file in self._files:
            file.close()
        if kind is None:
            for language in self._languages:
                ids = np.concatenate([np.zeros(0, self._dtype[language]), *self._ids[language]])
                lengths = np.concatenate([np.zeros(0, np.int64), *self._lengths[language]])
                np.save(self._directory.ids(self._split, language), ids)
                np.save(self._directory.ends(self._split, language), np.cumsum(lengths, dtype=np.int64))


def id_dtype(n_pieces: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest type that holds every id of a vocabulary of `n_pieces`."""
    return np.uint16 if n_pieces <= 2**16 else np.uint32


def file_facts(directory: Path) -> dict[str, FileRecord]:
    """Return size and SHA-256 of every file below a directory, sorted by name."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): FileRecord(bytes=path.stat().st_size, sha256=checksum(path))
        for path in paths
    }


def content_fingerprint(files: Mapping[str, FileRecord]) -> str:
    """Return a hash of sixteen hexadecimal digits of the names and checksums of all files."""
    text = "".join(f"{name} {files[name].sha256}\n" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
