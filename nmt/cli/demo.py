"""The command `nmt demo`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import option
from nmt.console import say, show
from nmt.layout import RunDir

CONFIG = "sample.yaml"
N_LINES = 3


@app.command()
def demo(
    context: typer.Context,
    run: Annotated[Path, option("--run", "Run directory to write, or to continue.", "DIR")] = Path("runs/demo"),
) -> None:
    """Train a small German-English translator and try it, in about three minutes.

    Runs nmt prepare, train, evaluate and translate on the sample corpus that is installed with nmt, and shows these
    commands. Writes the data directory data/prepared/sample and a run directory into the working directory. At a
    terminal, you can then type German sentences; the model knows only the 600 German words of the corpus. If the
    command was interrupted, it continues.

    \b
    Examples:
      nmt demo
    """
    training = ["train", "--resume"] if RunDir(run).info.exists() else ["train", "--config", CONFIG]
    commands = [
        ["prepare", "--config", CONFIG],
        [*training, "--run", str(run)],
        ["evaluate", "--run", str(run), "--samples", "10"],
    ]
    for command in commands:
        show(f"$ nmt {shlex.join(command)}")
        context.find_root().command.main(command, prog_name="nmt", standalone_mode=False)
    show(f"$ nmt translate --interactive --run {shlex.quote(str(run))}")
    _translate(run)


def _translate(run: Path) -> None:
    """Translate the first lines of the test set and, at a terminal, those that are typed."""
    from nmt.prepare.sources import SAMPLE, text_folder
    from nmt.text.lines import read_lines
    from nmt.translate.interactive import COMMANDS, PROMPT, Prompt, interact, typed_lines
    from nmt.translate.translator import Translator
    from nmt.translate.types import Options

    def opened(path: Path) -> Prompt:
        translator = Translator.load(path)
        return Prompt.of(str(path), translator, Options(translator.config.search))

    def lines() -> Iterator[str]:
        for line in islice(read_lines(text_folder(str(SAMPLE)) / "test.de"), N_LINES):
            show(f"{PROMPT}{line}")
            yield line
        if sys.stdin is not None and sys.stdin.isatty():
            say(f"type a German sentence with such words, and Enter; {COMMANDS}")
            yield from typed_lines()

    interact(opened(run), lines(), opened)
