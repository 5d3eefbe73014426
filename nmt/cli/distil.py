"""`nmt distil`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.complete import configs, runs
from nmt.cli.options import FollowOption, RecipeOutput, SetOption, TranslatingOption


@app.command()
def distil(
    teacher: Annotated[
        list[Path],
        typer.Option(
            "--teacher",
            metavar="RUN",
            help="Run that translates; repeat for an ensemble.",
            show_default=False,
            autocompletion=runs,
        ),
    ],
    output: RecipeOutput,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Data directory to translate.  [default: the teacher's]"),
    ] = None,
    n_best: Annotated[
        int,
        typer.Option(
            "--n-best", metavar="K", min=1, help="Use the best of K translations by similarity to the reference."
        ),
    ] = 1,
    nearest: Annotated[
        Literal["chrf", "bleu"], typer.Option("--nearest", help="Sentence-level similarity metric for --n-best.")
    ] = "chrf",
    with_originals: Annotated[
        bool, typer.Option("--with-originals", help="Also train the student on the references.")
    ] = False,
    beam: Annotated[
        int | None,
        typer.Option("--beam", metavar="N", min=1, help="Beam size of the teacher.  [default: its config's]"),
    ] = None,
    search: TranslatingOption = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Model, training and search settings of the student.  [default: the teacher's]",
            autocompletion=configs,
        ),
    ] = None,
    overrides: SetOption = None,
    train: FollowOption = False,
) -> None:
    """Translate the training text with a teacher model.

    Sequence-level knowledge distillation (Kim and Rush, 2016): a teacher (a run or an ensemble) translates the training
    text of its data directory, and a student is trained on the translations. Because its translations are more regular
    than human ones, a smaller or faster student can learn them well. --n-best K uses, of the teacher's K best
    translations, the one that is most similar to the reference (sequence-level interpolation).

    Writes to --output the translations (distilled.LANG), statistics (report.json) and the student's configuration
    (config.yaml), which is that of the teacher with the changes of --config and --set. The development and test sets
    stay the same. Prints the commands that follow and, with --train, runs them: prepare (with the teacher's tokenizer),
    train and evaluate.

    If interrupted, the same command continues with the current chunk of 4,096 lines. If interrupted while training, the
    exit status is 75, and the same command resumes the training.

    \b
    Examples:
      nmt distil --teacher runs/big-de-en --output data/distilled/small --set model.decoder_layers=2
      nmt distil --teacher runs/a --teacher runs/b --n-best 5 --with-originals --output data/distilled/ab --train
      nmt distil --teacher runs/big-de-en --beam 8 --config small.yaml --output data/distilled/small
    """
    from nmt.cli.defaults import search_settings
    from nmt.recipes.directory import run_config
    from nmt.recipes.distil import Distillation
    from nmt.recipes.distil import distil as run_recipe

    changes = [f"search.{setting}" for setting in search or ()]
    request = Distillation(
        teachers=teacher,
        output=output,
        search=search_settings(run_config(teacher[0]), beam, None, changes),
        data=data,
        n_best=n_best,
        nearest=nearest,
        with_originals=with_originals,
        student=config,
        overrides=overrides or (),
        run_commands=train,
    )
    raise typer.Exit(run_recipe(request))
