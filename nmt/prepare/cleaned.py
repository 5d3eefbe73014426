"""The cleaned training text in temporary files: every pair with its source and line number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt.console import Progress
from nmt.prepare.clean import Cleaner, CleanReport, total
from nmt.prepare.pairs import SentencePair


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
        """The sum over all sources."""
        return total(self.reports)

    def write(self, sources: Iterable[Iterator[SentencePair]], cleaner: Cleaner) -> Iterator[Row]:
        """Clean all sources; yield each kept row after it has been written."""
        with self._writing() as add:
            for number, pairs in enumerate(sources):
                cleaner.report = CleanReport()
                self.reports.append(cleaner.report)
                for pair in filter(None, map(cleaner.clean, pairs)):
                    row = Row(number, cleaner.report.read, pair.src, pair.tgt)
                    self._count(row, 1)
                    add(row)
                    yield row

    def rows(self) -> Iterator[Row]:
        """All pairs."""
        with self._origins.open("rb") as origins:
            for origin, src, tgt in zip(origins, *map(_lines, self._files), strict=True):
                source, line = origin.split()
                yield Row(int(source), int(line), src, tgt)

    def lines(self, language: str) -> Iterator[str]:
        """One side of all pairs."""
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
        """Rewrite the files while the old ones can still be read."""
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
    """A few of the dropped pairs by reason, each with its corpus and its line number there.

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
