"""Commands of `nmt` that a recipe runs, each in a process of its own, on this terminal."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from nmt.config import Config
from nmt.config.load import dump_config
from nmt.console import say, show
from nmt.errors import StoppedError
from nmt.files.write import replace_file
from nmt.layout import RunDir
from nmt.process import SIGNALS
from nmt.recipes.directory import RecipeDir


def follow(directory: RecipeDir, counts: dict[str, int], config: Config, run_them: bool) -> int:
    """Write config.yaml, then print the counts and the commands that follow, and run these if `run_them`.

    Return the exit status of the first command that fails, else 0.
    """
    replace_file(directory.config, dump_config(config))
    for name, n in counts.items():
        show(f"{n:>12,}  {name}")
    path, run = str(directory.config), str(config.run_directory)
    commands = [
        ["prepare", "--config", path, "--tokenizer-from", str(directory.runs[0])],
        ["train", *resume_option(RunDir(config.run_directory)), "--config", path, "--run", run],
        *(["evaluate", "--run", run, "--split", split] for split in config.data.test),
    ]
    for command in commands:
        show(shlex.join(["nmt", *command]))
        if run_them and (status := run_nmt(command)):
            return status
    return 0


def resume_option(run: RunDir) -> list[str]:
    """Return `--resume` if the run has started; `nmt train` then refuses settings other than the run's."""
    return ["--resume"] if run.info.is_file() else []


def run_nmt(arguments: Sequence[str]) -> int:
    """Run `nmt` with these arguments in another process, and return its exit status."""
    status = wait_for([sys.executable, "-m", "nmt", *arguments])
    if status == StoppedError.exit_status:
        say("stopped; run the same command again to continue")
    return status


def wait_for(command: Sequence[str]) -> int:
    """Run a command and return its exit status, 128 + N if signal N killed it, as shells report it.

    A signal to stop is forwarded, and the command is waited for, since `nmt train` needs time to save.
    """
    child = subprocess.Popen(command)

    def forward(number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT:  # a terminal sends it to both, and a second one would end the command at once
            child.send_signal(number)

    handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in handled}
    try:
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
