"""HTTP requests: where they may lead, why they fail in words, and which failures are worth another try."""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import Message
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import IO, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from nmt.console import say
from nmt.errors import DataError, error_text

TIMEOUT = 30.0
"""Seconds without a byte after which a request has failed."""
PAUSES = (1.0, 4.0, 15.0, 60.0)
"""Seconds before each further try."""
LONGEST_PAUSE = 120.0
"""Maximum pause that a server may ask for, in seconds."""
JSON_BYTES = 1 << 24
"""Maximum size of a JSON answer."""
JSON_SECONDS = 120.0
"""Maximum time to receive a JSON answer."""
_PROGRESS = 1 << 20  # bytes after which the failures before no longer count
_BLOCK = 1 << 18

_T = TypeVar("_T")


class Failure(Exception):  # noqa: N818  (becomes an error when no further try is made)
    """A request failed; the message is its reason."""

    def __init__(self, reason: str, may_pass: bool = False, wait: float = 0.0, status: int | None = None) -> None:
        """`may_pass`: whether another try may succeed; `wait`: the seconds that the server asks to wait before it."""
        super().__init__(reason)
        self.may_pass, self.wait, self.status = may_pass, wait, status


def check_url(url: str) -> str:
    """Return an http or https URL with what is not ASCII in path and query escaped. Raises DataError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        url.encode()
    except ValueError as error:
        raise DataError(f"{url}: not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise DataError(f"{url}: not a URL that can be downloaded; it begins with https:// or http:// and a host")
    escaped = [quote(part, safe="%/:=&?~+!$,;'@()*[]") for part in (parts.path, parts.query)]
    return urlunsplit((parts.scheme, parts.netloc, *escaped, ""))


@contextmanager
def answer(url: str, headers: Mapping[str, str] | None = None) -> Iterator[HTTPResponse]:
    """Request a URL. Errors of the request, and of reading the answer in the block, become Failure."""
    try:
        with _opener().open(
            Request(url, headers={"User-Agent": "nmt", **(headers or {})}), timeout=TIMEOUT
        ) as response:
            yield response
    except HTTPError as error:
        error.close()
        raise _refusal(error) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _failure(error) from error


def retried(url: str, attempt: Callable[[], _T], received: Callable[[], int] = int) -> _T:
    """Return the result of `attempt`, which is tried again after a pause while its failures may pass.

    received: the bytes received so far; a megabyte more since the last failure, and pauses begin anew.

    Raises DataError.
    """
    n_failures, before = 0, received()
    while True:
        try:
            return attempt()
        except Failure as failure:
            now = received()
            n_failures = 0 if now - before >= _PROGRESS else n_failures
            before = now
            if not failure.may_pass or n_failures == len(PAUSES):
                tries = f" (tried {n_failures + 1} times)" if n_failures else ""
                raise DataError(f"{url}: {failure}{tries}") from failure
            if failure.wait > LONGEST_PAUSE:
                raise DataError(f"{url}: {failure}; the server asks to try again in {failure.wait:,.0f} s") from failure
            pause = max(PAUSES[n_failures], failure.wait)
            n_failures += 1
            say(f"{url}: {failure}; trying again in {pause:g} s")
            time.sleep(pause)


def fetch_json(url: str) -> object:
    """Return the JSON that a URL answers. Raises DataError."""
    data = retried(url, lambda: _small(check_url(url)))
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        start = data[:60].decode("utf-8", "replace")
        raise DataError(f"{url}: the answer is not JSON, it begins with {start!r}") from None


def _small(url: str) -> bytes:
    data, deadline = bytearray(), time.monotonic() + JSON_SECONDS
    with answer(url, {"Accept": "application/json"}) as response:
        promised = response.length
        while block := response.read1(_BLOCK):
            data += block
            if len(data) > JSON_BYTES:
                raise DataError(f"{url}: the answer has more than {JSON_BYTES >> 20} MB")
            if time.monotonic() > deadline:
                raise DataError(f"{url}: the answer takes more than {JSON_SECONDS:g} s")
    if promised is not None and len(data) < promised:
        raise Failure(f"the connection ended after {len(data):,} of {promised:,} bytes", may_pass=True)
    return bytes(data)


class _Redirects(HTTPRedirectHandler):
    """Redirects lead to http and https only, and never from https down to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise HTTPError(req.full_url, code, msg, headers, fp)
        fp.close()  # else its body would be read into memory, whatever its size
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _opener() -> OpenerDirector:
    """Return an opener for http and https alone, with the proxies of the environment and verified certificates."""
    opener = OpenerDirector()
    handlers = (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, _Redirects, HTTPErrorProcessor)
    for handler in handlers:
        opener.add_handler(handler())
    return opener


def _refusal(error: HTTPError) -> Failure:
    """Return the failure for a status other than success."""
    code = error.code
    if 300 <= code < 400 and (place := error.headers.get("Location")):
        return Failure(f"it redirects to {error_text(place)}, which is not followed", status=code)
    may_pass = code >= 500 or code in (408, 429)
    wait = _wait(error.headers.get("Retry-After")) if may_pass else 0.0
    return Failure(f"the server answers {code} {error_text(error.reason)}".rstrip(), may_pass, wait, code)


def _wait(retry_after: str | None) -> float:
    """Return the seconds to wait by a Retry-After header: a number, or a date."""
    if retry_after is None:
        return 0.0
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        date = email.utils.parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max((date - datetime.now(UTC)).total_seconds(), 0.0)


def _failure(error: Exception) -> Failure:
    match error:
        case URLError(reason=Exception() as reason):
            return _failure(reason)
        case URLError():
            return Failure(f"cannot be reached: {error_text(error.reason)}")
        case TimeoutError():
            return Failure(f"no answer within {TIMEOUT:g} s", may_pass=True)
        case ssl.SSLCertVerificationError():
            return Failure(f"its certificate is not valid: {error.verify_message}")
        case ConnectionRefusedError():
            return Failure("cannot be reached: connection refused")
        case ConnectionError() | IncompleteRead() | ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return Failure("the connection was cut", may_pass=True)
        case socket.gaierror():
            return Failure(f"cannot be reached: {error.strerror}; is there a network, and is the host right?")
        case OSError():
            return Failure(f"cannot be reached: {error.strerror or error_text(error)}")
        case _:
            return Failure(f"no valid answer: {error_text(error)}")
