"""Translated files that wait to be fetched: in memory, so that no text of a client is written to a disk."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

SECONDS = 1800.0
BYTES = 64 << 20

PIECE_BYTES = 64 << 10
"""Of a file that is sent."""
NAME_CHARACTERS = 200
"""Of the end of a name, which are kept."""


def file_answer(name: str, content: bytes) -> Response:
    """Return the answer with a file, sent as fast as it is taken: a connection has a copy of a piece of it at most."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), PIECE_BYTES):
            yield content[start : start + PIECE_BYTES]

    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    headers = {"Content-Length": str(len(content)), "Content-Disposition": disposition}
    return StreamingResponse(pieces(), 200, headers, "application/octet-stream")


class Downloads:
    """Files by random names, which are forgotten after half an hour, or earlier if there are many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files: OrderedDict[str, tuple[float, str, bytes]] = OrderedDict()

    def add(self, name: str, content: bytes) -> str:
        """Keep a file and return its number, which cannot be guessed."""
        number = secrets.token_urlsafe(16)
        self._files[number] = self._clock(), name[-NAME_CHARACTERS:], content
        self._forget()
        return number

    def get(self, number: str) -> tuple[str, bytes] | None:
        """Return name and content, or None."""
        self._forget()
        found = self._files.get(number)
        return None if found is None else found[1:]

    def _forget(self) -> None:
        size = sum(len(content) for _, _, content in self._files.values())
        while self._files:
            since, _, content = next(iter(self._files.values()))
            if size <= BYTES and self._clock() - since < SECONDS:
                return
            size -= len(content)
            self._files.popitem(last=False)
