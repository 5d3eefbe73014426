"""`nmt runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app


@app.command()
def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of runs.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")] = False,
) -> None:
    """List the runs of a directory, the newest first.

    Each with its state, its last step of training.max_steps, its best BLEU on the development set, how long it has
    trained, and how long ago it last wrote something. A run is running (the last column says on which host and in
    which process), finished, stopped (nmt train --resume goes on with it) or broken (the last column says what is
    damaged).

    \b
    Examples:
      nmt runs
      nmt runs experiments --json
    """
    from nmt.runs.listing import render_json, render_text, summarise_all

    found = summarise_all(directory)
    print(render_json(found) if json else render_text(found))
