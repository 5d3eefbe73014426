"""Access control: keys, rates, deadlines, and clients that disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import closing
from typing import TypeVar

from starlette.requests import Request

from nmt.serve.limits import CLIENT_LEFT, LATE, Refusal, busy, client_of, digest_of
from nmt.serve.service import Service

Answer = TypeVar("Answer")


def admit(service: Service, request: Request, key: str) -> None:
    """Check the key of a request, which may be empty, and charge its client. Raises Refusal.

    A request without a key in its head was charged to its address before its body was read.
    """
    client = address_of(request)
    if service.keys is not None:
        if not key:
            raise Refusal(400, "Please contact the server operator to get an API key")
        address, client = client, digest_of(key)
        is_in_head = bool(key_in_head(request))
        if client not in service.keys:
            if is_in_head:  # whoever guesses keys
                service.rate.charge(address)
            raise Refusal(403, "Invalid API key")
        if not is_in_head:
            service.rate.give_back(address)
    service.rate.charge(client)
    request.state.client = client


def is_admitted(request: Request) -> bool:
    """Whether the head of a request was enough to admit it."""
    return hasattr(request.state, "client")


def key_in_head(request: Request) -> str:
    """Return the API key in the headers, the bearer token or X-API-Key, or an empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return (token.strip() if scheme.lower() == "bearer" else "") or request.headers.get("x-api-key", "")


def address_of(request: Request) -> str:
    """Return the identity of a client without a key."""
    return client_of(request.client.host if request.client else None)


async def before_leaving(
    service: Service, request: Request, seconds: float, work: Coroutine[object, object, Answer]
) -> Answer:
    """Return the result of `work` for a request that was admitted and whose body was read.

    It is cancelled if the client closes its connection, or after `seconds`. Raises Refusal for either, and if too many
    requests wait.
    """
    client = request.state.client
    with closing(work):
        if not service.queue.take(client):
            raise busy()
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise Refusal(CLIENT_LEFT, "The client has left") if leaving.done() else Refusal(504, LATE)
        finally:
            service.queue.give_back(client)
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
