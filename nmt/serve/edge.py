"""The outermost layers of the application: keys, rates and memory, errors, headers and metrics."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.console import say
from nmt.serve.access import address_of, admit, key_in_head
from nmt.serve.limits import Refusal, Room, busy
from nmt.serve.metrics import Metrics
from nmt.serve.service import Service
from nmt.serve.worker import failure

HELD_BYTES = 64 << 20
"""Of all requests together."""

Handler = Callable[[Request], Awaitable[Response]]


class Gate:
    """Admits requests by their headers, and limits the memory that all of them hold."""

    def __init__(self, service: Service) -> None:
        self._service = service
        limits = service.limits
        self._room = Room(max(HELD_BYTES, 8 * max(limits.bytes, limits.file_bytes)))

    def __call__(self, handler: Handler, form_bytes: int = 0) -> Handler:
        """Return a handler that refuses as many requests as possible before their bodies arrive.

        It adds `state.hold` to a request, which takes memory until the request is answered, or raises Refusal.
        form_bytes: the most of a form with a file, if its key is not in its body.
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
                    raise busy("Too much is being translated; try again later")
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
"""Of every answer. What translates is stored nowhere."""


class Edge:
    """An ASGI middleware.

    It refuses what pages of other sites make a browser send: POST requests with a foreign `Origin`, and, by DNS
    rebinding, requests with a foreign `Host`.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        paths: Collection[str],
        origins: Collection[str],
        hosts: Collection[str] | None,
    ) -> None:
        """paths: the paths that requests are counted by; all other paths count as one.

        origins: of sites that may use the server; hosts: its names, beside those of the sites; None: any.
        """
        self._app, self._metrics, self._paths, self._origins = app, metrics, paths, origins
        self._hosts = None if hosts is None else {*hosts, *map(host_of, origins)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
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
        if self._hosts is not None and host not in self._hosts:
            return Refusal(421, "Misdirected request: not a name of this server; nmt serve --origin adds one")
        is_site = origin.startswith(("http://", "https://", "null"))  # extensions of browsers have other origins
        if scope["method"] == "POST" and is_site and origin not in self._origins and host_of(origin) != host:
            return Refusal(403, "Pages of this site may not use the server; nmt serve --origin allows it")
        return None


def host_of(address: str) -> str:
    """Return the host of an address, without its port; an empty string for an invalid address."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def error_answer(error: HTTPException) -> JSONResponse:
    """Return the answer to a refused request, as LibreTranslate words it."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
