"""Code that coverage does not trace: it measures nmt alone, but tracing doubles the time of everything else too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRELOAD = Path(__file__).parent / "preload"


@contextmanager
def untraced() -> Iterator[None]:
    """Pause tracing, for what runs (nearly) no line of nmt."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def preloading(*modules: str) -> dict[str, str]:
    """An environment in which Python processes import these modules untraced before their program begins."""
    path = [str(PRELOAD), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PRELOAD": " ".join(modules)}


def unmeasured() -> dict[str, str]:
    """An environment in which coverage does not start in Python processes."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
