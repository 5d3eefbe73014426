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
            metavar="RUN", help="Run directories, or folders of runs.", show_default=False, autocompletion=run_names
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="Image to write: .png, .pdf or .svg.")
    ] = Path("plot.png"),
) -> None:
    """Plot the learning curves of one or more runs.

    Shows loss on the training and development sets, BLEU on the development set (accuracy for runs that write no text)
    and learning rate, over steps and over training time. Losses exclude label smoothing and the pair task. They are in
    nats per token; for masked language models and masked spans per masked piece, and for classifiers per text. The
    image is readable in black and white. Long training curves are drawn as means, with their range in grey.

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
