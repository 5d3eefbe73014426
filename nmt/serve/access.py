"""What happens to a request before and after its handler: key, rate, deadline, and clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.requests import Request

from nmt.serve.bodies import Fields
from nmt.serve.limits import client_of
from nmt.serve.refusal import CLIENT_LEFT, LATE, Refusal
from nmt.serve.service import Service

Answer = TypeVar("Answer")


def admit(service: Service, request: Request, fields: Fields | None = None) -> None:
    """Check the key of a request, and charge its client. Raises Refusal.

    The key is the bearer token, the header X-API-Key, or the field `api_key`.
    """
    client = client_of(request.client.host if request.client else None)
    if service.keys is not None:
        key = _key(request, fields or {})
        found = service.keys.find(key) if key else None
        if found is None:
            service.rate.charge(client)
            if not key:
                raise Refusal(400, "Please contact the server operator to get an API key")
            raise Refusal(403, "Invalid API key")
        client = found
    service.rate.charge(client)


def _key(request: Request, fields: Fields) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    field = fields.get("api_key")
    given = (token.strip() if scheme.lower() == "bearer" else "", request.headers.get("x-api-key", ""), field)
    return next((key for key in given if isinstance(key, str) and key), "")


async def before_leaving(request: Request, seconds: float, work: Coroutine[object, object, Answer]) -> Answer:
    """Return the result of `work` for a request whose body was read.

    It is cancelled if the client closes its connection, or after `seconds`. Raises Refusal for either.
    """
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
