"""`nmt back-translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.complete import configs
from nmt.cli.options import FollowOption, RecipeOutput, ReverseOption, SetOption, TranslatingOption


@app.command("back-translate")
def back_translate(
    reverse: ReverseOption,
    mono: Annotated[
        Path,
        typer.Option(
            "--mono",
            metavar="FILE",
            help="Text in the target language, one sentence per line; .gz, .bz2, .xz and .zst are decompressed.",
            show_default=False,
        ),
    ],
    output: RecipeOutput,
    how: Annotated[
        Literal["sample", "beam", "greedy"], typer.Option("--how", help="How to translate, see above.")
    ] = "sample",
    search: TranslatingOption = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Config with the authentic corpora.  [default: that of --reverse, in the opposite direction]",
            autocompletion=configs,
        ),
    ] = None,
    overrides: SetOption = None,
    upsample: Annotated[
        int, typer.Option("--upsample", metavar="N", min=1, help="Repeat authentic pairs N times in the training text.")
    ] = 1,
    train: FollowOption = False,
) -> None:
    """Create synthetic training pairs from monolingual text.

    Back-translation (Sennrich et al., 2016): a run of the opposite direction translates target text, and the next model
    is trained on the resulting pairs in addition to the authentic ones.

    --how sample samples translations from the model. With a good reverse run, the greater variety of sources improves
    the result (Edunov et al., 2018). With little authentic text, samples contain too many errors, and beam or greedy
    search is better; greedy search is faster.

    Line n of the synthetic source is the translation of line n of the text. Lines that are blank, too long
    (data.max_chars), contain control characters, or occur in a development or test set are left blank and counted, as
    are translations that occur in a development or test set. Translations that nmt prepare will drop for other reasons
    except duplication, such as the length ratio, are counted as well. If the development set was held out of the
    training text (a number in data.valid), the authentic pairs are those of the prepared text, which has no side in
    common with it.

    Authentic and synthetic pairs have the same weight. Start with as many lines as there are authentic pairs (head -n,
    shuf -n), or balance more lines with --upsample (data.train.N.repeat).

    Writes to --output the translations (synthetic.LANG), statistics (report.json) and a configuration with all corpora
    (config.yaml). Prints the commands that follow and, with --train, runs them: prepare (with the reverse run's
    tokenizer), train and evaluate.

    If interrupted, the same command continues with the current chunk of 4,096 lines. If interrupted while training, the
    exit status is 75, and the same command resumes the training.

    \b
    Examples:
      nmt train --config mine.yaml --set data.direction=en-de
      nmt back-translate --reverse runs/mine-en-de --mono news.en --config mine.yaml --output data/back/news
      nmt back-translate --reverse runs/mine-en-de --mono news.en --how greedy --upsample 2 --output data/back/n --train
    """
    from nmt.cli.defaults import search_settings
    from nmt.recipes.back_translate import SEARCHES, BackTranslation
    from nmt.recipes.back_translate import back_translate as run_recipe
    from nmt.recipes.directory import run_config

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
