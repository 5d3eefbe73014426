"""Set-up of the process: environment variables, memory, standard streams and signals."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

ENVIRONMENT = {
    # Waiting threads spin only briefly. By default they spin so long that training is ten times slower if another
    # program needs a core; without any spinning, training on an idle machine is a quarter slower.
    "GOMP_SPINCOUNT": "10000",
    # Compiled kernels are cached by shape, at half a megabyte each. Batches in search almost always have new shapes, so
    # the default of 1,024 takes gigabytes. Those in training have few (`ROW_STEPS` of nmt.data.rows).
    "LRU_CACHE_CAPACITY": "64",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
    # Tensors of at least 2 MB are allocated in huge pages, which are mapped at once instead of in 512 steps.
    "THP_MEM_ALLOC_ENABLE": "1",
    # The profiler logs its own steps up to level 5.
    "KINETO_LOG_LEVEL": "6",
}
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def set_up() -> None:
    """Set up memory management and the standard streams."""
    keep_freed_memory()
    set_up_streams()


def set_environment() -> None:
    """Set environment variables that PyTorch reads when it is imported or at its first computation.

    Variables set by the user are kept.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def keep_freed_memory() -> None:
    """Make malloc keep freed memory for the next tensor.

    By default it returns large blocks to the system, which must then zero every page again. That takes a tenth of the
    training time.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, 32 << 20)  # the maximum
    mallopt(M_TRIM_THRESHOLD, 1 << 30)


def return_freed_memory() -> None:
    """Return to the system the freed memory that `keep_freed_memory` has retained."""
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def set_up_streams() -> None:
    """Occupy file descriptors 0 to 2, and write text as UTF-8 in every locale."""
    # A free descriptor would be assigned to the next opened file, and libraries would write their messages to it.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:  # print would then use standard output, where translations go
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def end_at_once(number: int, _: FrameType | None) -> None:
    """Handle SIGINT before a command has begun: print one line and exit."""
    os.write(2, b"nmt: interrupted\n")
    os._exit(128 + number)


class Interrupted(Exception):  # noqa: N818  (not an error)
    """An exception that abandons repeatable work, such as a validation, when the process should stop."""


class Stop:
    """A request to stop the process, by a signal or the end of a time limit, or a training run at an update."""

    def __init__(
        self, after_minutes: float | None = None, at_step: int | None = None, work: str = "this update"
    ) -> None:
        """`work`: what is finished before the process stops, for the message."""
        self.signal: str | None = None
        self._work = work
        self.at_step = at_step
        self._minutes = after_minutes
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """The seconds since the process, or this part of it, has begun."""
        return time.monotonic() - self._started

    @property
    def reason(self) -> str | None:
        """The name of the signal, or the option that set the time limit; None if no stop has been requested."""
        if self.signal is None and self._minutes is not None and self.elapsed >= 60 * self._minutes:
            return f"--stop-after {self._minutes:g}"
        return self.signal

    def poll(self) -> None:
        """Raise Interrupted if a stop has been requested."""
        if self.reason is not None:
            raise Interrupted

    def receive(self, number: int, _: FrameType | None = None) -> None:
        """Record a signal. Raises KeyboardInterrupt on SIGINT after another signal."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name
        if os.environ.get("RANK", "0") == "0":
            with suppress(OSError):  # not print, which this handler may have interrupted
                line = f"nmt: {self.signal}: stopping after {self._work}; press Ctrl-C again to exit at once\n"
                # on a terminal, below the progress bar and ^C
                os.write(sys.stderr.fileno(), b"\n" * sys.stderr.isatty() + line.encode())


@contextmanager
def stopping(stop: Stop) -> Iterator[Stop]:
    """Turn SIGTERM, SIGINT and SIGHUP into a request to stop. Ignored signals, such as SIGHUP under nohup, stay
    ignored."""
    with handling(SIGNALS, stop.receive):
        yield stop


@contextmanager
def handling(signals: Iterable[signal.Signals], receive: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals by `receive`. Ignored signals stay ignored; outside the main thread, nothing changes."""
    before = {}
    if threading.current_thread() is threading.main_thread():  # the only one that may set handlers
        handled = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, receive) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
