"""`nmt runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app


@app.command()
def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory that contains runs.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")] = False,
) -> None:
    """List the runs in a directory, newest first.

    Columns: state, last step of training.max_steps, best BLEU on the development set, training time, and time since the
    last write. A run is running (the last column names host and process), finished, stopped (nmt train --resume
    continues it) or broken (the last column says what is damaged).

    \b
    Examples:
      nmt runs
      nmt runs experiments --json
    """
    from nmt.runs.listing import render_json, render_text, summarise_all

    found = summarise_all(directory)
    print(render_json(found) if json else render_text(found))
