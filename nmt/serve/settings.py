"""The options of a server with their defaults, which the command line shows without the packages of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.share import EngineName


@dataclass(frozen=True)
class Limits:
    """Limits on the size and time of a request."""

    characters: int = 20_000
    items: int = 1_000
    bytes: int = 512 << 10
    file_bytes: int = 4 << 20
    """Maximum number of bytes of a file, and of characters of its text."""
    seconds: float = 60.0
    """Time limit of an answer."""
    body_seconds: float = 30.0
    """Time limit until the body of a request has arrived."""

    @property
    def file_seconds(self) -> float:
        """Time limit of the translation of a file."""
        return 10 * self.seconds


@dataclass(frozen=True)
class ServeOptions:
    """The options of `nmt serve`."""

    paths: Sequence[Path]
    """Runs and exported folders."""
    host: str = "127.0.0.1"
    port: int = 5000
    engine: EngineName = "auto"
    int8: bool = False
    zero_shot: bool = False
    tm: Sequence[str] = ()
    overrides: Sequence[str] = ()
    threads: int | None = None
    keys: Path | None = None
    rate: int = 0
    origins: Sequence[str] = ()
    allow: Sequence[str] = ()
    limits: Limits = Limits()
    queue: int = 256
    grace: int = 30
    cache: int = 16 << 20
