"""The application: the routes of the server and its life cycle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from nmt.console import say
from nmt.figures.html import asset
from nmt.serve.edge import Edge, Gate, Handler, admit, error_answer, is_admitted
from nmt.serve.libretranslate import LibreTranslate
from nmt.serve.limits import Refusal
from nmt.serve.openapi import docs_page, specification
from nmt.serve.service import Service
from nmt.serve.v1 import Api
from nmt.serve.worker import failure

MEDIA_TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png",
}  # fmt: skip
"""Media types of the files of the page; files of other types are not served."""
FORM_BYTES = 64 << 10
"""Maximum size of a form with a file, excluding the file."""


def make_app(service: Service, origins: Sequence[str] = (), hosts: Sequence[str] | None = None) -> Starlette:
    """Return the ASGI application of a service.

    origins: other sites whose pages may use the server (CORS), such as https://example.org; hosts: see `Edge`.
    """
    routes = _routes(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        warming = asyncio.create_task(_warm_up(service))
        yield
        warming.cancel()
        await asyncio.to_thread(service.close)

    paths = frozenset(route.path for route in routes)
    middleware = [Middleware(Edge, metrics=service.metrics, paths=paths, origins=origins, hosts=hosts)]
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
        reason = error.message if isinstance(error, Refusal) else failure(error)
        say(f"not ready: the warm-up translation failed: {reason}")
    else:
        say("ready")


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_answer(error)


def _routes(service: Service) -> list[Route]:
    gate, libre, own = Gate(service), LibreTranslate(service), Api(service)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        if not service.is_ready:
            raise Refusal(503, "Not ready", {"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    async def metrics(request: Request) -> Response:
        if not is_admitted(request):
            admit(service, request, "")
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")

    described = specification(service)
    return [
        Route("/translate", gate(libre.translate), methods=["POST"]),
        Route("/detect", gate(libre.detect), methods=["POST"]),
        Route("/languages", libre.languages),
        Route("/frontend/settings", libre.settings),
        Route("/translate_file", gate(libre.translate_file, service.limits.file_bytes + FORM_BYTES), methods=["POST"]),
        Route("/download_file/{number}", libre.download_file),
        Route("/suggest", libre.suggest, methods=["POST"]),
        Route("/v1/translate", gate(own.translate), methods=["POST"]),
        Route("/v1/info", own.info),
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics if service.keys is None else gate(metrics)),
        Route("/spec", _fixed(json.dumps(described).encode(), "application/json")),
        Route("/docs", _fixed(docs_page(described).encode(), "text/html")),
        Route("/docs.css", _fixed(asset("nmt.figures", "style.css").encode(), "text/css")),
        *_page(),
    ]


def _page() -> list[Route]:
    """Return the routes of the files of the page, which are read once. No other files are served."""
    return [
        Route("/" if file.name == "index.html" else f"/{file.name}", _fixed(file.read_bytes(), media_type))
        for file in files("nmt.serve").joinpath("page").iterdir()
        if (media_type := MEDIA_TYPES.get(PurePath(file.name).suffix))
    ]


def _fixed(content: bytes, media_type: str) -> Handler:
    async def answer(_: Request) -> Response:  # no-cache: browsers must revalidate, since an update may change it
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return answer
