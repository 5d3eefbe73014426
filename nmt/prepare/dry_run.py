"""Dry runs of `nmt prepare`: reports on kept and dropped training pairs, without a data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.config import Config
from nmt.console import show
from nmt.files.write import replace_file, writing
from nmt.prepare.pipeline.work import SIZES, Work
from nmt.prepare.prepare import open_builds, settle_all
from nmt.prepare.recipe import recipe, reused_tokenizers
from nmt.prepare.reporting.page import report_json, report_page, write_report
from nmt.prepare.reporting.report import Report
from nmt.prepare.reporting.screen import screen
from nmt.prepare.suspicions import lacking
from nmt.tasks.perform import TaskRunner
from nmt.tasks.processes import InProcess


def dry_run(
    config: Config,
    sample: int | None = None,
    report: Path | None = None,
    echo: Callable[[str], None] = show,
    engine: TaskRunner | None = None,
    tokenizer_from: Path | None = None,
) -> None:
    """Clean the training text of a config and report on it, without writing anything else.

    Args:
        sample: the maximum number of pairs of each corpus, evenly spread, that are cleaned; None: all pairs.
        report: the file (*.html or *.json), or the directory for both, to write the report to; None: no report.
        engine: the engine that processes the whole text; by default this process.
        tokenizer_from: as for `nmt.prepare.prepare.prepare`.

    Each of several pairs of languages has its own report.

    Raises DataError, also if no pairs are left, or HubError for the Hub.
    """
    reused, new = reused_tokenizers(tokenizer_from, config)
    # cleaning a sample takes less time than starting processes
    own = engine if engine is not None and sample is None else InProcess()
    with TemporaryDirectory(prefix="nmt-") as folder:
        builds = open_builds(config, Work(Path(folder), own, SIZES), sample)
        settle_all(builds, reused)
    for build in builds.values():
        if build.name:
            echo(build.name)
        if reused is not None:
            build.warnings += lacking(build.samples, reused)
        outcome = build.report(build.text.reports, recipe(build.config, reused, new), kind="dry run")
        for line in screen(outcome):
            echo(line)
        if config.data.mono:
            echo("data.mono was not read; a dry run covers only the training pairs")
        if report is not None:
            _write(report, outcome)
            echo(f"wrote {report}")


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
