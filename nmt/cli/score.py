"""`nmt score`."""

from __future__ import annotations

from functools import partial
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
from nmt.errors import ConfigError


@app.command()
def score(
    reference: Annotated[Path, typer.Option("--ref", metavar="F", help="Translations to score, one per line …")],
    source: Annotated[
        Path | None, typer.Option("--src", metavar="F", help="… and their source text; not for language models.")
    ] = None,
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
    """Compute log-probabilities of given translations.

    Forced decoding: reads two files of plain UTF-8 text and prints four tab-separated columns: line number, score,
    log-probability and translation, as `nmt translate --scores` does. The score is the one that the search maximizes:
    the log-probability divided by the length penalty, which by default is the mean per piece. Logarithms are natural.

    --tokens prints a JSON object per pair instead, with score, log_prob, pieces, log_probs (of each piece given the
    source and the previous pieces) and cut.

    The score of a pair with a blank side is nan (null with --tokens). If a line is too long for the model, only its
    start is scored, and cut is true. Both cases are counted on standard error, followed by the total log-probability
    and the perplexity per piece and per word.

    A language model (training.objective: causal) scores the lines of --ref without --src.

    \b
    Examples:
      nmt score --src test.de --ref test.en
      nmt score --run runs/multi30k-de-en --src test.de --ref test.en --tokens --output scores.jsonl
      nmt score --src test.de --ref test.en | sort -g -k2,2 | head
      nmt score --run runs/lm-en --ref test.en
    """
    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.console import Progress, n_lines
    from nmt.translate.language_model import LanguageModel
    from nmt.translate.score import read_pairs, read_text, write_scores
    from nmt.translate.translator import Translator

    paths = resolve_models(run, model)
    if source is None:
        text = read_text(reference)
        if len(paths) > 1:
            raise ConfigError(["--src F must be given to score translations with several runs"])
        try:
            language_model = LanguageModel.load(paths[0], checkpoint, weights, precision=precision)
        except ConfigError as error:
            raise ConfigError(
                [f"{problem}; to score translations, add --src F" for problem in error.problems]
            ) from None
        config, score_all, noun = language_model.config, partial(language_model.score, text), "line"
    else:
        pairs = read_pairs(source, reference)
        translator = Translator.load(paths, checkpoint, weights, precision=precision)
        config, score_all, noun = translator.config, partial(translator.score, pairs), "pair"
    search = search_settings(config, None, length_penalty, overrides or ())
    with Progress("scoring", n_lines(reference), f"{noun}s", shown=output != "-") as progress:
        totals = write_scores(score_all(search, progress), output, tokens, noun)
    for line in totals.lines():
        say(line)
