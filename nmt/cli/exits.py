"""Conversion of errors that a user can fix into a message and an exit status."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nmt.console import say
from nmt.errors import NmtError
from nmt.process import SIGNALS, end_at_once, handling

INTERRUPTED, NOBODY_READS = 130, 141  # 128 + the signal's number, as shells report it
PATIENCE_SECONDS = 10.0  # time for rank 0 to report an error that occurs on all ranks
# Errors that a user can fix. Any other OSError is a bug and keeps its traceback.
USER_ERRNOS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT,
    errno.EFBIG, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EEXIST,
    errno.ELOOP, errno.ENXIO, errno.EBUSY, errno.ESTALE,
}  # fmt: skip


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
    received: list[int] = []

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
        if error.errno not in USER_ERRNOS:
            raise
        _fail(2, f"{error.filename or 'output'}: {error.strerror}")
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
