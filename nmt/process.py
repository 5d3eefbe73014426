"""The process that runs `nmt`: its environment before PyTorch is imported, and the signals that ask it to stop."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

ENVIRONMENT = {
    # Threads that wait for each other spin for a moment only: by default they spin so long that training is ten times
    # slower when another program wants a core, and if they never do it is a quarter slower on a quiet machine.
    "GOMP_SPINCOUNT": "10000",
    # Compiled kernels are kept by shape, and a batch of text has almost always a new one: gigabytes that serve nobody.
    "LRU_CACHE_CAPACITY": "64",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    # Tensors from 2 MB lie in huge pages, which are mapped at once and not in 512 steps.
    "THP_MEM_ALLOC_ENABLE": "1",
    # The profiler tells of its own steps up to level 5.
    "KINETO_LOG_LEVEL": "6",
}
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library


def set_up() -> None:
    """Environment, memory and screen of a process that runs `nmt`. What the user has set in the environment stays."""
    set_environment()
    keep_freed_memory()
    keep_screen()


def set_environment() -> None:
    """What is read when PyTorch is imported, or, as the sizes of caches, when it calculates for the first time."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def keep_freed_memory() -> None:
    """Have malloc keep what is freed for the next tensor.

    By default it gives large tensors back, and the system clears every page anew for the next: a tenth of a training.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
    mallopt(M_TRIM_THRESHOLD, 1 << 30)


def keep_screen() -> None:
    """Have the numbers of standard input, output and error taken, and text written as UTF-8, whatever the locale."""
    # Were these numbers free, the next file that is opened would get one, and with it what libraries tell the screen.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:  # else print would take standard output, where translations go
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (to the end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


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
