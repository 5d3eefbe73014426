"""What a request passes before its handler: what its head says about key and rate, and memory for its body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from nmt.serve.access import address_of, admit, key_in_head
from nmt.serve.limits import Room
from nmt.serve.refusal import Refusal, busy
from nmt.serve.service import Service

HELD_BYTES = 64 << 20
"""Of all requests together."""
RETRY_SECONDS = 5.0
"""After which a client may try again for which there is no memory."""

Handler = Callable[[Request], Awaitable[Response]]


class Held:
    """What a request keeps in memory until it is answered: its body, and the text in a file."""

    def __init__(self, room: Room, client: str) -> None:
        self._room, self._client, self.bytes = room, client, 0

    def add(self, n: int) -> None:
        """Hold so many bytes more. Raises Refusal if there is no room for them."""
        if not self._room.take(self._client, n):
            raise busy(RETRY_SECONDS, "Too much is being translated; try again later")
        self.bytes += n

    def release(self) -> None:
        """Hold nothing."""
        self._room.give_back(self._client, self.bytes)
        self.bytes = 0


_held: ContextVar[Held] = ContextVar("held")
"""Of the request that is being answered."""


def hold(n: int) -> None:
    """Count so many bytes to what the present request holds. Raises Refusal if there is no room for them."""
    _held.get().add(n)


class Gate:
    """Admits requests by their heads, and limits what all of them hold."""

    def __init__(self, service: Service) -> None:
        self._service = service
        limits = service.limits
        self._room = Room(max(HELD_BYTES, 8 * max(limits.bytes, limits.file_bytes)))

    def __call__(self, handler: Handler, form_bytes: int = 0) -> Handler:
        """Return a handler that refuses before the body arrives whatever it can.

        form_bytes: the most of a form with a file, if its key is not in its body.
        """

        async def admitted(request: Request) -> Response:
            service = self._service
            most = service.limits.bytes
            if service.keys is None or key_in_head(request):
                admit(service, request)
                most = form_bytes or most
            else:
                service.rate.charge(address_of(request))
            hint = "; for a larger file, send the API key in a header" if form_bytes > most else ""
            too_large = Refusal(413, f"The request is too large: at most {most} bytes{hint}")
            if int(request.headers.get("content-length", 0)) > most:
                raise too_large
            held = Held(self._room, getattr(request.state, "client", address_of(request)))

            async def receive() -> Message:
                message = await request.receive()
                if body := message.get("body"):
                    held.add(len(body))
                    if held.bytes > most:
                        raise too_large
                return message

            _held.set(held)
            try:
                return await handler(Request(request.scope, receive))
            finally:
                held.release()

        return admitted
