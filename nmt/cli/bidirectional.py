"""`nmt bidirectional`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import ConfigOption, SetOption


@app.command()
def bidirectional(
    both: Annotated[
        str,
        typer.Option(
            "--both",
            metavar="LENGTH",
            help="Length of the training in both directions, in steps (6000) or minutes (30m).",
            show_default=False,
        ),
    ],
    one: Annotated[
        str,
        typer.Option("--one", metavar="LENGTH", help="Length of the training in one direction.", show_default=False),
    ],
    config: ConfigOption = "base.yaml",
    overrides: SetOption = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the runs.  [default: the config's]")
    ] = None,
) -> None:
    """Train in both directions, then continue in one.

    Bidirectional pre-training (Bi-SimCut; Gao et al., 2022): one model is trained on a corpus in both directions, which
    doubles the text, and then only in the direction of the config, with a new learning rate schedule. The data
    directory must exist and have a joint vocabulary.

    The runs are runs/NAME-both and runs/NAME-both-DIRECTION, where NAME is by default that of the config. Both are
    trained as by nmt train, and --set applies to both. With a length in minutes, training also ends at the config's
    training.max_steps. Linear and cosine schedules need a length in steps, because minutes would cut them short.

    If interrupted, the same command continues: it skips a finished stage and resumes a stopped one. With --set
    data.direction=en-de after de-en, the existing run in both directions is reused. Ctrl-C and SIGTERM are handled as
    by nmt train, with exit status 75.

    \b
    Examples:
      nmt bidirectional --config multi30k.yaml --both 8000 --one 8000
      nmt bidirectional --config multi30k.yaml --both 8000 --one 8000 --set data.direction=en-de
      nmt bidirectional --config mine.yaml --both 60m --one 30m --set training.seed=2 --name mine-2
    """
    from nmt.recipes.bidirectional import Bidirectional
    from nmt.recipes.bidirectional import bidirectional as run_recipe

    raise typer.Exit(run_recipe(Bidirectional(config, both, one, overrides or (), name)))
