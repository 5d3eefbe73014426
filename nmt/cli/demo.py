"""The command `nmt demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import option
from nmt.console import is_typed, show
from nmt.layout import RunDir

CONFIG = "sample.yaml"


@app.command()
def demo(
    context: typer.Context,
    run: Annotated[Path, option("--run", "Run directory to write, or to continue.", "DIR")] = Path("runs/demo"),
) -> None:
    """Train and try a small German-English translator.

    In about three minutes, runs nmt prepare, train and evaluate on the sample corpus that is installed with nmt, and
    shows these commands. The data directory data/prepared/sample and a run directory are written into the working
    directory. At a terminal, the demo ends with nmt translate --interactive, where you can type German sentences; the
    model knows only the 600 German words of the corpus. If the command was interrupted, it continues.

    \b
    Examples:
      nmt demo
    """
    training = ["train", "--resume"] if RunDir(run).info.exists() else ["train", "--config", CONFIG]
    commands = [
        ["prepare", "--config", CONFIG],
        [*training, "--run", str(run)],
        ["evaluate", "--run", str(run), "--samples", "10"],
        ["translate", "--interactive", "--run", str(run)],
    ]
    if not is_typed():
        commands.pop()
    for command in commands:
        if "--interactive" in command:
            show("The model knows only 600 German words; other sentences come out as nonsense.")
        show(f"$ nmt {shlex.join(command)}")
        context.find_root().command.main(command, prog_name="nmt", standalone_mode=False)
    show("For a translator of your own text, see docs/your-data.md.")
