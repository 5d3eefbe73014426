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
        Path, typer.Option("--output", metavar="FILE", help="Picture to write: .png, .pdf or .svg.")
    ] = Path("plot.png"),
) -> None:
    """Plot the learning curves of one or more runs.

    Loss on the training and development sets, BLEU on the development set (of runs that write no text: accuracy) and
    learning rate, over steps and over training time. Both losses are without label smoothing, in nats per token; of
    masked language models, without the pair task, and of a masked span per masked piece; of classifiers per text. The
    picture is readable in black and white. A long training curve is drawn as means, with the range that each summarises
    in grey.

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
