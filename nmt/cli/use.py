"""`nmt translate`: what a translator is for."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import BeamOption, CheckpointOption, PenaltyOption, RunOption, WeightsOption


@app.command()
def translate(
    run: RunOption = None,
    source: Annotated[
        str, typer.Option("--input", metavar="F|-", help="Text to translate, - for standard input.")
    ] = "-",
    target: Annotated[str, typer.Option("--output", metavar="F|-", help="Where to, - for standard output.")] = "-",
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    n_best: Annotated[
        int, typer.Option("--n-best", metavar="N", min=1, help="Translations per line; at most as many as the beam.")
    ] = 1,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
) -> None:
    """Translate text, a line for every line.

    Raw UTF-8 text in, raw text out; blank lines stay blank. Lines are read 4,096 at a time and sorted by length (at a
    terminal, one at a time). Standard output gets each line as soon as its batch is done; a file is written as
    F.part and renamed when it is complete.

    With --n-best N above 1 every line has up to N translations, best first, in four columns separated by tabs: line
    number, score, log-probability, translation.

    \b
    Examples:
      echo "Der Hund schläft." | nmt translate
      nmt translate --run runs/multi30k-de-en --input news.de --output news.en
      nmt translate --beam 10 --n-best 10 --input news.de
    """
    from nmt.defaults import run_or_newest, search_settings
    from nmt.translate import Translator, translate_file

    translator = Translator.load(run_or_newest(run), checkpoint, weights)
    translate_file(translator, source, target, search_settings(translator.config, beam, length_penalty), n_best)
