"""The files of a source: found under a path, a pattern or in an archive, and opened decompressed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Input:
    """One file that holds both languages, which can be opened repeatedly."""

    name: str
    """Its path for messages, `memories.zip/legal/a.tmx` if it is in an archive."""
    format: str
    """One of the formats of `Source.format`."""
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    """Open its decompressed content; not seekable in general."""
