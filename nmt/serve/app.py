"""The application: which function answers which request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from nmt.console import say
from nmt.html.document import asset
from nmt.serve.access import Turns, admit
from nmt.serve.edge import Edge, Gate, Handler, error_answer
from nmt.serve.libretranslate import LibreTranslate
from nmt.serve.limits import Refusal
from nmt.serve.openapi import docs_page, specification
from nmt.serve.service import Service
from nmt.serve.v1 import Api
from nmt.serve.worker import failure

MEDIA_TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png",
}  # fmt: skip
"""Of the files of the page; others are not sent."""
FORM_BYTES = 64 << 10
"""Of a form with a file, beside the file."""


def make_app(service: Service, origins: Sequence[str] = (), hosts: Sequence[str] | None = None) -> Starlette:
    """Return the application.

    origins: of pages elsewhere that may use it (CORS), as https://example.org; hosts: see `Edge`.
    """
    gate = Gate(service)
    routes = [*_libretranslate(service, gate), *_own(service, gate), *_pages(service), *_operation(service, gate)]

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
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)
    app.state.turns = Turns(service.queue)
    return app


async def _warm_up(service: Service) -> None:
    try:
        while not service.is_ready:
            try:
                await service.warm_up()
            except Refusal as refusal:
                if refusal.status != 503:
                    raise
                await asyncio.sleep(1)  # clients were faster, and the queue is full
    except Exception as error:
        reason = error.message if isinstance(error, Refusal) else failure(error)
        say(f"not ready: the warm-up translation failed: {reason}")
    else:
        say("ready")


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_answer(error)


def _libretranslate(service: Service, gate: Gate) -> list[Route]:
    api = LibreTranslate(service)
    return [
        Route("/translate", gate(api.translate), methods=["POST"]),
        Route("/detect", gate(api.detect), methods=["POST"]),
        Route("/languages", api.languages),
        Route("/frontend/settings", api.settings),
        Route("/translate_file", gate(api.translate_file, service.limits.file_bytes + FORM_BYTES), methods=["POST"]),
        Route("/download_file/{number}", api.download_file),
        Route("/suggest", api.suggest, methods=["POST"]),
    ]


def _own(service: Service, gate: Gate) -> list[Route]:
    api = Api(service)
    return [Route("/v1/translate", gate(api.translate), methods=["POST"]), Route("/v1/info", api.info)]


def _operation(service: Service, gate: Gate) -> list[Route]:
    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        if not service.is_ready:
            raise Refusal(503, "Not ready", {"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    async def metrics(request: Request) -> Response:
        if service.keys is not None:
            admit(service, request)
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")

    guarded = metrics if service.keys is None else gate(metrics)
    return [Route("/health", health), Route("/ready", ready), Route("/metrics", guarded)]


def _pages(service: Service) -> list[Route]:
    described = specification(service)
    page = docs_page(described)
    style = asset("nmt.html", "style.css")

    async def spec(_: Request) -> Response:
        return JSONResponse(described)

    async def docs(_: Request) -> Response:
        return HTMLResponse(page)

    async def docs_style(_: Request) -> Response:
        return Response(style, media_type="text/css")

    own = [Route("/spec", spec), Route("/docs", docs), Route("/docs.css", docs_style)]
    return [*own, *_static()]


def _static() -> list[Route]:
    """Return the routes of the page's files, which are read once; no other files are served."""
    routes = []
    for file in files("nmt.serve").joinpath("page").iterdir():
        media_type = MEDIA_TYPES.get(PurePath(file.name).suffix)
        if media_type is None:
            continue
        path = "/" if file.name == "index.html" else f"/{file.name}"
        routes.append(Route(path, _static_file(file.read_bytes(), media_type)))
    return routes


def _static_file(content: bytes, media_type: str) -> Handler:
    async def answer(_: Request) -> Response:  # a browser asks again each time, as after an update it is another
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return answer
