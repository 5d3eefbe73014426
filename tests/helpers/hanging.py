"""Work that does not end, for child processes, which import little else."""

from __future__ import annotations

import time


def hang(*_: object) -> None:
    """Sleep longer than any test."""
    time.sleep(600)
