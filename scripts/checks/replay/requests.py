"""Requests to a server that is started for them: rows of requests.tsv.

The columns are the server, a name, the method, the path, the content type and the body. `{text}` in a body stands for
each of the odd texts of `inputs.py`, as JSON. A body `form: {...}` is sent as a form with these fields; a field `file`
is the file of that name.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scripts.checks.replay.inputs import REQUESTED_TEXTS
from scripts.checks.replay.tables import Request

READY_SECONDS = 300.0
_DOWNLOAD = re.compile(r"/download_file/([\w.-]+)")
_ALLOW_ORDER = ("allow", "access-control-allow-methods")


def perform(serve: Callable[[int], None], requests: Sequence[Request], log: Path) -> None:
    """Start the server in a child process, send the requests, and write each answer to a file."""
    port = _free_port()
    server = os.fork()
    if not server:
        serve(port)
    try:
        _wait_until_ready(port)
        answers = log.with_suffix(".answers")
        answers.mkdir()
        for request in _expanded(requests):
            answer = _answer(port, request)
            (answers / f"{request.name}.http").write_text(answer, encoding="utf-8", errors="backslashreplace")
    finally:
        os.kill(server, signal.SIGTERM)
        _, status = os.waitpid(server, 0)
    log.with_suffix(".server").write_text(f"{os.waitstatus_to_exitcode(status)}\n")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(port: int) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise TimeoutError("the server does not become ready")


def _expanded(requests: Sequence[Request]) -> Iterator[Request]:
    """The requests, those with `{text}` once for each odd text."""
    for request in requests:
        if "{text}" not in request.body:
            yield request
            continue
        for number, text in enumerate(REQUESTED_TEXTS):
            body = request.body.replace("{text}", json.dumps(text))
            name = f"{request.name}-{number:02d}"
            yield Request(name, request.method, request.path, request.content_type, body)


def _answer(port: int, request: Request) -> str:
    """Send a request; its status, headers and body. A file that the answer names is downloaded, too."""
    content_type, body = request.content_type, request.body.encode("utf-8", "surrogatepass")
    if request.body.startswith("form: "):
        body, content_type = _form(json.loads(request.body.removeprefix("form: ")))
    elif request.body.startswith("bytes: "):
        body = request.body.removeprefix("bytes: ").encode("latin-1")
    elif request.body.startswith("times: "):
        _, times, text = request.body.split(" ", 2)
        body = int(times) * text.encode()
    status, text = _sent(port, request.method, request.path, content_type, body)
    if request.method == "POST" and (download := _DOWNLOAD.search(text)):
        text = text.replace(download[1], "ID")
        text += "\n\n" + _sent(port, "GET", download[0], "", b"")[1].replace(download[1], "ID")
    return f"{status}\n{text}"


def _sent(port: int, method: str, path: str, content_type: str, body: bytes) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-Type": content_type} if content_type else {}
    try:
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        content = response.read().decode("utf-8", "backslashreplace")
    except (OSError, http.client.HTTPException) as problem:
        return 0, f"{type(problem).__name__}"
    if path == "/metrics":
        content = "\n".join(line.split(" ")[0] for line in content.splitlines() if not line.startswith("#"))
    lines = []
    for name, value in sorted(response.getheaders()):
        if name.lower() in _ALLOW_ORDER:
            value = ", ".join(sorted(value.split(", ")))
        if name.lower() not in ("date", "server") and not (path == "/metrics" and name.lower() == "content-length"):
            lines.append(f"{name.lower()}: {value}")
    return response.status, "\n".join([*lines, "", content])


def _form(fields: dict[str, str]) -> tuple[bytes, str]:
    boundary = "boundary"
    parts = []
    for name, value in fields.items():
        about, content = f'name="{name}"', value.encode()
        if name == "file":
            about, content = f'{about}; filename="{Path(value).name}"', Path(value).read_bytes()
        parts.append(f"--{boundary}\r\nContent-Disposition: form-data; {about}\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
