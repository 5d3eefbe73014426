"""Admission of requests: by API key, rate, size, memory, and the length of the queue.

Every request with a body passes three steps. It is read, within the limits to which its headers entitle it; admitted,
by the API key in its headers or its body; and translated, while it has a place in the queue.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from nmt.errors import ConfigError
from nmt.serve.bodies import JSON, Fields, content_type, read_fields
from nmt.serve.limits import CLIENT_LEFT, LATE, Refusal, Room, busy
from nmt.serve.settings import Limits, ServeOptions

HELD_BYTES = 512 << 20
"""Memory in bytes for all requests together; more if `Limits` allow bodies that take more than an eighth of it."""
COPIES = 4
"""Memory that a body takes, in relation to its size: a text has up to four bytes for each character."""

Answer = TypeVar("Answer")
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Call:
    """An admitted request."""

    request: Request
    fields: Fields
    client: str
    """The client that is charged for the request: the hash of its key, or its address."""
    hold: Callable[[int], None]
    """Reserves a number of bytes of memory until the request is answered. Raises Refusal."""
    queue: Room

    async def within(self, seconds: float, work: Coroutine[object, object, Answer]) -> Answer:
        """Return the result of `work`, which has a place in the queue.

        The work is cancelled if the client disconnects, or after `seconds`. Raises Refusal in both cases, and if too
        many requests wait.
        """
        with closing(work):
            if not self.queue.take(self.client):
                raise busy()
            working = asyncio.ensure_future(work)
            leaving = asyncio.ensure_future(self._left())
            try:
                await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
                if leaving.done():
                    raise Refusal(CLIENT_LEFT, "The client disconnected")
                raise Refusal(504, LATE)
            finally:
                self.queue.give_back(self.client)
                working.cancel()
                leaving.cancel()
                await asyncio.gather(working, leaving, return_exceptions=True)

    async def _left(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


class Admission:
    """The limits of a server, and what its clients have used of them."""

    def __init__(
        self,
        limits: Limits,
        keys: Collection[str] | None = None,
        rate: RateLimiter | None = None,
        queue: int = ServeOptions.queue,
    ) -> None:
        """Admit requests within limits.

        keys: SHA-256 of each API key; None if no key is needed. queue: maximum number of waiting requests.
        """
        self._limits = limits
        self._keys = keys
        self._rate = rate or RateLimiter(0)
        self._queue = Room(queue)
        self._memory = Room(max(HELD_BYTES, 8 * COPIES * max(limits.bytes, limits.file_bytes)))

    @property
    def holds_much(self) -> bool:
        """Whether requests hold so much that a collection of garbage would take long."""
        return not self._memory.has_room(7 / 8)

    @property
    def needs_key(self) -> bool:
        """Whether requests need an API key."""
        return self._keys is not None

    def reading(
        self, answer: Callable[[Call], Awaitable[Response]], *, form_bytes: int = 0, only_json: bool = False
    ) -> Endpoint:
        """Return an endpoint that reads and admits requests, and answers them by `answer`.

        form_bytes: maximum size of a form with a file whose key is in a header.
        """

        async def endpoint(request: Request) -> Response:
            client = self._admitted_by_headers(request)
            holder = client or address_of(request)
            most = self._limits.bytes
            hint = ""
            if form_bytes and client is not None:
                most = form_bytes
            elif form_bytes:
                hint = "; for a larger file, send the API key in a header"
            too_large = Refusal(413, f"The request is too large: at most {most} bytes{hint}")
            if int(request.headers.get("content-length", 0)) > most:
                raise too_large
            if only_json and content_type(request) != JSON:
                raise Refusal(415, "The body must be application/json")
            held = 0

            def hold(n: int) -> None:
                nonlocal held
                if not self._memory.take(holder, n):
                    raise busy("The server holds too much text in memory; try again later")
                held += n

            async def receive() -> Message:
                message = await request.receive()
                hold(COPIES * len(message.get("body", b"")))
                if held > COPIES * most:
                    raise too_large
                return message

            arriving = Request(request.scope, receive)
            try:
                fields = await read_fields(arriving, self._limits)
                if client is None:
                    client = self._admitted_by_field(address_of(request), fields.get("api_key"))
                return await answer(Call(arriving, fields, client, hold, self._queue))
            finally:
                self._memory.give_back(holder, held)

        return endpoint

    def without_body(self, answer: Endpoint) -> Endpoint:
        """Return an endpoint that admits requests by their headers, and answers them by `answer`."""

        async def endpoint(request: Request) -> Response:
            if self._admitted_by_headers(request) is None:
                raise _without_key()
            return await answer(request)

        return endpoint

    def _admitted_by_headers(self, request: Request) -> str | None:
        """Charge a request, and return the client; None if it has no key in its headers, but may have one in its body.

        Such a request is charged to its address. Raises Refusal.
        """
        key = key_in_headers(request)
        address = address_of(request)
        if self._keys is None or not key:
            self._rate.charge(address)
            return None if self.needs_key else address
        client = digest_of(key)
        if client not in self._keys:  # the client may be guessing keys
            self._rate.charge(address)
            raise _wrong_key()
        self._rate.charge(client)
        return client

    def _admitted_by_field(self, address: str, key: object) -> str:
        """Return the client with the API key in a body, and charge the request to it rather than to its address. Raises
        Refusal."""
        if not isinstance(key, str) or not key:
            raise _without_key()
        client = digest_of(key)
        if self._keys is None or client not in self._keys:
            raise _wrong_key()
        self._rate.give_back(address)
        self._rate.charge(client)
        return client


def _without_key() -> Refusal:
    return Refusal(400, "Please contact the server operator to get an API key")


def _wrong_key() -> Refusal:
    return Refusal(403, "Invalid API key")


def key_in_headers(request: Request) -> str:
    """Return the API key in the headers: the bearer token, X-API-Key, or an empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("x-api-key", "")


def address_of(request: Request) -> str:
    """Return the identity of a client by its address, for requests without a key."""
    return client_of(request.client.host if request.client else None)


# --- keys -----------------------------------------------------------------------------------------


def read_keys(path: Path) -> frozenset[str]:
    """Read the SHA-256 hashes of API keys from a file that has a hash and a name on each line.

    A key has 256 random bits, so that a plain SHA-256 of it cannot be inverted. Blank lines and lines that begin with
    `#` are skipped. Raises ConfigError if the file cannot be read, has any other line, or has no key.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: {reason}; nmt serve --keys {path} --new-key NAME creates a key") from error
    digests = {n: line.split()[0] for n, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"}
    for number, digest in digests.items():
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise ConfigError(f"{path}, line {number}: not a SHA-256 hash and a name; add a key with --new-key NAME")
    if not digests:
        raise ConfigError(f"{path}: contains no key; add one with nmt serve --keys {path} --new-key NAME")
    return frozenset(digests.values())


def digest_of(key: str) -> str:
    """Return the SHA-256 of an API key in hexadecimal."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def new_key(path: Path, name: str) -> str:
    """Create an API key, append its hash to a file that only its owner can read, and return it. Raises ConfigError."""
    if not name.strip() or not name.isprintable():
        raise ConfigError(f"--new-key: the name of a key must be one line of text, found {name!r}")
    key = secrets.token_urlsafe(32)
    line = f"{digest_of(key)} {name.strip()}\n"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "rb+") as file:
            if file.read()[-1:] not in (b"", b"\n"):  # the last line has no end
                line = f"\n{line}"
            file.write(line.encode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return key


# --- rate -----------------------------------------------------------------------------------------

BUCKETS = 10_000
"""Maximum number of clients whose rate is remembered; the least recently seen clients are forgotten."""


class RateLimiter:
    """A rate limiter with token buckets: each client may send `per_minute` requests per minute, also all at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a rate limiter. per_minute: the number of requests of a client per minute; 0 for no limit."""
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def charge(self, client: str) -> None:
        """Count a request of a client. Raises Refusal if the rate is exceeded."""
        if not self._per_minute:
            return
        now = self._clock()
        tokens, since = self._buckets.pop(client, (float(self._per_minute), now))
        tokens = min(tokens + (now - since) * self._per_minute / 60, self._per_minute)
        self._buckets[client] = tokens - (tokens >= 1), now
        if len(self._buckets) > BUCKETS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            seconds = (1 - tokens) * 60 / self._per_minute
            after = {"Retry-After": str(max(1, round(seconds + 0.5)))}
            raise Refusal(429, f"Slowdown: {self._per_minute} per 1 minute", after)

    def give_back(self, client: str) -> None:
        """Undo the last charge of a client."""
        if client in self._buckets:
            tokens, since = self._buckets[client]
            self._buckets[client] = tokens + 1, since


def client_of(host: str | None) -> str:
    """Return the identity of a client: its IPv4 address, or its /64 network for IPv6."""
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return ""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)
