"""What a client is told when its request is not answered."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException


class Refusal(HTTPException):
    """A request that is answered by a status above 399 and one line of text."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.status, self.message = status, message


def busy(seconds: float, message: str = "Too many requests wait; try again later") -> Refusal:
    """Return the refusal of a request for which there is no room, with the time after which there may be."""
    return Refusal(503, message, {"Retry-After": str(max(1, round(seconds)))})


def missing(name: str) -> Refusal:
    """Return the refusal of a request without this parameter, in LibreTranslate's words."""
    return Refusal(400, f"Invalid request: missing {name} parameter")


LATE = "The translation took too long"
"""Of status 504."""
CLIENT_LEFT = 499
"""The status that is counted, as nginx does, for a client that left before it was answered."""
