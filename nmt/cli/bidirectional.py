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
            help="Length of the training in both directions: 6000 for steps, 30m for minutes.",
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
    """Train a model in both directions, then continue in one of them.

    Bidirectional pre-training (Bi-SimCut, Gao et al., 2022): one model is trained on a corpus in both directions, which
    is twice the text, and then in the direction of the config only, with a new learning-rate schedule. The data
    directory must be prepared and have a joint vocabulary.

    The runs are runs/NAME-both and runs/NAME-both-DIRECTION, where NAME is the config's unless --name is given; each is
    trained as by nmt train, with --set for both. A length in minutes applies unless the config's training.max_steps
    ends the training before; it cuts a linear or cosine schedule short, so give steps with these.

    The same command continues: a finished stage is skipped, a stopped one resumed. With --set data.direction=en-de
    after de-en, the existing run in both directions is used. Ctrl-C and SIGTERM end it as they end nmt train, with
    status 75.

    \b
    Examples:
      nmt bidirectional --config multi30k.yaml --both 8000 --one 8000
      nmt bidirectional --config multi30k.yaml --both 8000 --one 8000 --set data.direction=en-de
      nmt bidirectional --config mine.yaml --both 60m --one 30m --set training.seed=2 --name mine-2
    """
    from nmt.recipes.bidirectional import Bidirectional
    from nmt.recipes.bidirectional import bidirectional as run_recipe

    raise typer.Exit(run_recipe(Bidirectional(config, both, one, overrides or (), name)))
