"""`nmt score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    CheckpointOption,
    ModelOption,
    PenaltyOption,
    PrecisionOption,
    RunsOption,
    SearchOption,
    WeightsOption,
)
from nmt.console import say


@app.command()
def score(
    source: Annotated[Path, typer.Option("--src", metavar="F", help="Source text …")],
    reference: Annotated[Path, typer.Option("--ref", metavar="F", help="… and its translations, line by line.")],
    run: RunsOption = None,
    model: ModelOption = None,
    output: Annotated[str, typer.Option("--output", metavar="F|-", help="File to write, - for standard output.")] = "-",
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print a JSON object per pair, with the log-probability of each piece.")
    ] = False,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Compute the log-probability of given translations (forced decoding).

    Reads two files of raw UTF-8 text line by line and prints three columns separated by tabs: score, log-probability,
    and number of pieces including the end of sentence. The score is what search ranks by: the log-probability divided
    by the length penalty; with the default settings it is the mean per piece. Logarithms are natural.

    With --tokens, prints a JSON object per pair instead: score, log_prob, pieces, log_probs (of each piece, given the
    source and the previous pieces), and cut.

    A pair with a blank side is not scored: nan, nan, 0, or null with --tokens. If a line is too long for the model,
    only its start is scored (cut is true). Both are counted on standard error, followed by the totals: log-probability,
    and perplexity per piece and per word.

    \b
    Examples:
      nmt score --src test.de --ref test.en
      nmt score --run runs/multi30k-de-en --src test.de --ref test.en --tokens --output scores.jsonl
      nmt score --src test.de --ref test.en | sort -g | head
    """
    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.console import Progress, n_lines
    from nmt.translate.score import read_pairs, write_scores
    from nmt.translate.translator import Translator

    pairs = read_pairs(source, reference)
    translator = Translator.load(resolve_models(run, model), checkpoint, weights, precision=precision)
    search = search_settings(translator.config, None, length_penalty, overrides or ())
    with Progress("scoring", n_lines(source), "pairs", shown=output != "-") as progress:
        totals = write_scores(translator.score(pairs, search, progress), output, tokens)
    for line in totals.lines():
        say(line)
