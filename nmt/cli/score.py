"""`nmt score`: how probable a run finds given translations."""

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
    reference: Annotated[Path, typer.Option("--ref", metavar="F", help="… and its translations, a line for each.")],
    run: RunsOption = None,
    model: ModelOption = None,
    output: Annotated[str, typer.Option("--output", metavar="F|-", help="Where to, - for standard output.")] = "-",
    tokens: Annotated[
        bool, typer.Option("--tokens", help="A JSON object for each pair, with the log-probability of every piece.")
    ] = False,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score given translations, a line for every pair of lines.

    Raw UTF-8 text in, line by line in pairs. Out come three columns separated by tabs: score, log-probability, number
    of pieces, the end of sentence counted. The score is what search ranks by, the log-probability divided by the
    length penalty: with the settings a run has by default it is the mean over the pieces. Logarithms are natural.

    With --tokens every pair has a JSON object instead: score, log_prob, pieces, log_probs (of each piece, given the
    source and the pieces before it), and cut.

    A pair with a blank side is not scored: nan, nan, 0, or null with --tokens. Of a line that is too long for the
    model the start is read and scored (cut is true). Both are counted on standard error, with the totals:
    log-probability, and perplexity per piece and per word.

    \b
    Examples:
      nmt score --src test.de --ref test.en
      nmt score --run runs/multi30k-de-en --src test.de --ref test.en --tokens --output scores.jsonl
      nmt score --src test.de --ref test.en | sort -g | head
    """
    from nmt.cli.defaults import search_settings, what_translates
    from nmt.console import Progress, n_lines
    from nmt.translate.score import read_pairs, write_scores
    from nmt.translate.translator import Translator

    pairs = read_pairs(source, reference)
    translator = Translator.load(what_translates(run, model), checkpoint, weights, precision=precision)
    search = search_settings(translator.config, None, length_penalty, overrides or ())
    with Progress("scoring", n_lines(source), "pairs", shown=output != "-") as progress:
        totals = write_scores(translator.score(pairs, search, progress), output, tokens)
    for line in totals.lines():
        say(line)
