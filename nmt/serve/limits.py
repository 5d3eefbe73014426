"""API keys, limits on the rate, size and memory of requests, and the error responses for exceeded limits."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException

from nmt.errors import ConfigError


class Refusal(HTTPException):
    """An error response with a status and one line of text."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.status, self.message = status, message


def busy(message: str = "Too many requests are waiting; try again later") -> Refusal:
    """Return the error response for a full queue, or for exhausted memory of requests."""
    return Refusal(503, message, {"Retry-After": "5"})


def missing(name: str) -> Refusal:
    """Return the error response to a request that lacks a parameter, worded as in LibreTranslate."""
    return Refusal(400, f"Invalid request: missing {name} parameter")


LATE = "The translation took too long"
"""Message of responses with status 504."""
CLIENT_LEFT = 499
"""Status for a client that disconnected before the answer, as in nginx. It is only counted."""


BUCKETS = 10_000
"""Maximum number of clients whose rate is remembered; the least recently seen clients are forgotten."""


@dataclass(frozen=True)
class Limits:
    """Limits on the size and time of a request."""

    characters: int = 20_000
    items: int = 1_000
    bytes: int = 512 << 10
    file_bytes: int = 4 << 20
    """Maximum number of bytes of a file, and of characters of its text."""
    seconds: float = 60.0
    """Time limit of an answer."""
    file_seconds: float = 600.0
    """Time limit of the translation of a file."""
    body_seconds: float = 30.0
    """Time limit until the body of a request has arrived."""

    def check(self, texts: list[str], items: int | None = None) -> None:
        """Raise Refusal if there are too many texts or too many characters."""
        n_items = len(texts) if items is None else items
        if n_items > self.items:
            raise Refusal(400, f"Invalid request: request ({n_items}) exceeds batch limit ({self.items})")
        n = sum(map(len, texts))
        if n > self.characters:
            raise Refusal(400, f"Invalid request: request ({n}) exceeds text limit ({self.characters})")


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
            is_line_open = file.read()[-1:] not in (b"", b"\n")
            file.write(("\n" * is_line_open + line).encode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return key


# --- resources -----------------------------------------------------------------------------------------


class Room:
    """A limited resource, such as memory, of which a single client can reserve at most nine tenths."""

    def __init__(self, most: int) -> None:
        self._most, self._share = most, max(1, most * 9 // 10)
        self._taken: Counter[str] = Counter()

    def take(self, client: str, n: int = 1) -> bool:
        """Reserve `n` units for a client if the limits permit it. Return whether they were reserved."""
        if self._taken.total() + n > self._most or self._taken[client] + n > self._share:
            return False
        self._taken[client] += n
        return True

    def give_back(self, client: str, n: int = 1) -> None:
        """Release `n` units that a client has reserved."""
        self._taken[client] -= n
        if not self._taken[client]:
            del self._taken[client]


# --- rate -----------------------------------------------------------------------------------------


class Rate:
    """A rate limiter with token buckets: each client may send `per_minute` requests per minute, also all at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a rate limiter. per_minute: the number of requests of a client per minute; 0 for no limit."""
        self._per_minute, self._clock = per_minute, clock
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
