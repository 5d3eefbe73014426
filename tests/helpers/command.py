"""The command line in this process."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

from nmt.cli import main


@dataclass(frozen=True)
class Result:
    """How a command ended and what it wrote."""

    status: int | str | None
    out: str
    err: str


Command = Callable[..., Result]


def run_command(*arguments: object) -> Result:
    """The command line `nmt ARGUMENTS…` in this process: no start of an interpreter, no import of torch."""
    before = sys.stdout, sys.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.stdout, sys.stderr = out, err
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        status = end.code
    finally:
        sys.stdout, sys.stderr = before
    written = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return Result(status, *written)
