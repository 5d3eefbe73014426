"""`nmt back-translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.complete import configs, runs
from nmt.cli.options import FollowOption, RecipeOutput, SetOption, TranslatingOption


@app.command("back-translate")
def back_translate(
    reverse: Annotated[
        Path,
        typer.Option(
            "--reverse",
            metavar="RUN",
            help="Run that translates from target to source.",
            show_default=False,
            autocompletion=runs,
        ),
    ],
    mono: Annotated[
        Path,
        typer.Option(
            "--mono",
            metavar="FILE",
            help="Text in the target language, a sentence a line; .gz is decompressed.",
            show_default=False,
        ),
    ],
    output: RecipeOutput,
    how: Annotated[
        Literal["sample", "beam", "greedy"], typer.Option("--how", help="How to translate; see above.")
    ] = "sample",
    search: TranslatingOption = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Config with the authentic corpora.  [default: --reverse's, in the other direction]",
            autocompletion=configs,
        ),
    ] = None,
    overrides: SetOption = None,
    upsample: Annotated[
        int, typer.Option("--upsample", metavar="N", min=1, help="Repeat authentic pairs N times in the training text.")
    ] = 1,
    train: FollowOption = False,
) -> None:
    """Turn text in the target language into training pairs.

    Back-translation (Sennrich et al., 2016). A run of the other direction translates monolingual target text; the model
    that follows learns to translate these translations into the text, beside the authentic pairs.

    --how sample draws each translation at random: more varied sources teach more (Edunov et al., 2018). That holds
    where the reverse run is good. With little authentic text samples have too many errors, and beam or greedy search
    is better; greedy is the faster of the two.

    Line n of the synthetic source belongs to line n of the text. Not translated, but blank and counted, are lines that
    are blank, too long (data.max_chars), with control characters, or in a development or test set; a translation that
    is in one is left out, too. If the development set was split off the training text (a number in data.valid), the
    authentic pairs are those of the prepared text, which shares no side with it. Translations that nmt prepare will
    drop (length ratio, copies …) are counted, too; duplicates only it can find.

    Authentic and synthetic pairs have the same weight: take as many lines (head -n, shuf -n) as suits the authentic
    text, at first as many as there are pairs, or balance more lines by --upsample (data.train.N.repeat).

    The directory --output gets the translations, synthetic.LANG, counts, report.json, and config.yaml with all corpora.
    The commands that follow are printed, and with --train also run: prepare (with the reverse run's tokenizer), train,
    evaluate.

    It may be stopped at any moment: the same command goes on with the chunk of 4,096 lines it was at, and translates
    nothing if all is done. Stopped while it trains, it ends with status 75 and the same command resumes the training.

    \b
    Examples:
      nmt train --config mine.yaml --set data.direction=en-de
      nmt back-translate --reverse runs/mine-en-de --mono news.en --config mine.yaml --output data/back/news
      nmt back-translate --reverse runs/mine-en-de --mono news.en --how greedy --upsample 2 --output data/back/n --train
    """
    from nmt.cli.defaults import search_settings
    from nmt.recipes.back_translate import SEARCHES, BackTranslation
    from nmt.recipes.back_translate import back_translate as run_recipe
    from nmt.recipes.configs import run_config

    changes = [*SEARCHES[how], *(f"search.{setting}" for setting in search or ())]
    request = BackTranslation(
        reverse=reverse,
        mono=mono,
        output=output,
        search=search_settings(run_config(reverse), None, None, changes),
        config=config,
        overrides=overrides or (),
        upsample=upsample,
        run_commands=train,
    )
    raise typer.Exit(run_recipe(request))
