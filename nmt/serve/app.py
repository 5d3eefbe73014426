"""The application: the routes of the server, its life cycle, and what is true of all answers."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt import __version__
from nmt.console import say
from nmt.errors import failure
from nmt.pages import asset
from nmt.serve.admission import Admission, Endpoint
from nmt.serve.handlers import Handlers, TranslateRequest
from nmt.serve.limits import Refusal
from nmt.serve.metrics import Metrics
from nmt.serve.service import Service

MEDIA_TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png",
}  # fmt: skip
"""Media types of the files of the page; files of other types are not served."""
FORM_BYTES = 64 << 10
"""Maximum size of a form with a file, excluding the file."""
COLLECTION_SECONDS = 60.0


Json = dict[str, Any]


def make_app(
    service: Service,
    admission: Admission | None = None,
    origins: Sequence[str] = (),
    hosts: Sequence[str] | None = None,
) -> Starlette:
    """Return the ASGI application of a service.

    admission: by default, any client may use the service within its limits;
    origins: other sites whose pages may use the server (CORS), such as https://example.org;
    hosts: names of the server besides the hosts of these sites, None for any.
    """
    admission = admission or Admission(service.limits)
    routes = _routes(service, admission)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        tasks = [asyncio.create_task(_warm_up(service)), asyncio.create_task(_collect_garbage(admission))]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.to_thread(service.close)

    paths = frozenset(route.path for route in routes)
    known = None if hosts is None else {*hosts, *map(host_of, origins)}
    middleware = [Middleware(Edge, metrics=service.metrics, paths=paths, origins=origins, hosts=known)]
    if origins:
        allowed = ["Authorization", "Content-Type", "X-API-Key"]
        middleware.append(
            Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=allowed)
        )
    handlers = {HTTPException: _http_error}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)


async def _warm_up(service: Service) -> None:
    try:
        await service.warm_up()
    except Exception as error:
        reason = error.detail if isinstance(error, Refusal) else failure(error)
        say(f"not ready: the warm-up translation failed: {reason}")
    else:
        say("ready")


async def _collect_garbage(admission: Admission) -> None:
    """Collect all garbage now and then, when few objects are in use; everything waits for it."""
    while True:
        await asyncio.sleep(COLLECTION_SECONDS)
        if not admission.holds_much:
            gc.collect()


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_answer(error)


def _routes(service: Service, admission: Admission) -> list[Route]:
    handlers = Handlers(service, admission.needs_key)
    post = ["POST"]
    reading = admission.reading

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        if not service.is_ready:
            raise Refusal(503, "Not ready", {"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")

    described = specification(service.models.languages, admission.needs_key)
    form_bytes = service.limits.file_bytes + FORM_BYTES
    return [
        Route("/translate", reading(handlers.translate), methods=post),
        Route("/detect", reading(handlers.detect), methods=post),
        Route("/languages", handlers.languages),
        Route("/frontend/settings", handlers.settings),
        Route("/translate_file", reading(handlers.translate_file, form_bytes=form_bytes), methods=post),
        Route("/download_file/{number}", handlers.download_file),
        Route("/suggest", handlers.suggest, methods=post),
        Route("/v1/translate", reading(handlers.translate_v1, only_json=True), methods=post),
        Route("/v1/info", handlers.info),
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", admission.without_body(metrics)),
        Route("/spec", _fixed(json.dumps(described).encode(), "application/json")),
        Route("/docs", _fixed(docs_page(described).encode(), "text/html")),
        Route("/docs.css", _fixed(asset("nmt", "pages.css").encode(), "text/css")),
        *_page(),
    ]


def _page() -> list[Route]:
    """Return the routes of the files of the page, which are read once. No other files are served."""
    routes = []
    for file in files("nmt.serve").joinpath("page").iterdir():
        if media_type := MEDIA_TYPES.get(PurePath(file.name).suffix):
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(Route(path, _fixed(file.read_bytes(), media_type)))
    return routes


def _fixed(content: bytes, media_type: str) -> Endpoint:
    async def answer(_: Request) -> Response:  # no-cache: browsers must revalidate, since an update may change it
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return answer


# --- all answers -----------------------------------------------------------------------------------------

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response, which also keep browsers from storing translations."""


@dataclass
class Edge:
    """ASGI middleware that adds headers, counts requests, and rejects requests that other sites make browsers send.

    These are POST requests with a foreign `Origin` and, after DNS rebinding, requests with a foreign `Host`.
    """

    app: ASGIApp
    metrics: Metrics
    paths: Collection[str]
    """The paths whose requests are counted separately."""
    origins: Collection[str]
    """Sites that may use the server."""
    hosts: Collection[str] | None
    """The names of the server, with the hosts of these sites; None for any."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        status = 0

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
            answer = self.app if refusal is None else error_answer(refusal)
            await answer(scope, receive, protected)
        except Exception as error:
            self.metrics.failures.labels(type(error).__name__).inc()
            say(f"a request failed: {failure(error)}")
            if not status:
                await JSONResponse({"error": "Internal error"}, 500)(scope, receive, protected)
        endpoint = self._endpoint(scope["path"])
        self.metrics.requests.labels(endpoint, status).inc()
        self.metrics.seconds.labels(endpoint).observe(time.monotonic() - began)

    def _endpoint(self, path: str) -> str:
        """Return the path by which a request is counted."""
        if path in self.paths:
            return path
        return "/download_file" if path.startswith("/download_file/") else "other"

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = MutableHeaders(scope=scope)
        host = host_of(f"//{headers.get('host', '')}")
        origin = headers.get("origin", "")
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may see another end of the body
            close = {"Connection": "close"}
            return Refusal(400, "Invalid request: both Content-Length and Transfer-Encoding are given", close)
        if self.hosts is not None and host not in self.hosts:
            return Refusal(421, "Misdirected request: unknown host name; nmt serve --origin adds one")
        is_site = origin.startswith(("http://", "https://", "null"))  # browser extensions have other origins
        if scope["method"] == "POST" and is_site and origin not in self.origins and host_of(origin) != host:
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


# --- description ---------------------------------------------------------------------------------------


def specification(languages: Sequence[str], needs_key: bool) -> Json:
    """Return the description of all endpoints in OpenAPI 3.1."""
    described: Json = json.loads(asset("nmt.serve.page", "openapi.json"))
    described["info"]["version"] = __version__
    described["info"]["description"] += f" Languages: {', '.join(languages)}."
    described["components"]["schemas"]["TranslateRequest"] = TranslateRequest.model_json_schema()
    if needs_key:
        described["security"] = [{"key": []}]
    return described


def docs_page(described: Json) -> str:
    """Return an HTML page that documents the endpoints of an OpenAPI description (the result of `specification`)."""
    title = escape(described["info"]["title"])
    description = escape(described["info"]["description"])
    operations = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            operations.append(_documented(name, operation, described["components"]["schemas"]))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="docs.css">
</head>
<body>
<h1>{title} {escape(__version__)}</h1>
<p>{description}</p>
<p>For programs: <a href="spec">OpenAPI</a>. Errors are JSON: <code>{{"error": text}}</code>.</p>
{"".join(operations)}
</body>
</html>
"""


def _documented(name: str, operation: Json, schemas: Json) -> str:
    """Return a section about an endpoint, with a table of the fields of its request body."""
    start = f"<h2><code>{escape(name)}</code></h2>\n<p>{escape(operation['summary'])}</p>\n"
    if "requestBody" not in operation:
        return start
    content = operation["requestBody"]["content"]
    schema = next(iter(content.values()))["schema"]
    schema = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    rows = []
    for field, details in schema.get("properties", {}).items():
        meaning = details.get("description", "")
        if field in schema.get("required", ()):
            meaning += " Required."
        kind = json.dumps({key: value for key, value in details.items() if key not in ("description", "title")})
        rows.append(
            f"<tr><td><code>{field}</code></td><td><code>{escape(kind)}</code></td><td>{escape(meaning)}</td></tr>"
        )
    head = "<thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead>"
    return f"{start}<p>Body: {', '.join(content)}</p>\n<table>{head}<tbody>{''.join(rows)}</tbody></table>\n"
