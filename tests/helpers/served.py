"""A server with translators that are made up, on the loopback interface, in a thread of this process."""

from __future__ import annotations

import builtins
import http.client
import json
import socket
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette

from nmt.config.load import load_config
from nmt.search.rules import SearchStopped, ShouldStop
from nmt.search.settings import SearchConfig
from nmt.serve.admission import Admission
from nmt.serve.app import make_app
from nmt.serve.server import listen, make_server
from nmt.serve.service import Service
from nmt.translate.align import word_spans
from nmt.translate.configured import conventions_of
from nmt.translate.loading import Translator
from nmt.translate.types import Confidence, Line, Options, Part, Translation
from waiting import until

FORM = "multipart/form-data; boundary=XX"


def multipart(*parts: tuple[str, bytes]) -> bytes:
    """Return a multipart form; each part is given by its disposition."""
    lines = [f"--XX\r\nContent-Disposition: form-data; {name}\r\n\r\n".encode() + value for name, value in parts]
    return b"\r\n".join([*lines, b"--XX--\r\n"])


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class MadeUp(Translator):
    """Translates a line into itself with its languages before it: `de>en: Hallo`, and `de>en#2: Hallo`.

    What lines that are named after an exception raise, and what waits for `gate` or until it is stopped, is for tests
    of faults.
    """

    has_confidence = True  # type: ignore[assignment]

    def __init__(self, source: str, target: str, has_native: bool = True, run: Path | None = None) -> None:
        config, direction = load_config("sample.yaml"), f"{source}-{target}"
        data = config.data.model_copy(update={"direction": direction})
        config = config.model_copy(update={"data": data, "search": SearchConfig()})
        searcher: Any = SimpleNamespace(precision="made up")
        tokenizers: Any = None
        super().__init__(
            searcher,
            tokenizers,
            conventions_of(config.data, config.training),
            config.search,
            config=config,
            run=run or Path(direction),
            fallback=searcher if has_native else None,
        )
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[list[str]] = []
        self.hows: list[Options] = []

    def costs(self, lines: Sequence[Line], first: int, options: Options) -> list[float]:  # noqa: ARG002
        return [100.0 + len(line.text) for line in lines]

    def translate_window(
        self,
        window: Sequence[Line | str],
        options: Options,
        first: int = 0,  # noqa: ARG002
        progress: object = None,  # noqa: ARG002
        should_stop: ShouldStop | None = None,
    ) -> Generator[list[Translation]]:
        lines = [line for line in window if isinstance(line, Line)]
        self.batches.append([line.text for line in lines])
        self.hows.append(options)
        for line in lines:
            if line.text == "wait":
                assert self.gate.wait(30)
            if line.text == "endless":
                assert should_stop is not None
                until(should_stop, 10)
                raise SearchStopped
            if line.text in ("ZeroDivisionError", "SystemExit", "MemoryError"):
                raise getattr(builtins, line.text)(f"about {line.text}")
            yield [self._candidate(line, rank, options) for rank in range(options.n_best)]

    def _candidate(self, line: Line, rank: int, options: Options) -> Translation:
        mark = f"#{rank + 1}" if rank else ""
        text = f"{line.prefix}{self.source}>{self.target}{mark}: {line.text}"
        for source, target in line.glossary._terms.items() if line.glossary is not None else ():
            text = text.replace(source, target)
        to_spans = word_spans(text)[-len(word_spans(line.text)) :]
        pairs = tuple(zip(word_spans(line.text), to_spans, strict=True)) if options.align else None
        confidence = Confidence(100.0 - len(line.text), len(line.text) > 20) if options.confidence else None
        ids = (0,) * len(line.text.split())
        return Translation(text, pairs, -1.0 - rank, -2.0 - rank, confidence, parts=(Part(line.text, ids, ()),))


class Answer(NamedTuple):
    """A response, with header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A client of a server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(
        self,
        path: str,
        fields: object = None,
        *,
        form: object = None,
        raw: bytes | None = None,
        method: str | None = None,
        **headers: str,
    ) -> Answer:
        """Send GET, or POST with JSON or a form; headers are given as `x_api_key`."""
        body = raw
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if fields is not None:
            body = json.dumps(fields).encode()
            sent.setdefault("content-type", "application/json")
        if form is not None:
            body = urlencode(form, doseq=True).encode()  # type: ignore[arg-type]
            sent.setdefault("content-type", "application/x-www-form-urlencoded")
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, received, response.read())

    def connect(self) -> socket.socket:
        """Open a plain connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextmanager
def serving(
    service: Service,
    admission: Admission | None = None,
    *,
    origins: Sequence[str] = (),
    ready: bool = True,
    hosts: Sequence[str] | None = None,
) -> Iterator[Client]:
    """Serve until the block ends; before it, wait until the service is ready."""
    with serving_app(make_app(service, admission, origins, hosts)) as client:
        until(lambda: service.is_ready or not ready, 30)
        yield client


@contextmanager
def serving_app(app: Starlette, server: uvicorn.Server | None = None) -> Iterator[Client]:
    """Serve an application until the block ends, by default with a server of its own."""
    server = server or make_server(app, grace=5)
    with listen("127.0.0.1", 0) as [listening]:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            until(lambda: server.started, 30)
            yield Client(listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
