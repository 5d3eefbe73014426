"""`nmt prepare --dry-run`: what would be kept and dropped of the training text, without a data directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from nmt.config import Config
from nmt.console import Progress, show
from nmt.errors import DataError
from nmt.files.write import replace_file
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.corpus_filters import SAMPLE_PAIRS, CorpusFilter, corpus_filters
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.cleaning.grouping import Grouping, groupings
from nmt.prepare.held_out import read_held_out
from nmt.prepare.languages import Sample
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.recipe import recipe
from nmt.prepare.reporting.page import report_page
from nmt.prepare.reporting.report import Report, corpus_report
from nmt.prepare.reporting.screen import screen
from nmt.prepare.reporting.warnings import corpus_warnings
from nmt.prepare.reporting.write import report_json, write_report
from nmt.prepare.sources import open_source, text_folder

_BLOCK = 10_000  # pairs that filters judge at a time
_Item = TypeVar("_Item")


class _Row(NamedTuple):
    """A pair that is left, with the key of its corpus and its line number there, from 1."""

    key: str
    line: int
    src: str
    tgt: str


def dry_run(
    config: Config, sample: int | None = None, report: Path | None = None, echo: Callable[[str], None] = show
) -> None:
    """Clean the training text of a config and report on it, without writing anything else.

    Args:
        sample: maximum number of pairs that are cleaned of each corpus, spread over it; None: all.
        report: where to write the report: a file named *.html or *.json, or a directory for both; None: nowhere.

    Raises DataError, or HubError for the hub.
    """
    root = text_folder(config.data.root)
    trial = _Trial(config, {key: open_source(each, config.data.languages, root) for key, each in config.data.sources()})
    outcome = trial.run(sample)
    for line in screen(outcome):
        echo(line)
    if report is not None:
        _write(report, outcome)
        echo(f"wrote {report}")


def _write(path: Path, report: Report) -> None:
    texts = {".html": report_page, ".json": report_json}
    text = texts.get(path.suffix.lower())
    try:
        folder = path if text is None else path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if text is None:
            write_report(path, report)
        else:
            replace_file(path, text(report))
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error


class _Trial:
    """Cleans the training text without keeping it."""

    def __init__(self, config: Config, sources: dict[str, OpenSource]) -> None:
        self._config, self._sources = config, sources
        self._keys = [f"train.{number}" for number in range(len(config.data.train))]
        self._warnings: list[str] = []
        self._held_out = read_held_out(sources, self._warnings)
        self._lines = HeldOut.of(pair for pairs in self._held_out.values() for pair in pairs)
        self._sampled: dict[str, list[tuple[int, SentencePair]]] = {}
        self._reports: dict[str, CleanReport] = {}

    def run(self, sample: int | None) -> Report:
        """Clean the text, or a sample of it."""
        if sample is not None:
            for key in self._keys:
                with Progress(f"reading {key}", None, "pairs") as progress:
                    pairs = progress.track(self._sources[key].pairs())
                    self._sampled[key] = spread(enumerate(pairs, start=1), sample)
        samples = {key: Sample() for key in self._keys}
        for row in self._judged(self._learned()):
            self._reports[row.key].keep(row.line, row.src, row.tgt)
            samples[row.key].add(row.src, row.tgt)
        records = {
            key: source.record.model_copy(update={"skipped": dict(source.units.skipped)})
            for key, source in self._sources.items()
        }
        names = {key: record.corpus for key, record in records.items()}
        held_out = {key: Sample.of(pair[:2] for pair in pairs) for key, pairs in self._held_out.items()}
        languages = self._config.data.languages
        warnings = corpus_warnings(self._reports, samples | held_out, languages, names)
        return Report(
            kind="dry run",
            sample=sample,
            languages=languages,
            corpora=[
                corpus_report(key, records[key], self._reports[key], samples[key], languages) for key in self._keys
            ],
            held_out={key.removeprefix("test."): len(pairs) for key, pairs in self._held_out.items()},
            warnings=self._warnings + warnings,
            settings=recipe(self._config),
        )

    def _pairs(self, key: str) -> Iterable[tuple[int, SentencePair]]:
        """Return the pairs of a corpus that are to be cleaned, with their line numbers."""
        return self._sampled.get(key) or enumerate(self._sources[key].pairs(), start=1)

    def _cleaned(self) -> Iterator[_Row]:
        """Clean and group all corpora anew; yield what is left. Of alike pairs the first are kept, whatever their
        scores: their number is the same."""
        rules = [(rule, Counter[bytes]()) for rule in groupings(self._config.data)]
        for key in self._keys:
            cleaner = Cleaner(self._config.data, key, self._lines)
            report = self._reports[key] = cleaner.report
            n_read = 0
            with Progress(f"cleaning {key}", None, "pairs") as progress:
                for line, pair in progress.track(self._pairs(key)):
                    n_read += 1
                    report.read = line - 1  # the cleaner takes the line number from it
                    cleaned = cleaner.clean(pair)
                    if cleaned is None:
                        continue
                    row = _Row(key, line, *cleaned[:2])
                    reason = _group(row, rules)
                    if reason is None:
                        yield row
                    else:
                        self._drop(row, reason)
            report.read = n_read

    def _learned(self) -> dict[str, list[tuple[CorpusFilter, bytes]]]:
        """Let the filters of each corpus learn from a sample of what is left."""
        filters = {key: corpus_filters(self._config.data, key) for key in self._keys}
        if not any(filters.values()):
            return {key: [] for key in self._keys}
        samples = {
            key: spread(((row.src, row.tgt) for row in rows), SAMPLE_PAIRS)
            for key, rows in groupby(self._cleaned(), attrgetter("key"))
        }
        together = spread((pair for pairs in samples.values() for pair in pairs), SAMPLE_PAIRS)
        learned: dict[str, list[tuple[CorpusFilter, bytes]]] = {}
        shared: dict[str, bytes] = {}
        for key, pairs in samples.items():
            learned[key] = []
            for each in filters[key]:
                if not each.per_corpus and each.reason not in shared:
                    shared[each.reason] = each.learn(together)
                learned[key].append((each, each.learn(pairs) if each.per_corpus else shared[each.reason]))
        return learned

    def _judged(self, learned: dict[str, list[tuple[CorpusFilter, bytes]]]) -> Iterator[_Row]:
        """Clean and group all corpora, and apply the filters; yield what is left."""
        for key, rows in groupby(self._cleaned(), attrgetter("key")):
            while block := list(islice(rows, _BLOCK)):
                for each, knowledge in learned[key]:
                    is_dropped = each.dropped(knowledge, [(row.src, row.tgt) for row in block]).tolist()
                    for row, dropped in zip(block, is_dropped, strict=True):
                        if dropped:
                            self._drop(row, each.reason)
                    block = [row for row, dropped in zip(block, is_dropped, strict=True) if not dropped]
                yield from block

    def _drop(self, row: _Row, reason: str) -> None:
        report = self._reports[row.key]
        report.kept -= 1
        report.drop(reason, row.line, row.src, row.tgt)


def _group(row: _Row, rules: Sequence[tuple[Grouping, Counter[bytes]]]) -> str | None:
    """Return the reason why a pair is dropped beside those before it; None if it is kept."""
    for rule, seen in rules:
        key = rule.key(row.src, row.tgt)
        if seen[key] == rule.most:
            return rule.reason
        seen[key] += 1
    return None


def spread(items: Iterable[_Item], n: int) -> list[_Item]:
    """Return at most `n` of the items, at equal distances up to one, in memory for twice as many."""
    chosen: list[_Item] = []
    stride = 1
    for number, item in enumerate(items):
        if number % stride == 0:
            if len(chosen) == 2 * n:
                chosen = chosen[::2]
                stride *= 2
            if number % stride == 0:
                chosen.append(item)
    return [chosen[i * len(chosen) // n] for i in range(n)] if len(chosen) > n else chosen
