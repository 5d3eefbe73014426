"""The command line. Each command imports its stage inside, so help comes at once.

Exit statuses: 0 done; 1 a training of a sweep failed; 2 bad input or configuration; 3 training gave up; 75 training was
stopped and can be resumed; 129, 130 and 143 ended by SIGHUP, Ctrl-C or SIGTERM; 141 nobody reads the output.
"""

from __future__ import annotations

from collections.abc import Sequence

from nmt.cli import (
    back_translate,
    bidirectional,
    config,
    distil,
    evaluate,
    export,
    plot,
    prepare,
    runs,
    score,
    sweep,
    train,
    translate,
)
from nmt.cli.app import app
from nmt.process import set_up

__all__ = [
    "app",
    "back_translate",
    "bidirectional",
    "config",
    "distil",
    "evaluate",
    "export",
    "main",
    "plot",
    "prepare",
    "runs",
    "score",
    "sweep",
    "train",
    "translate",
]


def main(args: Sequence[str] | None = None) -> None:
    """The console script `nmt`; always ends in SystemExit with the exit status."""
    set_up()
    app(args=args, prog_name="nmt")
