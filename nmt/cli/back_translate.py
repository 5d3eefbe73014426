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
        Literal["sample", "beam", "greedy"], typer.Option("--how", help="Search method, see above.")
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
    """Create training pairs from text in the target language.

    Back-translation (Sennrich et al., 2016). A run of the other direction translates monolingual target text; the next
    model is trained on these translations as sources of the text, in addition to the authentic pairs.

    --how sample draws each translation at random: more varied sources teach more (Edunov et al., 2018) if the reverse
    run is good. With little authentic text, samples have too many errors, and beam or greedy search is better; greedy
    is the faster of the two.

    Line n of the synthetic source belongs to line n of the text. Lines that are blank, too long (data.max_chars), with
    control characters, or in a development or test set are not translated: they are left blank and counted. A
    translation that occurs in a development or test set is left out, too. If the development set was split off the
    training text (a number in data.valid), the authentic pairs are those of the prepared text, which shares no side
    with it. Translations that nmt prepare will drop (length ratio, copies …) are counted as well, except duplicates.

    Authentic and synthetic pairs have the same weight: start with as many lines as there are authentic pairs (head -n,
    shuf -n), or balance more lines with --upsample (data.train.N.repeat).

    Writes to --output the translations (synthetic.LANG), their counts (report.json), and a configuration with all
    corpora (config.yaml). Prints the commands that follow, and runs them with --train: prepare (with the reverse run's
    tokenizer), train, evaluate.

    It can be stopped at any time: the same command continues with the chunk of 4,096 lines that it had reached, and
    translates nothing if all is done. If it is stopped in training, the status is 75, and the same command resumes it.

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
