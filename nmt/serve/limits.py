"""Checks of the limits of requests, shared resources, and the error responses for exceeded limits."""

from __future__ import annotations

from collections import Counter

from starlette.exceptions import HTTPException

from nmt.serve.settings import Limits


class Refusal(HTTPException):
    """An error response with a status and one line of text."""


def busy(message: str = "Too many requests are waiting; try again later") -> Refusal:
    """Return the error response for a full queue, or for exhausted memory of requests."""
    return Refusal(503, message, {"Retry-After": "5"})


def missing(name: str) -> Refusal:
    """Return the error response to a request that lacks a parameter, worded as in LibreTranslate."""
    return Refusal(400, f"Invalid request: missing {name} parameter")


LATE = "The translation took too long"
"""Message of responses with status 504."""
CLIENT_LEFT = 499
"""Status for a client that disconnected before the answer, as in nginx. It is only counted."""


def check_size(texts: list[str], limits: Limits, items: int | None = None) -> None:
    """Raise Refusal if there are too many texts or too many characters."""
    n_items = len(texts) if items is None else items
    if n_items > limits.items:
        raise Refusal(400, f"Invalid request: request ({n_items}) exceeds batch limit ({limits.items})")
    n = sum(map(len, texts))
    if n > limits.characters:
        raise Refusal(400, f"Invalid request: request ({n}) exceeds text limit ({limits.characters})")


class Room:
    """A limited resource, such as memory, of which a single client can reserve at most nine tenths."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = max(1, most * 9 // 10)
        self._taken: Counter[str] = Counter()

    def take(self, client: str, n: int = 1) -> bool:
        """Reserve `n` units for a client if the limits permit it. Return whether they were reserved."""
        if self._taken.total() + n > self._most or self._taken[client] + n > self._share:
            return False
        self._taken[client] += n
        return True

    def has_room(self, share: float) -> bool:
        """Return whether at least this share is free."""
        return self._taken.total() <= (1 - share) * self._most

    def give_back(self, client: str, n: int = 1) -> None:
        """Release `n` units that a client has reserved."""
        self._taken[client] -= n
        if not self._taken[client]:
            del self._taken[client]
