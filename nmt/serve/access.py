"""Access control: keys, rates, turns, deadlines, and clients that disconnect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from starlette.requests import Request

from nmt.serve.bodies import Fields
from nmt.serve.limits import CLIENT_LEFT, LATE, Refusal, Room, busy, client_of
from nmt.serve.service import Service

QUEUE_TIMES = 8
"""How many times the free places of the queue a client may take; one alone gets eight ninths."""
Answer = TypeVar("Answer")


def admit(service: Service, request: Request, fields: Fields | None = None) -> None:
    """Check the key of a request, and charge its client, unless its head was enough to do so. Raises Refusal.

    The key is the bearer token, the header X-API-Key, or the field `api_key`. A request without a key in its head was
    charged to its address before its body was read.
    """
    if hasattr(request.state, "client"):
        return
    client = address_of(request)
    if service.keys is not None:
        in_head, field = key_in_head(request), (fields or {}).get("api_key")
        key = in_head or (field if isinstance(field, str) else "")
        found = service.keys.find(key) if key else None
        if found is None:
            if in_head:
                service.rate.charge(client)
            if not key:
                raise Refusal(400, "Please contact the server operator to get an API key")
            raise Refusal(403, "Invalid API key")
        if not in_head:
            service.rate.charge(client, -1)
        client = found
    service.rate.charge(client)
    request.state.client = client


def key_in_head(request: Request) -> str:
    """Return the API key in the headers, or an empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return (token.strip() if scheme.lower() == "bearer" else "") or request.headers.get("x-api-key", "")


def address_of(request: Request) -> str:
    """Return the identity of a client without a key."""
    return client_of(request.client.host if request.client else None)


class Turns:
    """Counts the requests that are being translated, and gives each client its share."""

    def __init__(self, most: int) -> None:
        """most: maximum number of requests."""
        self._room = Room(most, QUEUE_TIMES)
        self._seconds = 1.0  # a mean of what the last ones took

    @contextmanager
    def taken(self, client: str) -> Iterator[None]:
        """Count a request of this client while the block runs. Raises Refusal if the client has too many."""
        if not self._room.take(client):
            raise busy(self._seconds)
        began = time.monotonic()
        try:
            yield
        finally:
            self._room.give_back(client)
            self._seconds += 0.1 * (time.monotonic() - began - self._seconds)


async def before_leaving(request: Request, seconds: float, work: Coroutine[object, object, Answer]) -> Answer:
    """Return the result of `work` for a request that was admitted and whose body was read.

    It is cancelled if the client closes its connection, or after `seconds`. Raises Refusal for either, and if too many
    requests of the client are being translated.
    """
    turns: Turns = request.app.state.turns
    with closing(work), turns.taken(request.state.client):
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise Refusal(CLIENT_LEFT, "The client has left") if leaving.done() else Refusal(504, LATE)
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
