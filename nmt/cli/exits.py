"""How a command ends: one line on standard error for each thing a user can put right, and an exit status."""

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
PATIENCE_SECONDS = 10.0  # with the first of several processes
# What a user can put right; any other OSError is a defect and keeps its traceback.
USER_ERRNOS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT,
    errno.EFBIG, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EEXIST,
    errno.ELOOP, errno.ENXIO, errno.EBUSY, errno.ESTALE,
}  # fmt: skip


@contextmanager
def errors_for_people() -> Iterator[None]:
    """Turn what a user can put right into `nmt: message` lines on standard error and an exit status. A request to end
    ends a command as Ctrl-C does, so that nothing half-written stays."""
    with _ended_by_signals(), _errors():
        yield


class _Ended(BaseException):
    """The process was asked to end."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise what unwinds the command, unless they are ignored, as SIGHUP is under nohup."""

    def end(number: int, _: FrameType | None) -> None:
        for each in heard:  # a second one does not disturb the cleaning up
            signal.signal(each, signal.SIG_IGN)
        raise _Ended(number)

    heard = []
    # torchrun has its own ways, and elsewhere than in the main thread Python allows no handlers
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
        message = getattr(error, "format_message", None)  # Typer's own: an option, a value or a command there is not
        if message is None:
            raise
        if os.environ.get("RANK", "0") != "0":
            # Of several processes, which all find the same, the first tells; torchrun then ends this one. Were this
            # one to end before that, torchrun would end the first, and nobody would have told.
            time.sleep(PATIENCE_SECONDS)
        _fail(2, f"{message().rstrip('.')}; --help shows what there is")


def _fail(status: int, *lines: str) -> None:
    for line in lines:
        say(line)
    sys.exit(status)
