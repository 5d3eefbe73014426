"""`nmt classify`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import CheckpointOption, PrecisionOption, RunOption, WeightsOption


@app.command()
def classify(
    run: RunOption = None,
    source: Annotated[
        str, typer.Option("--input", metavar="F|-", help="Texts to classify, - for standard input.")
    ] = "-",
    target: Annotated[str, typer.Option("--output", metavar="F|-", help="File to write, - for standard output.")] = "-",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print all labels, the most probable first.")
    ] = False,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Predict the label of each line with a classifier.

    The run must have been trained with training.objective: classification. Reads plain UTF-8 text and writes a label, a
    tab and its probability for each line; blank lines stay blank. With --probabilities, all labels are written with
    their probabilities, separated by tabs, the most probable first. Only the start of a text is used if it is longer
    than four times data.max_pieces.

    \b
    Examples:
      echo "A bright and moving film." | nmt classify
      nmt classify --run runs/imdb --input reviews.txt --output labels.tsv
      nmt classify --run runs/imdb --input reviews.txt --probabilities
    """
    from nmt.cli.defaults import run_or_newest
    from nmt.translate.classification import Classifier, classify_file

    classifier = Classifier.load(run_or_newest(run), checkpoint, weights, precision=precision)
    classify_file(classifier, source, target, probabilities)
