"""Dry runs of `nmt prepare`: reports on kept and dropped training pairs, without a data directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from nmt.config import Config, DataConfig
from nmt.console import Progress, show
from nmt.files.write import replace_file, writing
from nmt.prepare.held_out import held_out_elsewhere, read_held_out
from nmt.prepare.pairs import OpenSource, SentencePair, naming
from nmt.prepare.pipeline.clean import Others
from nmt.prepare.pipeline.read import Part, write_part
from nmt.prepare.pipeline.settle import TrainingText, settle_parts, settle_text
from nmt.prepare.pipeline.work import SIZES, Work
from nmt.prepare.recipe import recipe
from nmt.prepare.reporting.page import report_json, report_page, write_report
from nmt.prepare.reporting.report import Report, corpus_reports
from nmt.prepare.reporting.screen import corpus_warnings, screen
from nmt.prepare.sources import open_source, text_folder
from nmt.prepare.suspicions import Place, Sample, samples_of, with_places
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
        sample: the maximum number of pairs of each corpus, evenly spread, that are cleaned; None: all pairs.
        report: the file (*.html or *.json), or the directory for both, to write the report to; None: no report.
        engine: the engine that processes the whole text; by default this process.

    Of several pairs of languages each has its own report, which knows what is held out for the others.

    Raises DataError, also if no pairs are left, or HubError for the Hub.
    """
    root = text_folder(config.data.root)
    # cleaning a sample takes less time than starting processes
    own = engine if engine is not None and sample is None else InProcess()
    trials = [_Trial(config.towards(direction), root) for direction in config.data.pairs.values()]
    has_several = len(trials) > 1
    for trial in trials:
        with naming(trial.pair) if has_several else nullcontext():
            trial.held_out, trial.warnings = read_held_out(trial.sources)
    held_out = {trial.pair: [*chain.from_iterable(trial.held_out.values())] for trial in trials}
    for trial in trials:
        if has_several:
            echo("-".join(trial.pair))
        with naming(trial.pair) if has_several else nullcontext():
            outcome = trial.clean(held_out_elsewhere(trial.pair, held_out) if has_several else None, sample, own)
        for line in screen(outcome):
            echo(line)
        if config.data.mono:
            echo("data.mono was not read; a dry run covers only the training pairs")
        if report is not None:
            _write(report, outcome)
            echo(f"wrote {report}")


class _Trial:
    """A pair of languages whose training text is cleaned."""

    def __init__(self, config: Config, root: Path) -> None:
        self.config, self.pair = config, config.data.pair
        self.sources = {key: open_source(each, self.pair, root) for key, each in config.data.sources()}
        self.held_out: dict[str, list[SentencePair]] = {}
        self.warnings: list[str] = []

    def clean(self, others: Others | None, sample: int | None, engine: Engine) -> Report:
        """Clean the training text, or a sample, and return the report on it; `others`: see `choose_text`."""
        data, sources, held_out = self.config.data, self.sources, self.held_out
        pairs = list(chain.from_iterable(held_out.values()))
        train = {key: source for key, source in sources.items() if key.startswith("train.")}
        with TemporaryDirectory(prefix="nmt-") as folder:
            # the checksums of block lists are needed only to resume work
            work = Work(Path(folder), engine, SIZES, {"block lists": ""})
            if sample is None:
                text = settle_text(work, data, train, pairs, others=others)
                samples = text.samples()
            else:
                text, samples = _settle_sample(work, data, train, pairs, others, sample)
        records = {key: source.record for key, source in sources.items()}
        for key, skipped in zip(train, text.skipped, strict=True):
            records[key] = records[key].model_copy(update={"skipped": skipped})
        names = {key: record.corpus for key, record in records.items()}
        reports = dict(zip(train, text.reports, strict=True))
        found = text.warnings + corpus_warnings(reports, samples | samples_of(held_out), data.pair, names)
        if text.split_off is not None:
            held_out = {"valid": text.split_off, **held_out}
        return Report(
            kind="dry run",
            sample=sample,
            languages=data.pair,
            corpora=corpus_reports(reports, records, samples, data.pair),
            held_out={key.removeprefix("test."): len(own) for key, own in held_out.items()},
            warnings=self.warnings + found,
            settings=recipe(self.config),
        )


def _settle_sample(
    work: Work,
    data: DataConfig,
    train: Mapping[str, OpenSource],
    held_out: list[SentencePair],
    others: Others | None,
    n: int,
) -> tuple[TrainingText, dict[str, Sample]]:
    """Clean at most `n` pairs of each corpus. Returns the training text, and a sample of each corpus."""
    parts, skipped, places = [], [], dict[str, list[Place]]()
    for key, source in train.items():
        with Progress(f"reading {key}", None, "pairs") as progress:
            chosen = spread(with_places(progress.track(source.pairs())), n)
        places[key] = [place for _, place in chosen]
        folder = work.folder / "sample" / key
        write_part(folder, [pair for pair, _ in chosen])
        parts.append(Part(key=key, corpus=source.record.corpus, first=0, n=len(chosen), lines=str(folder), version=""))
        skipped.append(dict(source.units.skipped))
    # nothing is split off, since that would be most of the sample
    text = settle_parts(work, data.model_copy(update={"valid": data.train[0]}), parts, skipped, held_out, others=others)
    samples = text.samples()
    for report, (key, own) in zip(text.reports, places.items(), strict=True):
        report.renumber([0, *(place.line for place in own)].__getitem__)
        samples[key].places = [own[place.line - 1] for place in samples[key].places]
    return text, samples


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
    """Return at most `n` items at nearly regular intervals, using memory for twice as many."""
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
