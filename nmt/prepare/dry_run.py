"""`nmt prepare --dry-run`: what would be kept and dropped of the training text, without a data directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from nmt.config import Config
from nmt.console import Progress, show
from nmt.files.write import replace_file, writing
from nmt.prepare.held_out import read_held_out
from nmt.prepare.pairs import OpenSource
from nmt.prepare.pipeline.read import Part, write_part
from nmt.prepare.pipeline.run import TrainingText, settle_read, settle_text
from nmt.prepare.pipeline.work import SIZES, Work
from nmt.prepare.recipe import recipe
from nmt.prepare.reporting.page import report_json, report_page, write_report
from nmt.prepare.reporting.report import Report, corpus_reports
from nmt.prepare.reporting.screen import corpus_warnings, screen
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.suspicions import Place, Sample, with_places
from nmt.tasks.perform import Engine
from nmt.tasks.processes import InProcess

_Item = TypeVar("_Item")


def dry_run(
    config: Config,
    sample: int | None = None,
    report: Path | None = None,
    echo: Callable[[str], None] = show,
    engine: Engine | None = None,
) -> None:
    """Clean the training text of a config and report on it, without writing anything else.

    Args:
        sample: maximum number of pairs that are cleaned of each corpus, spread over it; None: all.
        report: where to write the report: a file named *.html or *.json, or a directory for both; None: nowhere.
        engine: does the work on the whole text; by default this process.

    Raises DataError, also if nothing is left of the text, or HubError for the hub.
    """
    root = text_folder(config.data.root)
    trial = _Trial(config, {key: open_source(each, config.data.languages, root) for key, each in config.data.sources()})
    with TemporaryDirectory(prefix="nmt-") as folder:
        # a sample is cleaned before other processes would have started
        own = engine if engine is not None and sample is None else InProcess()
        # the content of block lists: only work that goes on needs it
        work = Work(Path(folder), own, SIZES, {"block lists": ""})
        text = trial.settle(work, sample)
        outcome = trial.report(text, sample)
    for line in screen(outcome):
        echo(line)
    if config.data.mono:
        echo("data.mono was not read: a dry run covers only the training pairs")
    if report is not None:
        _write(report, outcome)
        echo(f"wrote {report}")


class _Trial:
    """Cleans the training text, or a sample of it."""

    def __init__(self, config: Config, sources: dict[str, OpenSource]) -> None:
        self._config, self._sources = config, sources
        self._train = {key: source for key, source in sources.items() if key.startswith("train.")}
        self._warnings: list[str] = []
        self._held_out = read_held_out(sources, self._warnings)
        self._places: dict[str, dict[int, Place]] = {}  # of the pairs of a sample, by corpus

    def settle(self, work: Work, sample: int | None) -> TrainingText:
        """Clean the text, or at most `sample` pairs of each corpus."""
        pairs = [pair for own in self._held_out.values() for pair in own]
        if sample is None:
            return settle_text(work, self._config.data, self._train, pairs)
        parts, skipped, lines = [], [], []
        for key, source in self._train.items():
            with Progress(f"reading {key}", None, "pairs") as progress:
                chosen = spread(with_places(progress.track(source.pairs())), sample)
            self._places[key] = {number: place for number, (_, place) in enumerate(chosen, start=1)}
            folder = work.folder / "sample" / key
            write_part(folder, [pair for pair, _ in chosen])
            parts.append(
                Part(key=key, corpus=source.record.corpus, first=0, n=len(chosen), lines=str(folder), version="")
            )
            skipped.append(dict(source.units.skipped))
            lines.append([place.line for _, place in chosen])
        # nothing is split off: it would be most of the sample
        data = self._config.data.model_copy(update={"valid": self._config.data.train[0]})
        text = settle_read(work, data, parts, skipped, pairs)
        for report, own in zip(text.reports, lines, strict=True):
            report.renumber([0, *own].__getitem__)
        return text

    def report(self, text: TrainingText, sample: int | None) -> Report:
        """Return the report on the text."""
        languages = self._config.data.languages
        records = {key: source.record for key, source in self._sources.items()}
        for key, skipped in zip(self._train, text.skipped, strict=True):
            records[key] = records[key].model_copy(update={"skipped": skipped})
        names = {key: record.corpus for key, record in records.items()}
        samples = text.samples()
        for key, places in self._places.items():
            samples[key].places = [places[place.line] for place in samples[key].places]
        others = {key: Sample.of(pair[:2] for pair in pairs) for key, pairs in self._held_out.items()}
        reports = dict(zip(self._train, text.reports, strict=True))
        held_out = self._held_out if text.split_off is None else {"valid": text.split_off, **self._held_out}
        return Report(
            kind="dry run",
            sample=sample,
            languages=languages,
            corpora=corpus_reports(reports, records, samples, languages),
            held_out={key.removeprefix("test."): len(pairs) for key, pairs in held_out.items()},
            warnings=self._warnings + text.warnings + corpus_warnings(reports, samples | others, languages, names),
            settings=recipe(self._config),
        )


def _write(path: Path, report: Report) -> None:
    texts = {".html": report_page, ".json": report_json}
    text = texts.get(path.suffix.lower())
    with writing(path):
        folder = path if text is None else path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if text is None:
            write_report(path, report)
        else:
            replace_file(path, text(report))


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
