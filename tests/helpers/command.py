"""The command line in this process."""

import functools
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import typer.main

from nmt.cli import main

# Typer would build all commands again at every call, which takes longer than most of these tests.
typer.main.get_command = functools.cache(typer.main.get_command)


@dataclass(frozen=True)
class Result:
    """The exit status and output of a command."""

    status: int | str | None
    out: str
    err: str


Command = Callable[..., Result]


def run_command(*arguments: object) -> Result:
    """Runs `nmt ARGUMENTS…` in this process, without starting an interpreter or importing torch again."""
    before = sys.stdout, sys.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.stdout, sys.stderr = out, err
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        status = end.code
    finally:
        sys.stdout, sys.stderr = before
    written = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Result(status, *written)
