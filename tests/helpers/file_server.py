"""Files on the loopback interface, from a server that can be told to fail in the ways real ones do."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from loopback import serving


@dataclass(frozen=True)
class Cut:
    """The answer breaks off after some bytes of the body."""

    after: int


@dataclass(frozen=True)
class Status:
    """An answer without a body, such as 503, or a redirect."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Silence:
    """No answer at all."""


class Site:
    """Files by path (with query, if there is one), what goes wrong next, and the requests so far."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.troubles: list[Cut | Status | Silence] = []
        """One for each of the next requests."""
        self.requests: list[str] = []
        """The path of each, with the range that it asks for."""
        self.validators: dict[str, str] = {"ETag": '"one"'}
        self.has_ranges = True
        self.is_chunked = False
        """Whether files are sent in chunks, without their length."""
        self.keeps_promises = True
        """Whether If-Range is obeyed."""
        self.url = ""
        self.closing = threading.Event()


@contextmanager
def serve_files() -> Iterator[Site]:
    """Serve a site until the block ends."""

    site = Site()
    with serving(type("Handler", (_Handler,), {"site": site})) as site.url:
        try:
            yield site
        finally:
            site.closing.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's own name)
        """Print nothing."""

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.site.requests.append(f"{self.path} {asked}" if asked else self.path)
        trouble = self.site.troubles.pop(0) if self.site.troubles else None
        match trouble:
            case Status(code, headers):
                self._send(code, b"", headers)
            case Silence():
                self.site.closing.wait(5)
                self.close_connection = True
            case Cut(after):
                self._file(asked, after)
                self.close_connection = True
            case None:
                self._file(asked)

    def _file(self, asked: str | None, after: int | None = None) -> None:
        site = self.site
        data = site.files.get(self.path)
        if data is None:
            self._send(404, b"", {})
            return
        is_same = not site.keeps_promises or self.headers.get("If-Range") in site.validators.values()
        if asked is None or not site.has_ranges or not is_same:
            self._send(200, data, site.validators, after)
            return
        match = re.fullmatch(r"bytes=(\d+)-", asked)
        assert match is not None
        start = int(match[1])
        if start >= len(data):
            self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        span = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        self._send(206, data[start:], site.validators | span, after)

    def _send(self, status: int, data: bytes, headers: dict[str, str], after: int | None = None) -> None:
        if self.site.is_chunked and status == 200:
            headers = headers | {"Transfer-Encoding": "chunked"}
            chunks = [data[start : start + 1000] for start in range(0, len(data), 1000)]
            data = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
        else:
            headers = {"Content-Length": str(len(data))} | headers
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[:after])
