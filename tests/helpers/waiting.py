"""Waiting for other processes, and not for ever for quadratic code."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition is true; fail after a number of seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@contextmanager
def cpu_time_limit(seconds: float = 60) -> Iterator[None]:
    """Stop code that takes far longer than it ever should, as quadratic code does with long input.

    Coverage and a busy machine take several times the usual, so the limit is at least ten times as much; and less than
    quadratic code takes, or the test could not fail.
    """

    def stop(*_: object) -> None:
        raise AssertionError(f"more than {seconds} seconds of CPU time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
