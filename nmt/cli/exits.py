"""How a command ends: one line on standard error for each problem that a user can fix, and an exit status."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nmt.console import say
from nmt.errors import NmtError

INTERRUPTED, NOBODY_READS = 130, 141  # 128 + the signal's number, as shells report it
PATIENCE_SECONDS = 10.0  # for rank 0 to report first
# Errors that a user can fix; any other OSError is a bug and keeps its traceback.
USER_ERRNOS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT,
    errno.EFBIG, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EEXIST,
    errno.ELOOP, errno.ENXIO, errno.EBUSY, errno.ESTALE,
}  # fmt: skip


@contextmanager
def errors_for_people() -> Iterator[None]:
    """Turn errors that a user can fix into `nmt: message` lines on standard error and an exit status.

    SIGTERM and SIGHUP end a command as Ctrl-C does, so that nothing half-written stays.
    """
    with _ended_by_signals(), _errors():
        yield


class _Ended(BaseException):
    """The process received SIGTERM or SIGHUP."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise an exception that unwinds the command, unless they are ignored, as under nohup."""

    def end(number: int, _: FrameType | None) -> None:
        for each in heard:  # a second signal must not interrupt the cleanup
            signal.signal(each, signal.SIG_IGN)
        raise _Ended(number)

    heard = []
    # torchrun handles signals itself, and Python allows handlers in the main thread only
    if "RANK" not in os.environ and threading.current_thread() is threading.main_thread():
        heard = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) == signal.SIG_DFL]
    for each in heard:
        signal.signal(each, end)
    try:
        yield
    except _Ended as ended:
        number = signal.Signals(ended.args[0])
        _fail(128 + number, f"ended by {number.name}")
    finally:
        for each in heard:
            signal.signal(each, signal.SIG_DFL)


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
        message = getattr(error, "format_message", None)  # raised by Typer: an unknown option, value or command
        if message is None:
            raise
        if os.environ.get("RANK", "0") != "0":
            # All ranks find the same error and rank 0 reports it; torchrun then ends this process. If this one ended
            # first, torchrun would end rank 0 before it could report.
            time.sleep(PATIENCE_SECONDS)
        _fail(2, f"{message().rstrip('.')}; see --help")


def _fail(status: int, *lines: str) -> None:
    for line in lines:
        say(line)
    sys.exit(status)
