"""The server process: options, listening sockets, and a clean shutdown on a signal."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import ipaddress
import math
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.config import SearchConfig
from nmt.errors import ConfigError
from nmt.serve.limits import Keys, Limits, Rate, Room, client_of
from nmt.serve.models import EngineName, Models, load_models

NEVER = ("lm", "lm_weight", "batch_tokens", "inline_terms")
"""Settings of search that no client may change: they name files, or take any time or memory."""


@dataclass(frozen=True)
class Settings:
    """The settings of a server."""

    paths: Sequence[Path]
    host: str = "127.0.0.1"
    port: int = 5000
    engine: EngineName = "auto"
    int8: bool = False
    overrides: Sequence[str] = ()
    threads: int | None = None
    keys: Path | None = None
    rate: int = 0
    origins: Sequence[str] = ()
    allowed: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    queue: int = 256
    grace: int = 30
    cache: int = 16 << 20


def start(settings: Settings, echo: Callable[[str], None]) -> None:
    """Load the models and serve until SIGTERM or SIGINT, then answer the requests that wait and return.

    echo: gets messages for the operator. Raises ConfigError, CheckpointError or DataError before anything is served.
    """
    check_installed()
    from nmt.serve.app import make_app
    from nmt.serve.service import Service

    allowed, origins = parse_allowed(settings.allowed), parse_origins(settings.origins)
    keys = Keys.read(settings.keys) if settings.keys is not None else None
    with listen(settings.host, settings.port) as listening:
        if settings.threads is not None:
            import torch

            torch.set_num_threads(settings.threads)
        models = load_models(settings.paths, settings.engine, settings.int8, settings.overrides)
        service = Service(
            models, settings.limits, keys, Rate(settings.rate), allowed, settings.cache, settings.queue,
            settings.threads,
        )  # fmt: skip
        hosts = hosts_of(settings.host, listening)
        if keys is None and hosts is None:
            echo(f"warning: whoever reaches {settings.host} can translate; to require an API key, use --keys")
        for line in described(models):
            echo(line)
        echo(f"serving at {addresses_of(listening)}")
        make_server(make_app(service, origins, hosts), settings.grace).run(listening)


def check_installed() -> None:
    """Raise ConfigError unless the packages of the extra `serve` are installed."""
    needed = {
        "prometheus_client": "prometheus-client", "python_multipart": "python-multipart", "starlette": "starlette",
        "uvicorn": "uvicorn",
    }  # fmt: skip
    absent = [name for module, name in needed.items() if importlib.util.find_spec(module) is None]
    if absent:
        both = " and ".join(absent)
        raise ConfigError([f"{both} must be installed to serve: pip install {' '.join(absent)}, or nmt's extra serve"])


def parse_allowed(options: Sequence[str]) -> dict[str, float | None]:
    """Return the settings that clients may change, with their largest values. Raises ConfigError."""
    allowed: dict[str, float | None] = {}
    for option in options:
        name, equals, most = option.removeprefix("search.").partition("=")
        if name not in SearchConfig.model_fields or name in NEVER:
            known = ", ".join(name for name in SearchConfig.model_fields if name not in NEVER)
            raise ConfigError([f"--allow {option}: not a setting that requests may change; those are: {known}"])
        try:
            allowed[name] = float(most) if equals else None
        except ValueError:
            raise ConfigError([f"--allow {option}: the largest value must be a number"]) from None
        if equals and not math.isfinite(float(most)):
            raise ConfigError([f"--allow {option}: the largest value must be a number"])
    return allowed


def parse_origins(origins: Sequence[str]) -> list[str]:
    """Return the origins. Raises ConfigError for anything else, such as `*`."""
    for origin in origins:
        if not re.fullmatch(r"https?://[^/*\s]+", origin):
            raise ConfigError([f"--origin {origin}: must be a scheme and a host, such as https://example.org"])
    return [*origins]


def described(models: Models) -> list[str]:
    """Return a line for each direction."""
    lines = []
    for source, target, route in models.routes():
        how = f"by way of {route[1].source}" if len(route) > 1 else f"{route[0].name} ({route[0].engine})"
        lines.append(f"{source}-{target}: {how}")
    return lines


CONNECTIONS = 1000
"""Open at the same time; more are refused with 503."""
READ_BYTES = 32 << 10
"""Read of a connection at a time; asyncio's 256 KB of each would be much memory before a handler can refuse a body."""
KEEP_ALIVE_SECONDS = 5
BACKLOG = 1024
PATIENCE_SECONDS = 30.0
"""For a request to begin and for its head to arrive, and between two looks at a connection."""
ANSWER_SECONDS = 900.0
"""For an answer to be taken, from the beginning of its request."""
PROXIES = "127.0.0.1,::1,::ffff:127.0.0.1"
"""This machine. Their `X-Forwarded-For` is believed, unless the variable FORWARDED_ALLOW_IPS names others."""
_TOO_MANY = b'{"error":"Too many connections; try again later"}'
TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_TOO_MANY), _TOO_MANY)
)
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors of binding to an address that this machine does not have."""


class PatientProtocol(H11Protocol):
    """A connection that is closed if its client sends no complete header, reads no answer, or has too many connections.

    uvicorn limits none of these.
    """

    def __init__(self, *arguments: Any, room: Room, is_proxy: Callable[[str], bool], **named: Any) -> None:
        """room: for connections, shared among clients; is_proxy: whether many clients have the same address."""
        super().__init__(*arguments, **named)
        self._room, self._is_proxy = room, is_proxy
        self._counted: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start watching the connection, or refuse it."""
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # of asyncio's transports of sockets
        super().connection_made(transport)
        self._watched: object = None
        self._seconds = 0.0
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)
        host = self.client[0] if self.client else ""
        if self._is_proxy(host):
            return
        if self._room.take(client_of(host)):
            self._counted = client_of(host)
        else:
            transport.write(TOO_MANY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching the connection."""
        self._watch.cancel()
        if self._counted is not None:
            self._room.give_back(self._counted)
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close the connection if nothing has happened since the last look."""
        cycle = self.cycle
        self._seconds = self._seconds + PATIENCE_SECONDS if cycle is self._watched else 0.0
        is_sending = self.transport.get_write_buffer_size() > 0
        is_answering = cycle is not None and (not cycle.response_complete or is_sending)
        if cycle is self._watched and (not is_answering or self._seconds > ANSWER_SECONDS):
            self.transport.abort()
            return
        self._watched = cycle
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)


class Server(uvicorn.Server):
    """uvicorn's server, which ends normally after SIGTERM and SIGINT; by default it raises them again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Turn the signals into requests to stop."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()


@contextmanager
def listen(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Listen on all addresses of this machine that a name resolves to, such as 127.0.0.1 and ::1 for localhost.

    port: 0 for any. Raises ConfigError if an address is in use, or none is this machine's.
    """
    with ExitStack() as stack:
        try:
            listening = _listening(host, port, stack)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
            raise ConfigError([f"--host {host} --port {port}: {reason}; name another with --port or --host"]) from error
        yield listening


def _listening(host: str, port: int, stack: ExitStack) -> list[socket.socket]:
    """Return listening sockets, which the stack closes. Raises OSError."""
    listening, absent = [], OSError(errno.EADDRNOTAVAIL, "")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, (address, _, *rest) in dict.fromkeys(found):
        try:
            # asyncio sends without Nagle's delay of 40 ms only if the protocol is named; socket.create_server does not
            one = stack.enter_context(socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((address, port, *rest))
            one.listen(BACKLOG)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            absent = error
        else:
            port = one.getsockname()[1]  # if it was 0: the same for all
            listening.append(one)
    if not listening:
        raise absent
    return listening


def addresses_of(listening: Sequence[socket.socket]) -> str:
    """Return the addresses to open in a browser."""
    addresses = []
    for one in listening:
        host, port = one.getsockname()[:2]
        addresses.append(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    return " and ".join(addresses)


def hosts_of(host: str, listening: Sequence[socket.socket]) -> list[str] | None:
    """Return the names of a server to which only this machine can connect; None for any other."""
    addresses = [one.getsockname()[0].partition("%")[0] for one in listening]
    if not all(ipaddress.ip_address(address).is_loopback for address in addresses):
        return None
    return [host.lower(), "localhost", "127.0.0.1", "::1", *addresses]


def make_server(app: Starlette, grace: int) -> Server:
    """Return a server of the application. grace: seconds for answers after a signal to stop."""
    proxies = os.environ.get("FORWARDED_ALLOW_IPS", PROXIES)
    trusted = ProxyHeadersMiddleware(app, proxies).trusted_hosts  # type: ignore[arg-type]  # of ASGI's types
    settings: dict[str, Any] = {
        "http": partial(PatientProtocol, room=Room(CONNECTIONS), is_proxy=trusted.__contains__),
        "forwarded_allow_ips": proxies,
        "ws": "none",
        "loop": "asyncio",
        "lifespan": "on",
        "access_log": False,
        "log_level": "critical",  # uvicorn's messages may quote what clients send
        "server_header": False,
        "limit_concurrency": CONNECTIONS,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": grace,
        "h11_max_incomplete_event_size": 32 << 10,
    }
    return Server(uvicorn.Config(app, **settings))
