"""What is listed of an archive."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, NamedTuple


class Listed(NamedTuple):
    """An entry of an archive."""

    name: str
    kind: str
    """What it is if it is not a file, such as `links`."""
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Open its content, which may be compressed itself."""
