"""The server process: listening sockets, and a clean shutdown on a signal."""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib.util
import ipaddress
import math
import os
import re
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.console import say
from nmt.errors import ConfigError
from nmt.search.settings import SearchConfig
from nmt.serve.models import Models, load_models
from nmt.serve.settings import ServeOptions

NEVER_FULL = 1 << 30
"""Number of smaller collections of garbage before a full one."""
NEVER = ("lm", "lm_weight", "batch_tokens", "inline_terms")
"""Search settings that no client may change: they name files, or allow unlimited time or memory."""


def start(options: ServeOptions, echo: Callable[[str], None]) -> None:
    """Load the models, serve until SIGTERM or SIGINT, then answer the waiting requests and return.

    `echo` is called with messages for the operator. Raises ConfigError, CheckpointError or DataError before the server
    starts.
    """
    check_installed()
    from nmt.serve.admission import Admission, RateLimiter, read_keys
    from nmt.serve.app import make_app
    from nmt.serve.service import Service

    allowed = parse_allowed(options.allow)
    check_origins(options.origins)
    keys = None if options.keys is None else read_keys(options.keys)
    with listen(options.host, options.port) as listening:
        if options.threads is not None:
            import torch

            torch.set_num_threads(options.threads)
        models = load_models(
            options.paths, options.engine, options.int8, options.overrides, options.zero_shot, options.tm
        )
        service = Service(models, options.limits, allowed, options.cache, options.threads)
        admission = Admission(options.limits, keys, RateLimiter(options.rate), options.queue)
        hosts = hosts_of(options.host, listening)
        if keys is None and hosts is None:
            echo(f"warning: anyone who can connect to {options.host} can translate; to require an API key, use --keys")
        for line in described(models):
            echo(line)
        service.document_process.start()  # which takes half a second
        # Full collections pause the server: of the modules and models, for a quarter of a second, and of many waiting
        # texts, for seconds. The application makes them when little is held.
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], NEVER_FULL)
        echo(f"serving at {addresses_of(listening)}")
        app = make_app(service, admission, options.origins, hosts)
        serve(make_server(app, options.grace, open_more_files()), listening)
        if service.is_stuck:  # native code may crash if the interpreter ends before it
            os._exit(0)


def serve(server: uvicorn.Server, listening: list[socket.socket]) -> None:
    """Run a server until SIGTERM or SIGINT, which end it normally; uvicorn would raise them again."""

    def end(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    server.run(listening)


def check_installed() -> None:
    """Raise ConfigError unless the packages of the extra `serve` are installed."""
    needed = ("prometheus_client", "py3langid", "python_multipart", "starlette", "uvicorn")
    absent = [name.replace("_", "-") for name in needed if importlib.util.find_spec(name) is None]
    if absent:
        needed_packages = " and ".join(absent)
        command = f"pip install {' '.join(absent)}"
        raise ConfigError(f"{needed_packages} must be installed: {command}, or pip install 'nmt-train[serve]'")


def parse_allowed(options: Sequence[str]) -> dict[str, float | None]:
    """Return the search settings that clients may change, with their maximum values. Raises ConfigError."""
    allowed = {}
    for option in options:
        name, equals, most = option.removeprefix("search.").partition("=")
        if name not in SearchConfig.model_fields or name in NEVER:
            known = ", ".join(name for name in SearchConfig.model_fields if name not in NEVER)
            raise ConfigError(f"--allow {option}: requests cannot change this setting; choose from: {known}")
        try:
            allowed[name] = float(most) if equals else None
        except ValueError:
            allowed[name] = math.nan
        if equals and not math.isfinite(allowed[name] or 0):
            raise ConfigError(f"--allow {option}: the maximum value must be a number")
    return allowed


def check_origins(origins: Sequence[str]) -> None:
    """Raise ConfigError unless each origin consists of a scheme and a host."""
    for origin in origins:
        if not re.fullmatch(r"https?://[^/*\s]+", origin):
            raise ConfigError(f"--origin {origin}: must be a scheme and a host, such as https://example.org")


def described(models: Models) -> list[str]:
    """Return a line of text about the engine or the route of each direction."""
    lines = []
    for source, target, route in models.routes():
        way = f"by way of {route[1].source}" if len(route) > 1 else f"{route[0].run} ({route[0].precision})"
        lines.append(f"{source}-{target}: {way}")
    return lines


CONNECTIONS = 1000
"""Maximum number of open connections. For a new one, the oldest without a complete request is closed; if there is none,
the new one receives status 503."""
FILES = 200
"""Number of files that may be open besides connections, and of connections that are accepted before others close."""
READ_BYTES = 32 << 10
"""Bytes read from a connection at a time; asyncio's 256 KB would be too much for 1,000 connections."""
CHUNK_BYTES = 64
"""Least mean size of the chunks of a body, each of which takes as long as kilobytes do."""
FREE_BYTES = 100 * CHUNK_BYTES
"""How far a body may fall short of this mean, as in its first hundred chunks."""
KEEP_ALIVE_SECONDS = 5
BACKLOG = 1024
"""Number of connections that may wait until they are accepted."""
ACCEPTS = 32
"""Number of connections that are accepted at a time, which delays answers by some milliseconds."""
LOG_SECONDS = 1.0
"""Interval between messages about connections that are closed."""
PATIENCE_SECONDS = 30.0
"""Time limit for the headers of a request to arrive, and interval between checks of a connection."""
ANSWER_SECONDS = 900.0
"""Time limit from the beginning of a request until the client has read the answer."""
ARRIVAL_SECONDS = 0.5
"""Time after the signal to stop in which requests that were sent before may arrive."""
PROBE_SECONDS = 0.5
"""Interval between probes whether a client that has stopped sending still reads."""
PROXIES = "127.0.0.1,::1,::ffff:127.0.0.1"
"""Addresses whose `X-Forwarded-For` is trusted by default: this machine."""


class Incoming(h11.Connection):
    """The parser of a connection, which rejects bodies that consist of tiny chunks."""

    spare = FREE_BYTES

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event. Raises RemoteProtocolError, also for a body that consists of tiny chunks."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.spare = FREE_BYTES
        elif isinstance(event, h11.Data):
            self.spare = min(FREE_BYTES, self.spare + len(event.data) - CHUNK_BYTES * event.chunk_start)
            if self.spare < 0:
                raise h11.RemoteProtocolError("tiny chunks")
        return event


class PatientProtocol(H11Protocol):
    """A connection that is closed if its client does not complete its headers or does not read its answer.

    uvicorn has no such limits. A client that stops sending after a complete request gets its answer, and only complete
    requests are waited for when the server stops.
    """

    _reported = -math.inf
    """When the closing of connections was last reported."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start watching the connection."""
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # of asyncio's transports of sockets
        super().connection_made(transport)
        self.conn: Incoming = Incoming(h11.SERVER, READ_BYTES)
        self._since = self.loop.time()
        self._watched: object = None
        self._seconds = 0.0
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room()
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching the connection."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """Close the oldest other connection without a complete request, if possible one without any."""
        if (now := self.loop.time()) > PatientProtocol._reported + LOG_SECONDS:
            PatientProtocol._reported = now
            say(f"{self.limit_concurrency} connections are open: the oldest without a request are closed")
        others = (other for other in self.connections if isinstance(other, PatientProtocol) and other is not self)
        unused = [other for other in others if not other._is_asked and not other.transport.is_closing()]
        if unused:
            min(unused, key=lambda other: (other._has_data, other._since)).transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Reject an invalid request, or close the connection if its answer has begun."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
        elif self.conn.spare < 0:
            super().send_400_response("The chunks of the body are too small")
        else:
            super().send_400_response(msg)

    @property
    def _has_data(self) -> bool:
        """Whether the rest of a body is to arrive, or of an answer to be sent."""
        return self._has_begun or self.transport.get_write_buffer_size() > 0

    @property
    def _has_begun(self) -> bool:
        """Whether a request, perhaps without the rest of its body, is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_asked(self) -> bool:
        """Whether a complete request waits for its answer, or for the rest of it."""
        return self._has_begun and not self.cycle.more_body

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection if a request waits for its answer."""
        if keeps := self._is_asked and self.scope["http_version"] == "1.1":
            self.cycle.keep_alive = False
            self.loop.call_later(PROBE_SECONDS, self._probe)
        return keeps

    def _probe(self) -> None:
        """Send an interim response, after which the system of a client that has closed the connection resets it."""
        if self._is_asked and not self.cycle.response_started and not self.transport.is_closing():
            event = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self.transport.write(self.conn.send(event) or b"")
            self.loop.call_later(PROBE_SECONDS, self._probe)

    def shutdown(self, has_arrived: bool = False) -> None:
        """Close the connection after its answer, or soon if no request waits for one.

        has_arrived: whether nothing more is to arrive that was sent before the signal to stop.
        """
        if self._is_asked:
            super().shutdown()
        elif has_arrived:
            self.transport.close()
        else:
            self.loop.call_later(ARRIVAL_SECONDS, self.shutdown, True)

    def _look(self) -> None:
        """Close the connection if nothing has happened since the last check."""
        cycle = self.cycle
        self._seconds = self._seconds + PATIENCE_SECONDS if cycle is self._watched else 0.0
        is_sending = self.transport.get_write_buffer_size() > 0
        is_answering = cycle is not None and (not cycle.response_complete or is_sending)
        if cycle is self._watched and (not is_answering or self._seconds > ANSWER_SECONDS):
            self.transport.abort()
            return
        self._watched = cycle
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)


class Listener(socket.socket):
    """A listening socket. asyncio's backlog, `ACCEPTS`, is the number of connections that it accepts at a time, too."""

    def listen(self, _: int = 0) -> None:
        """Listen with the server's backlog."""
        super().listen(BACKLOG)


@contextmanager
def listen(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Listen on all local addresses that a name resolves to, such as 127.0.0.1 and ::1 for localhost.

    port: the port, or 0 for any free port. Raises ConfigError if an address is in use, or if none is local.
    """
    with ExitStack() as stack:
        try:
            listening = _listening(host, port, stack)
        except OSError as error:
            raise ConfigError(
                f"--host {host} --port {port}: {error.strerror}; choose another --host or --port"
            ) from error
        yield listening


def _listening(host: str, port: int, stack: ExitStack) -> list[socket.socket]:
    """Return the listening sockets, which are closed by the stack. Raises OSError."""
    listening: list[socket.socket] = []
    absent = None
    resolved = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
    )
    for family, kind, protocol, _, (address, _, *scope) in dict.fromkeys(resolved):
        try:
            # asyncio avoids Nagle's delay of 40 ms only if the protocol is given, unlike in socket.create_server
            listener = stack.enter_context(Listener(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port, *scope))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
            absent = error  # not a local address
            continue
        listener.listen()
        port = listener.getsockname()[1]  # if it was 0, all addresses get the same port
        listening.append(listener)
    if absent and not listening:
        raise absent
    return listening


def addresses_of(listening: Sequence[socket.socket]) -> str:
    """Return the URLs of the server as text."""
    addresses = []
    for listener in listening:
        host, port = listener.getsockname()[:2]
        addresses.append(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    return " and ".join(addresses)


def hosts_of(host: str, listening: Sequence[socket.socket]) -> list[str] | None:
    """Return the host names of a server that only accepts local connections; None for any other server."""
    addresses = [listener.getsockname()[0].partition("%")[0] for listener in listening]
    if not all(ipaddress.ip_address(address).is_loopback for address in addresses):
        return None
    return [host.lower(), "localhost", "127.0.0.1", "::1", *addresses]


def open_more_files() -> int:
    """Raise the soft limit of open files as far as the server needs, and return the number of connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS + FILES
    soft = max(soft, needed if hard == resource.RLIM_INFINITY else min(needed, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(CONNECTIONS, soft - FILES))


def make_server(app: Starlette, grace: int, connections: int = CONNECTIONS) -> uvicorn.Server:
    """Return a uvicorn server of the application.

    grace: time limit in seconds for answers after a signal to stop; connections: maximum number of connections.
    """
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        forwarded_allow_ips=os.environ.get("FORWARDED_ALLOW_IPS", PROXIES),
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_level="critical",  # uvicorn's messages may quote requests
        server_header=False,
        limit_concurrency=connections,
        backlog=ACCEPTS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=grace,
    )
    return uvicorn.Server(config)
