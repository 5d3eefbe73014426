"""Code that coverage does not trace: it measures nmt alone, but tracing doubles the time of everything else too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def untraced() -> Iterator[None]:
    """Pause tracing, for what runs (nearly) no line of nmt."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
