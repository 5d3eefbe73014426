"""The process: listening, translating until a signal comes, and ending in good order."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.errors import ConfigError

CONNECTIONS = 1000
"""At the same time; more are refused with 503."""
KEEP_ALIVE_SECONDS = 5
BACKLOG = 1024
PATIENCE_SECONDS = 30.0
"""For a request to begin and for its head to arrive, and between two looks at a connection."""
ANSWER_SECONDS = 900.0
"""For an answer to be taken, from the beginning of its request."""


class PatientProtocol(H11Protocol):
    """A connection that is closed if its client sends no complete head of a request, or takes no answer.

    uvicorn limits neither.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self._watched: object = None
        self._seconds = 0.0
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._watch.cancel()
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


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises ConfigError if the address is not this machine's or is in use."""
    listening = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sends without Nagle's delay, 40 ms, only if the protocol is named, as socket.create_server does not
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        if listening is not None:
            listening.close()
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
        raise ConfigError([f"--host {host} --port {port}: {reason}; name another with --port or --host"]) from error


def address_of(listening: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can connect."""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def make_server(app: Starlette, grace: int) -> Server:
    """Return a server of the application. grace: seconds for answers after a signal to stop."""
    settings: dict[str, Any] = {
        "http": PatientProtocol,
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
