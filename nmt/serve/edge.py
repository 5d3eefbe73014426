"""The outermost layer of the application: keys, rates, memory, deadlines, headers, errors and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import closing
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.console import say
from nmt.serve.limits import CLIENT_LEFT, LATE, Refusal, Room, busy, client_of, digest_of
from nmt.serve.metrics import Metrics
from nmt.serve.service import Service
from nmt.serve.worker import failure

HELD_BYTES = 64 << 20
"""Memory in bytes for the bodies of all requests together; more if `Limits` allow bodies above an eighth of it."""

Answer = TypeVar("Answer")
Handler = Callable[[Request], Awaitable[Response]]


def admit(service: Service, request: Request, key: str) -> None:
    """Check the API key of a request and charge its client. Raises Refusal.

    A request without a key in its headers was charged to its address before its body was read.
    """
    client = address_of(request)
    if service.keys is not None:
        if not key:
            raise Refusal(400, "Please contact the server operator to get an API key")
        address, client = client, digest_of(key)
        is_in_head = bool(key_in_head(request))
        if client not in service.keys:
            if is_in_head:  # the client may be guessing keys
                service.rate.charge(address)
            raise Refusal(403, "Invalid API key")
        if not is_in_head:
            service.rate.give_back(address)
    service.rate.charge(client)
    request.state.client = client


def is_admitted(request: Request) -> bool:
    """Return whether a request was already admitted by its headers."""
    return hasattr(request.state, "client")


def key_in_head(request: Request) -> str:
    """Return the API key in the headers: the bearer token, X-API-Key, or an empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return (token.strip() if scheme.lower() == "bearer" else "") or request.headers.get("x-api-key", "")


def address_of(request: Request) -> str:
    """Return the identity of a client by its address, for requests without a key."""
    return client_of(request.client.host if request.client else None)


async def before_leaving(
    service: Service, request: Request, seconds: float, work: Coroutine[object, object, Answer]
) -> Answer:
    """Return the result of `work` for an admitted request, unless its client disconnects.

    The work is cancelled if the client disconnects, or after `seconds`. Raises Refusal in both cases, and if too many
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
            raise Refusal(CLIENT_LEFT, "The client disconnected") if leaving.done() else Refusal(504, LATE)
        finally:
            service.queue.give_back(client)
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Gate:
    """Admission of requests by their headers, and a limit on the memory that all of them hold."""

    def __init__(self, service: Service) -> None:
        self._service = service
        limits = service.limits
        self._room = Room(max(HELD_BYTES, 8 * max(limits.bytes, limits.file_bytes)))

    def __call__(self, handler: Handler, form_bytes: int = 0) -> Handler:
        """Return a handler that rejects requests before their bodies arrive wherever possible.

        It sets `state.hold` of a request, which reserves memory until the request is answered, or raises Refusal.
        form_bytes: maximum size of a form with a file whose key is not in the body.
        """

        async def admitted(request: Request) -> Response:
            service, key, client = self._service, key_in_head(request), address_of(request)
            most, hint = service.limits.bytes, ""
            if service.keys is None or key:
                admit(service, request, key)
                client, most = request.state.client, form_bytes or most
            else:
                service.rate.charge(client)
                hint = "; for a larger file, send the API key in a header" if form_bytes else ""
            too_large = Refusal(413, f"The request is too large: at most {most} bytes{hint}")
            if int(request.headers.get("content-length", 0)) > most:
                raise too_large
            held = 0

            def hold(n: int) -> None:
                nonlocal held
                if not self._room.take(client, n):
                    raise busy("The server holds too much text in memory; try again later")
                held += n

            async def receive() -> Message:
                message = await request.receive()
                hold(len(message.get("body", b"")))
                if held > most:
                    raise too_large
                return message

            request.state.hold = hold
            try:
                return await handler(Request(request.scope, receive))
            finally:
                self._room.give_back(client, held)

        return admitted


HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response, which also keep browsers from storing translations."""


class Edge:
    """ASGI middleware that adds headers, counts requests, and rejects requests that other sites make browsers send.

    These are POST requests with a foreign `Origin` and, after DNS rebinding, requests with a foreign `Host`.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        paths: Collection[str],
        origins: Collection[str],
        hosts: Collection[str] | None,
    ) -> None:
        """Wrap an application. paths: the paths whose requests are counted separately.

        origins: sites that may use the server; hosts: names of the server besides those of the sites, None for any.
        """
        self._app, self._metrics, self._paths, self._origins = app, metrics, paths, origins
        self._hosts = None if hosts is None else {*hosts, *map(host_of, origins)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def protected(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refusal = self._refusal(scope)
            await (error_answer(refusal) if refusal else self._app)(scope, receive, protected)
        except Exception as error:
            self._metrics.failures.labels(type(error).__name__).inc()
            say(f"a request failed: {failure(error)}")
            if not status:
                await JSONResponse({"error": "Internal error"}, 500)(scope, receive, protected)
        path = scope["path"]
        endpoint = path if path in self._paths else "/download_file" if path.startswith("/download_file/") else "other"
        self._metrics.requests.labels(endpoint, status).inc()
        self._metrics.seconds.labels(endpoint).observe(time.monotonic() - began)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = MutableHeaders(scope=scope)
        host, origin = host_of(f"//{headers.get('host', '')}"), headers.get("origin", "")
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may see another end of the body
            close = {"Connection": "close"}
            return Refusal(400, "Invalid request: both Content-Length and Transfer-Encoding are given", close)
        if self._hosts is not None and host not in self._hosts:
            return Refusal(421, "Misdirected request: unknown host name; nmt serve --origin adds one")
        is_site = origin.startswith(("http://", "https://", "null"))  # browser extensions have other origins
        if scope["method"] == "POST" and is_site and origin not in self._origins and host_of(origin) != host:
            return Refusal(403, "Pages of this site may not use the server; nmt serve --origin allows it")
        return None


def host_of(address: str) -> str:
    """Return the host of a URL without its port; an empty string for an invalid URL."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


MESSAGE_CHARACTERS = 500
"""Maximum length of an error message, which may quote the request."""


def error_answer(error: HTTPException) -> JSONResponse:
    """Return the response to a rejected request in LibreTranslate's format."""
    return JSONResponse({"error": error.detail[:MESSAGE_CHARACTERS]}, error.status_code, error.headers)
