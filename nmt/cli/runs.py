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
        Path | None,
        typer.Argument(metavar="DIR", help="Directory that contains runs.  [default: runs]", show_default=False),
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
    """List the runs in a directory and in the sweeps there, newest first.

    Columns: state, last step of training.max_steps, best BLEU on the development set (of a run that does not
    translate: accuracy or perplexity), the test set that nmt evaluate measured last with its BLEU or accuracy (an
    asterisk: ignored case, or another note), training time, and time since the last write. A run is running (the last
    column names host and process), finished, stopped (nmt train --resume continues it) or broken (the last column says
    what is damaged).

    --curve RUN prints the validations of one run as a Markdown table: minutes, steps, and development BLEU of the
    weights as trained, of their moving average and of the mean of the last checkpoints, as far as there are any; chrF
    and perplexity are those of the weights with the highest BLEU. Of a run that does not translate: perplexity and
    accuracy.

    \b
    Examples:
      nmt runs
      nmt runs experiments --json
      nmt runs --curve runs/multi30k-de-en
    """
    if curve is not None:
        from nmt.layout import RunDir
        from nmt.runs.log import curve_json, curve_table, learning_curve

        if directory is not None:
            raise ConfigError([f"{directory} and --curve {curve}: give one of them"])
        points = learning_curve(RunDir(curve))
        print(curve_json(points) if json else curve_table(points))
        return
    from nmt.runs.listing import render_json, render_text, summarise_all

    summaries = summarise_all(directory or Path("runs"))
    print(render_json(summaries) if json else render_text(summaries))
