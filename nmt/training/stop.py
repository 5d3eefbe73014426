"""Stopping before the end: a signal or a time limit ends a run after the update it is in."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818  (nothing went wrong)
    """A validation was left because the run is to stop."""


class Stop:
    """Whether this process was asked to stop, and by what."""

    def __init__(self, after_minutes: float | None = None) -> None:
        self.signal: str | None = None
        self._minutes = after_minutes
        self._deadline = None if after_minutes is None else time.monotonic() + 60 * after_minutes

    @property
    def reason(self) -> str | None:
        """By what it was asked to stop; None if it was not."""
        if self.signal is None and self._deadline is not None and time.monotonic() >= self._deadline:
            return f"--stop-after {self._minutes:g}"
        return self.signal

    def poll(self) -> None:
        """Raise Interrupted if the run is to stop: for work that can be done again."""
        if self.reason is not None:
            raise Interrupted

    def receive(self, number: int, _: FrameType | None = None) -> None:
        """The signal handler: note the signal; a second SIGINT interrupts at once."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name
        if os.environ.get("RANK", "0") == "0":
            with suppress(OSError):  # not print, which this handler may have interrupted
                line = f"\nnmt: {self.signal}: stopping after this update; a second Ctrl-C ends at once\n"
                os.write(sys.stderr.fileno(), line.encode())


@contextmanager
def stopping(after_minutes: float | None = None) -> Iterator[Stop]:
    """Have SIGTERM, SIGINT and SIGHUP, or the end of so many minutes, ask to stop instead of killing the process.

    A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """
    stop = Stop(after_minutes)
    before = {}
    if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, stop.receive) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
