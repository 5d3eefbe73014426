"""`nmt prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import AddressOption, ConfigOption, DataOption, SetOption, TasksOption, WorkersOption
from nmt.config.load import load_config


@app.command()
def prepare(
    config: ConfigOption = "base.yaml",
    data: DataOption = None,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option("--tokenizer-from", metavar="RUN", help="Use this run's tokenizer instead of training one."),
    ] = None,
    engine: TasksOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    overrides: SetOption = None,
) -> None:
    """Prepare raw parallel text for training: write a data directory.

    Reads the corpora named in the config, drops unusable pairs and counts them by reason, removes training pairs that
    occur in a development or test set, splits off a development set if the config names none, trains a SentencePiece
    tokenizer on the training text, and writes text, ids and a manifest. The directory serves both translation
    directions. If nothing has changed since the last time, it does nothing. Large corpora are prepared by a process for
    each core; a preparation that was stopped goes on where it was when the command is repeated.

    \b
    Examples:
      nmt prepare --config sample.yaml
      nmt prepare --config multi30k.yaml --set data.root=corpora/multi30k
      nmt prepare --config mine.yaml --data data/prepared/mine --tokenizer-from runs/base-de-en
    """
    from nmt.prepare.prepare import prepare as run_stage
    from nmt.tasks.engines import open_engine

    settings = load_config(config, overrides or ())
    with open_engine(engine, workers, address) as tasks:
        run_stage(settings, data or settings.data.directory, tokenizer_from, engine=tasks)
