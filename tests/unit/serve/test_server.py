"""Tests of connections: listening addresses, trusted proxies, and clients that read slowly."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hanging import hang
from nmt.errors import ConfigError
from nmt.serve import documents, server
from nmt.serve.app import make_app
from nmt.serve.documents import file_answer
from nmt.serve.models import Models
from nmt.serve.parsing import DocumentProcess
from nmt.serve.server import (
    NEVER,
    PatientProtocol,
    addresses_of,
    check_origins,
    hosts_of,
    listen,
    make_server,
    open_more_files,
    parse_allowed,
)
from nmt.serve.service import Service
from served import FORM, Client, MadeUp, multipart, serving, serving_app
from waiting import until


def app_of(answer: Callable[[], Response]) -> Starlette:
    async def handler(_: Request) -> Response:
        return answer()

    return Starlette(routes=[Route("/", handler)])


# --- listening ----------------------------------------------------------------------------------


def found(*hosts: str) -> Callable[..., list[Any]]:
    """Return a `getaddrinfo` that finds these addresses."""
    families = [(socket.AF_INET6, (0, 0)) if ":" in host else (socket.AF_INET, ()) for host in hosts]
    return lambda _, port, **__: [
        (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, *rest))
        for host, (family, rest) in zip(hosts, families, strict=True)
    ]


@pytest.fixture
def second() -> str:
    """Return a second loopback address, different from 127.0.0.1."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return "::1"
    except OSError:
        return "127.0.0.2"


def test_host_name_listens_on_all_addresses(second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", found(second, "192.0.2.1", "127.0.0.1", "127.0.0.1"))
    with listen("localhost", 0) as listening:
        (one, port), (other, same) = (each.getsockname()[:2] for each in listening)
        assert (one, other) == (second, "127.0.0.1") and port == same and hosts_of("localhost", listening)
        where = f"[{second}]" if ":" in second else second
        assert addresses_of(listening) == f"http://{where}:{port} and http://127.0.0.1:{port}"
        for each in listening:
            with socket.socket(each.family) as client:
                client.connect(each.getsockname())
    with socket.create_server(("127.0.0.1", 0)) as taken:  # one of its two addresses is in use
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="in use"), listen("localhost", port):
            pass
    with listen("localhost", port) as listening:  # the failed attempt left no socket open
        assert len(listening) == 2


@pytest.mark.parametrize(("other", "is_own"), [("::1", True), ("192.0.2.1", False), ("fe80::1%eth0", False)])
def test_server_is_public_if_any_address_is_public(other: str, is_own: bool) -> None:
    sockets: Any = [SimpleNamespace(getsockname=lambda host=host: (host, 5000)) for host in ("127.0.0.1", other)]
    assert (hosts_of("x", sockets) is not None) is is_own


def test_forwarded_address_of_local_proxy_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_server(app_of(Response), 5).config.forwarded_allow_ips == "127.0.0.1,::1,::ffff:127.0.0.1"
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    assert make_server(app_of(Response), 5).config.forwarded_allow_ips == "192.0.2.1"


# --- slow readers -------------------------------------------------------------------------------

LARGE = 8 << 20
"""Size of an answer in bytes, larger than the buffers between server and client."""


class Looks:
    """A record of the checks of the only connection of a server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n, self.buffered, self.is_lost = 0, 0, threading.Event()
        look, lose = PatientProtocol._look, PatientProtocol.connection_lost

        def looking(protocol: PatientProtocol) -> None:
            self.n += 1
            self.buffered = protocol.transport.get_write_buffer_size()
            look(protocol)

        def losing(protocol: PatientProtocol, error: Exception | None) -> None:
            self.is_lost.set()
            lose(protocol, error)

        monkeypatch.setattr(PatientProtocol, "_look", looking)
        monkeypatch.setattr(PatientProtocol, "connection_lost", losing)

    def wait(self, n: int) -> None:
        """Wait for `n` more checks, or the end of the connection."""
        end = self.n + n
        until(lambda: self.n >= end or self.is_lost.is_set())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.02 * 50.5)
    return Looks(monkeypatch)


@pytest.fixture(params=["at once", "in pieces"])
def large(request: pytest.FixtureRequest) -> Iterator[Client]:
    content = bytes(LARGE)
    answer = (lambda: Response(content)) if request.param == "at once" else (lambda: file_answer("a.txt", content))
    with serving_app(app_of(answer)) as client:
        client.in_pieces = request.param == "in pieces"  # type: ignore[attr-defined]
        yield client


def reading(client: Client) -> socket.socket:
    """Return a connection that has sent a request and reads the answer slowly."""
    connection = socket.socket()
    connection.settimeout(30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", client.port))
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return connection


def test_slow_reader_gets_whole_answer(looks: Looks, large: Client) -> None:
    with reading(large) as connection:
        head, _, content = connection.recv(1000).partition(b"\r\n\r\n")
        n = len(content)
        for _ in range(10):
            looks.wait(1)
            n += len(connection.recv(1000))
        assert not looks.is_lost.is_set()
        # a file is copied piece by piece while the client reads
        assert (looks.buffered < LARGE // 8) is large.in_pieces  # type: ignore[attr-defined]
        while more := connection.recv(1 << 20):
            n += len(more)
    assert b" 200 " in head and n == LARGE


def test_stalled_reader_is_disconnected(looks: Looks, large: Client) -> None:
    with reading(large) as connection:
        connection.recv(1000)
        looks.wait(30)
        assert not looks.is_lost.is_set()
        looks.wait(30)
        assert looks.is_lost.is_set()


# --- ends of connections -----------------------------------------------------------------------


HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
BODY = b'{"q": "wait", "source": "de", "target": "en"}'
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


def everything(connection: socket.socket) -> bytes:
    """Return what is sent until the other end closes the connection."""
    return b"".join(iter(lambda: connection.recv(1000), b""))


@pytest.fixture
def held() -> Iterator[MadeUp]:
    """A direction that translates when its gate is opened."""
    direction = MadeUp("de", "en")
    yield direction
    direction.gate.set()


def test_client_that_stops_sending_gets_answer(held: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PROBE_SECONDS", 0.01)
    with serving(Service(Models([held]))) as client, client.connect() as connection:
        held.gate.clear()
        connection.sendall(REQUEST)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 "), "the server looks whether the client is there"
        held.gate.set()
        answer = everything(connection)
    assert b" 200 OK" in answer and answer.endswith(b'{"translatedText":"de>en: wait"}')


def test_request_with_two_lengths_is_rejected() -> None:
    with serving(Service(Models([MadeUp("de", "en")]))) as client, client.connect() as connection:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
        connection.sendall(HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        answer = everything(connection)
    assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 400 ")


@contextmanager
def stopping(service: Service, grace: int) -> Iterator[tuple[Client, Callable[[], None], threading.Thread]]:
    """Serve in a thread; yields a client, a function that tells the server to end, and the thread."""
    running = make_server(make_app(service), grace)
    with listen("127.0.0.1", 0) as [listening]:
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        until(lambda: service.is_ready, 30)
        yield Client(listening.getsockname()[1]), lambda: setattr(running, "should_exit", True), thread
        thread.join(60)
        assert not thread.is_alive()


def test_stopping_server_waits_for_complete_requests_only(held: MadeUp) -> None:
    with stopping(Service(Models([held])), grace=60) as (client, stop, _):
        held.gate.clear()
        connections = [client.connect() for _ in range(4)]
        complete, *incomplete = connections
        complete.sendall(REQUEST)
        until(lambda: held.batches[-1] == ["wait"])
        for connection, sent in zip(incomplete, (REQUEST[:-1], REQUEST[:10], b""), strict=True):
            connection.sendall(sent)
        stop()
        for connection in incomplete:
            assert connection.recv(1000) == b""
        held.gate.set()
        assert b" 200 OK" in complete.recv(1000)
        for connection in connections:
            connection.close()


def test_reading_of_document_ends_with_its_client_and_with_the_server(
    held: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Semaphore(0)

    class Process(DocumentProcess):
        def run_in_child(self, *arguments: Any) -> Any:
            self.start()
            begun.release()
            return super().run_in_child(*arguments)

    monkeypatch.setattr(documents, "read_texts", hang)
    body = multipart(('name="source"', b"de"), ('name="target"', b"de"), ('name="file"; filename="a.txt"', b"a"))
    head = f"POST /translate_file HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nContent-Length: {len(body)}\r\n\r\n"
    service = Service(Models([held]))
    process = service.document_process = Process()
    with stopping(service, grace=0) as (client, stop, thread):
        for end in (lambda: None, lambda: stop() or thread.join(30)):
            with client.connect() as connection:
                connection.sendall(head.encode() + body)
                assert begun.acquire(timeout=60)
                end()
            until(lambda: process._pool is None)
        assert not thread.is_alive()


# --- floods ------------------------------------------------------------------------------------


def test_new_connection_takes_the_place_of_the_oldest_without_a_request(held: MadeUp) -> None:
    app = make_app(Service(Models([held])))
    flooded = make_server(app, 5, connections=4)
    with serving_app(app, flooded) as client, ExitStack() as opened:
        until(lambda: client.ask("/ready").status == 200, 30)

        connected = flooded.server_state.connections

        def connect(sent: bytes, n: int) -> socket.socket:
            """Open the n-th connection."""
            connection = opened.enter_context(client.connect())
            connection.sendall(sent)
            until(lambda: len(connected) == n, 30)
            return connection

        until(lambda: not connected, 30)
        held.gate.clear()
        complete = connect(REQUEST, 1)
        until(lambda: held.batches[-1] == ["wait"], 30)
        incomplete = connect(REQUEST[:-1], 2)
        silent = connect(b"", 3)
        for _ in range(3):
            assert client.ask("/health").status == 200
        with suppress(ConnectionResetError):
            assert silent.recv(10) == b""
        incomplete.sendall(REQUEST[-1:])
        held.gate.set()
        for connection in (complete, incomplete):
            assert b" 200 OK" in connection.recv(1000)


@pytest.mark.parametrize(
    ("size", "n", "status"),
    [(1, 300, b" 400 "), (32, 300, b" 400 "), (64, 300, b" 200 "), (1000, 300, b" 200 "), (1, 0, b" 200 ")],
)
def test_bodies_of_many_tiny_chunks_are_rejected(held: MadeUp, size: int, n: int, status: bytes) -> None:
    body = BODY.replace(b"wait", b"a").ljust(n * size)
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    with serving(Service(Models([held]))) as client, client.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        assert status in connection.recv(1000)


@pytest.mark.parametrize(
    ("limits", "soft", "connections"),
    [((256, 4096), 1200, 1000), ((256, resource.RLIM_INFINITY), 1200, 1000), ((4096, 4096), 4096, 1000),
     ((256, 512), 512, 312), ((64, 64), 64, 1)],
)  # fmt: skip
def test_soft_limit_of_open_files_is_raised(
    limits: tuple[int, int], soft: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing = Mock()
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", changing)
    assert open_more_files() == connections
    changing.assert_called_once_with(resource.RLIMIT_NOFILE, (soft, limits[1]))


# --- settings and origins that are allowed ---


def test_parse_allowed_checks_settings() -> None:
    assert parse_allowed(["beam=10", "search.length_penalty"]) == {"beam": 10.0, "length_penalty": None}
    for option in ("beams", "beam=many", "beam=nan", "beam=inf", *NEVER):
        with pytest.raises(ConfigError, match="--allow"):
            parse_allowed([option])


def test_invalid_origin_raises() -> None:
    check_origins(["https://example.org", "http://localhost:3000"])
    for origin in ("*", "example.org", "https://*.example.org", "https://example.org/"):
        with pytest.raises(ConfigError, match="--origin"):
            check_origins([origin])
