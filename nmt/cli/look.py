"""`nmt runs`, `nmt plot` and `nmt config`: what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.complete import runs as run_names
from nmt.cli.options import ConfigOption, SetOption
from nmt.config_file import dump_config, load_config
from nmt.console import say, show


@app.command()
def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of runs.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")] = False,
) -> None:
    """List the runs of a directory, the newest first.

    Each with its state, its last step of training.max_steps, its best BLEU on the development set, how long it has
    trained, and how long ago it last wrote something. A run is running (the last column says on which host and in
    which process), finished, stopped (nmt train --resume goes on with it) or broken (the last column says what is
    damaged).

    \b
    Examples:
      nmt runs
      nmt runs experiments --json
    """
    from nmt.runs import render_json, render_text, summarise_all

    found = summarise_all(directory)
    print(render_json(found) if json else render_text(found))


@app.command()
def plot(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Run directories, or directories of them.", show_default=False, autocompletion=run_names
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="The picture; its ending is .png, .pdf or .svg.")
    ] = Path("plot.png"),
) -> None:
    """Draw the curves of one or several runs into one picture.

    Loss on training and development set, BLEU on the development set and learning rate, over steps and over time of
    training. Both losses are without label smoothing, in nats per token. The picture can be read in black and white.
    A long training curve is drawn as means, with the range of what they stand for in grey behind them.

    \b
    Examples:
      nmt plot runs/sample-de-en
      nmt plot runs/multi30k-de-en runs/multi30k-en-de --output curves.pdf
      nmt plot runs/sweep-sample
    """
    from nmt.plot import plot as draw

    for line in draw(runs, output):
        say(line)
    show(f"{output}: written")


@app.command("config")
def show_config(config: ConfigOption = "base.yaml", overrides: SetOption = None) -> None:
    """Print a configuration in full, with the meaning of every setting.

    What is printed is a valid configuration file: a start for one of your own.

    \b
    Examples:
      nmt config
      nmt config --config multi30k.yaml --set data.direction=en-de > mine.yaml
      nmt config --config runs/sample-de-en/config.yaml
    """
    print(dump_config(load_config(config, overrides or ()), comments=True), end="")
