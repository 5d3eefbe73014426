"""The Typer application to which the commands are added, and the messages and exit statuses of errors."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from nmt.cli.command import Command, Misuse, no_such_command
from nmt.console import columns, say
from nmt.errors import NmtError
from nmt.files.write import write_problem
from nmt.process import SIGNALS, end_at_once, handling
from nmt.version import version as nmt_version

GROUPS = {
    "Stages": ("prepare", "train", "translate", "evaluate"),
    "Data": ("data", "align", "filter"),
    "Results": ("compare", "score", "calibrate", "challenge", "robustness", "runs", "plot"),
    "Recipes": ("adapt", "sweep", "rerank", "distil", "back-translate", "bidirectional"),
    "Sharing": ("import", "export", "push", "serve"),
    "Other commands": ("demo", "classify", "generate", "config"),
}
"""The commands by the heading under which the help lists them."""


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (Click's)
        return [name for names in GROUPS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (Click's)
        widest = max(map(len, self.commands))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), self.commands[name].get_short_help_str(99)) for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.terminal_width = columns(sys.stdout)  # for the help, also of the commands
        if not args or ctx.resilient_parsing:  # shows the help, or completes a word for a shell
            return super().parse_args(ctx, args)
        known = {name for option in self.get_params(ctx) for name in option.opts}
        with user_errors():
            if args[0].startswith("-") and args[0] != "--" and (name := args[0].partition("=")[0]) not in known:
                raise Misuse(f"No such option: {name}; options of a command follow its name: nmt COMMAND {name}")
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise Misuse(no_such_command(args[0], self.commands))
        return super().resolve_command(ctx, args)

    # Not around the whole program, because Typer would handle interrupts and closed pipes first.
    def invoke(self, ctx: Any) -> Any:
        with user_errors():
            result = super().invoke(ctx)
            if sys.stdout is not None:  # `nmt config >&-`
                sys.stdout.flush()
            return result


Function = TypeVar("Function", bound=Callable[..., Any])


class _App(typer.Typer):
    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        return super().command(name, cls=Command, **options)


app = _App(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_given: bool) -> None:
    if is_given:
        print(f"nmt {nmt_version()}")
        raise typer.Exit()


@app.callback()
def nmt(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show version and commit, and exit.")
    ] = False,
) -> None:
    """Train machine-translation models from raw parallel text and evaluate them.

    There are four stages, each of which reads a directory and writes another; `nmt demo` shows them in three minutes:

    \b
      nmt prepare    text -> data directory    clean, train a tokenizer, encode
      nmt train      data -> run directory     train a Transformer
      nmt translate  run -> translations       one line per input line
      nmt evaluate   run -> BLEU, chrF, TER    score a test set

    All settings are in one YAML file, by default base.yaml (IWSLT 2017, German-English). `nmt config` prints it with a
    description of each setting, and `nmt COMMAND --help` describes a command.

    \b
    Example, with the German-English corpus that is installed with nmt:
      nmt prepare --config sample.yaml
      nmt train --config sample.yaml
      nmt translate "Gestern hat Maria den Hund gefüttert."
      nmt evaluate
    """


INTERRUPTED, NOBODY_READS = 130, 141  # 128 + the signal's number, as shells report it
PATIENCE_SECONDS = 10.0  # time for rank 0 to report an error that occurs on all ranks
# Errors that a user can fix. Any other OSError is a bug and keeps its traceback.
_USER_ERRNOS = (
    "EACCES EPERM EROFS ENOSPC EDQUOT EFBIG EIO EISDIR ENOTDIR ENOENT ENAMETOOLONG EEXIST ELOOP ENXIO EBUSY ESTALE"
)


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors that a user can fix into `nmt: message` lines on standard error and an exit status.

    SIGTERM and SIGHUP raise an exception, as Ctrl-C does, so that no incomplete files are left behind.
    """
    with _ended_by_signals(), _errors():
        yield


class _Ended(BaseException):
    """An exception raised when the process receives SIGTERM or SIGHUP."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Raise `_Ended` on SIGTERM and SIGHUP, unless they are ignored, as SIGHUP is under nohup.

    Other errors after a signal are attributed to it, because libraries raise various errors if their import is
    interrupted.
    """
    received = []

    def end(number: int, _: FrameType | None) -> None:
        received.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        for other in handled:  # a second one must not interrupt the cleanup
            signal.signal(other, signal.SIG_IGN)
        raise _Ended

    handled = []
    if "RANK" not in os.environ:  # torchrun handles signals itself
        defaults = (signal.SIG_DFL, signal.default_int_handler, end_at_once)
        handled = [number for number in SIGNALS if signal.getsignal(number) in defaults]
    with handling(handled, end):
        try:
            yield
        except (Exception, _Ended):
            if not received:
                raise
            number = received[0]
            if number == signal.SIGINT:
                _fail(INTERRUPTED, "interrupted")
            _fail(128 + number, f"ended by {signal.Signals(number).name}")


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except NmtError as error:
        _fail(error.exit_status, *error.args)
    except KeyboardInterrupt:
        _fail(INTERRUPTED, "interrupted")
    except BrokenPipeError:
        sys.exit(NOBODY_READS)  # `nmt translate | head`
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) not in _USER_ERRNOS.split():
            raise
        _fail(2, f"{error.filename or 'output'}: {write_problem(error)}")
    except Exception as error:
        message = getattr(error, "format_message", None)  # Typer's own: an unknown option, an invalid value
        if message is None:
            raise
        if os.environ.get("RANK", "0") != "0":
            # The error occurs on all ranks and rank 0 reports it; torchrun then ends the others. If another rank ended
            # first, torchrun would end rank 0 before it could report the error.
            time.sleep(PATIENCE_SECONDS)
        said = message().rstrip(".").replace(": Value error, ", ": ")  # which some versions of Typer insert
        _fail(2, f"{said}; see --help")


def drop_unwritable() -> None:
    """Drop buffered output that cannot be written, which Python would report at its end with another exit status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # `nmt config >&-`
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(status: int, *lines: str) -> None:
    for line in lines:
        say(line)
    sys.exit(status)
