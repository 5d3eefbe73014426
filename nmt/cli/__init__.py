"""The command line, whose commands import their modules only when called, so that `--help` is fast.

Exit statuses: 0 success; 1 a run of a sweep failed; 2 bad input or configuration; 3 training diverged; 75 training was
stopped and can be resumed; 129, 130 and 143 ended by SIGHUP, Ctrl-C or SIGTERM; 141 the output was closed.
"""

from __future__ import annotations

from collections.abc import Sequence

from nmt.cli import challenge, demo, evaluate, export, prepare, recipes, runs, serve, train, translate  # noqa: F401
from nmt.cli.app import app, drop_unwritable
from nmt.process import set_up

__all__ = ["app", "main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the console script `nmt`. Always raises SystemExit with the exit status."""
    set_up()
    try:
        app(args=args, prog_name="nmt")
    finally:
        drop_unwritable()
