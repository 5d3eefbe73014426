"""`nmt runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.complete import runs as run_names
from nmt.errors import ConfigError


@app.command()
def runs(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Directory of runs.  [default: runs]", show_default=False)
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            "--curve",
            metavar="RUN",
            help="Print the learning curve of this run instead.",
            autocompletion=run_names,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")] = False,
) -> None:
    """List the runs of a directory, the newest first.

    Each with its state, its last step of training.max_steps, its best BLEU on the development set, how long it has
    trained, and how long ago it last wrote something. A run is running (the last column says on which host and in
    which process), finished, stopped (nmt train --resume goes on with it) or broken (the last column says what is
    damaged).

    --curve RUN prints the validations of one run as a table in Markdown: minutes, steps, and on the development set
    the BLEU of the weights as trained, of their moving average and of the mean of the last checkpoints, if there are
    any; chrF and perplexity are those of the weights with the highest BLEU.

    \b
    Examples:
      nmt runs
      nmt runs experiments --json
      nmt runs --curve runs/multi30k-de-en
    """
    if curve is not None:
        from nmt.layout import RunDir
        from nmt.runs.curve import curve_json, curve_table, learning_curve

        if directory is not None:
            raise ConfigError([f"{directory} and --curve {curve}: give one of them"])
        points = learning_curve(RunDir(curve))
        print(curve_json(points) if json else curve_table(points))
        return
    from nmt.runs.listing import render_json, render_text, summarise_all

    found = summarise_all(directory or Path("runs"))
    print(render_json(found) if json else render_text(found))
