"""The outermost layer of the application: errors become answers, headers protect browsers, requests are counted."""

from __future__ import annotations

import time
from collections.abc import Collection
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.console import say
from nmt.serve.metrics import Metrics
from nmt.serve.refusal import Refusal
from nmt.serve.worker import failure

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
        """paths: what requests are counted by; all others are one.

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
        endpoint = self._endpoint(scope["path"])
        self._metrics.requests.labels(endpoint, status).inc()
        self._metrics.seconds.labels(endpoint).observe(time.monotonic() - began)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = MutableHeaders(scope=scope)
        if (absolute := scope["path"]).startswith(("http://", "https://")):  # the form that proxies get
            _, _, headers["host"], *path = absolute.split("/", 3)
            scope["path"] = "/" + "".join(path)
            scope["raw_path"] = quote(scope["path"]).encode()
        host, origin = host_of(f"//{headers.get('host', '')}"), headers.get("origin", "")
        if self._hosts is not None and host not in self._hosts:
            return Refusal(421, "Misdirected request: not a name of this server; nmt serve --origin adds one")
        is_site = origin.startswith(("http://", "https://", "null"))  # extensions of browsers have other origins
        if scope["method"] == "POST" and is_site and origin not in self._origins and host_of(origin) != host:
            return Refusal(403, "Pages of this site may not use the server; nmt serve --origin allows it")
        return None

    def _endpoint(self, path: str) -> str:
        if path in self._paths:
            return path
        return "/download_file" if path.startswith("/download_file/") else "other"


def host_of(address: str) -> str:
    """Return the host of an address, without its port; nothing for what is no address."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def error_answer(error: HTTPException) -> JSONResponse:
    """Return the answer to a refused request, as LibreTranslate words it."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
