"""`nmt plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.complete import runs as run_names
from nmt.console import say, show


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
    from nmt.plots.curves import plot as draw

    for line in draw(runs, output):
        say(line)
    show(f"{output}: written")
