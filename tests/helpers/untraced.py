"""Code that coverage does not trace, since tracing takes a third of the time of traced code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def untraced() -> Iterator[None]:
    """Pause tracing for code that runs (nearly) no line of nmt, or only lines that other tests also run."""
    trace = sys.gettrace()
    if type(trace).__module__.partition(".")[0] == "coverage":  # not a debugger's
        sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
