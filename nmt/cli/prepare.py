"""`nmt prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.hints import refuse_corpus
from nmt.cli.options import AddressOption, ConfigOption, DataOption, SetOption, TasksOption, WorkersOption
from nmt.config.load import load_config
from nmt.errors import ConfigError


@app.command()
def prepare(
    config: ConfigOption = "base.yaml",
    data: DataOption = None,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option("--tokenizer-from", metavar="RUN", help="Use the tokenizer of this run instead of training one."),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Add new corpora, at the end of data.train, to a sharded data directory.")
    ] = False,
    engine: TasksOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    overrides: SetOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only clean the training text and report on it.")] = False,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", min=1, help="Dry run on N pairs of each corpus, evenly spread."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="PATH", help="Write the report of a dry run to a .html or .json file, or a directory."
        ),
    ] = None,
) -> None:
    """Prepare parallel text for training as a data directory.

    Reads the corpora named in the config, drops unusable pairs and counts them by reason, removes training pairs that
    occur in a development or test set, holds out a development set if the config names none, trains a SentencePiece
    tokenizer on the training text, and writes text, token ids and a manifest. The data directory serves both
    directions. If it is up to date, nothing is done. Large corpora are prepared in parallel, with one process per core;
    if the preparation is interrupted, the same command continues it.

    A training text of more than 2^20 pairs is divided into shards. --append then adds corpora that are new at the end
    of data.train without preparing the others again; the vocabulary and the development and test sets do not change.

    report.html in the directory shows what was dropped and what was kept, with samples. --dry-run shows the same before
    anything is prepared. --sample 1000 takes only seconds and is useful for trying out cleaning settings.

    \b
    Examples:
      nmt prepare --config sample.yaml
      nmt prepare --config sample.yaml --sample 1000 --report build/report.html
      nmt prepare --config multi30k.yaml --set data.root=corpora/multi30k
      nmt prepare --config mine.yaml --data data/prepared/mine --tokenizer-from runs/base-de-en
    """
    is_dry = dry_run or sample is not None
    if append and tokenizer_from is not None:
        raise ConfigError(["--tokenizer-from: not available with --append, which keeps the vocabulary"])
    if problems := _refused(is_dry, {"--data": data, "--tokenizer-from": tokenizer_from, "--append": append}, report):
        raise ConfigError(problems)
    from nmt.prepare.append import append as run_append
    from nmt.prepare.dry_run import dry_run as run_dry
    from nmt.prepare.prepare import prepare as run_stage
    from nmt.tasks.engines import open_engine

    refuse_corpus([config])
    settings = load_config(config, overrides or ())
    with open_engine(engine, workers, address) as tasks:
        if is_dry:
            run_dry(settings, sample, report, engine=tasks)
            return
        if append:
            run_append(settings, data or settings.data.directory, engine=tasks)
            return
        run_stage(settings, data or settings.data.directory, tokenizer_from, engine=tasks)


def _refused(is_dry: bool, directories: dict[str, Path | bool | None], report: Path | None) -> list[str]:
    """Return problems of the combination of options."""
    if is_dry:
        return [f"{name}: not available in a dry run" for name, value in directories.items() if value]
    return ["--report: needs --dry-run or --sample; nmt prepare always writes a report"] if report else []
