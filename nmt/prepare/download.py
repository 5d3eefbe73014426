"""Verified downloads over HTTP, which resume after an interruption and are cached.

NAME.part contains the bytes received so far, and NAME.part.json the validator of the file they belong to, so that a
later process can resume. A file gets its name only when it is complete and verified.

Requests are made by `urllib`: which other client is installed depends on the version of huggingface_hub (requests,
httpx or httpx2), and none of these resumes or verifies.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import IO, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from nmt.console import Progress, say
from nmt.errors import DataError, NmtError, error_text
from nmt.files.document import Document, document_text, read_document
from nmt.files.read import checksum
from nmt.files.write import alone_in, open_own, replace_file, sync, writing

TIMEOUT = 30.0
"""Seconds without data after which a request fails."""
PAUSES = (1.0, 4.0, 15.0, 60.0)
"""Seconds before each retry."""
LONGEST_PAUSE = 120.0
"""Longest pause, in seconds, that a server may ask for."""
JSON_BYTES = 1 << 24
"""Maximum size of a JSON response."""
_PROGRESS = 1 << 20  # bytes after which earlier failures no longer count
_BLOCK = 1 << 18
_ERROR_BYTES = 1 << 16

_T = TypeVar("_T")
_D = TypeVar("_D", bound=Document)


class Failure(Exception):  # noqa: N818  (becomes an error when no further try is made)
    """The failure of a request, with the reason as its message."""

    def __init__(
        self, reason: str, may_pass: bool, wait: float = 0.0, status: int | None = None, body: bytes = b""
    ) -> None:
        """`may_pass`: whether a retry may succeed, after the `wait` seconds that the server requests; body: what the
        server says about the failure."""
        super().__init__(reason)
        self.may_pass = may_pass
        self.wait = wait
        self.status = status
        self.body = body


class Download(NamedTuple):
    """A file in the cache."""

    path: Path
    sha256: str


class _Beginning(Document):
    """A record of the file whose unfinished download is NAME.part."""

    validator: str
    """The strong entity tag of the file, or its last modification date."""


class _CacheRecord(Document):
    """A record of a downloaded file in the cache."""

    url: str
    sha256: str


def check_url(url: str) -> str:
    """Return an http or https URL with non-ASCII characters in path and query escaped. Raises DataError."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
        url.encode()
    except ValueError as error:
        raise DataError(f"{url}: not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise DataError(f"{url}: not a URL that can be downloaded; it must begin with https:// or http:// and a host")
    escaped = [quote(part, safe="%/:=&?~+!$,;'@()*[]") for part in (parts.path, parts.query)]
    return urlunsplit((parts.scheme, parts.netloc, *escaped, ""))


@contextmanager
def answer(
    url: str, headers: Mapping[str, str] | None = None, data: bytes | None = None, timeout: float | None = None
) -> Iterator[HTTPResponse]:
    """Request a URL, or post `data` to it, and yield the response. Errors of the request, and of reading the response
    in the block, are raised as Failure. `timeout`: seconds without data, by default `TIMEOUT`.
    """
    request = Request(url, data, {"User-Agent": "nmt", **(headers or {})})
    try:
        with build_opener(_Redirects).open(request, timeout=timeout or TIMEOUT) as response:
            yield response
    except HTTPError as error:
        body = b""
        with error, suppress(OSError, HTTPException):
            body = error.read(_ERROR_BYTES)
        wait = _wait(error.headers.get("Retry-After", ""))
        may_pass = (error.code >= 500 or error.code in (408, 416, 429)) and wait <= LONGEST_PAUSE
        reason = f"the server responded with {error.code} {error_text(error.reason)}"
        raise Failure(reason, may_pass, wait, error.code, body) from None
    except (OSError, HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        passing = (ConnectionError, IncompleteRead, TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
        may_pass = isinstance(cause, passing) and not isinstance(cause, ConnectionRefusedError)
        raise Failure(f"no response: {error_text(cause)}", may_pass) from error


def _wait(retry_after: str) -> float:
    """Return the seconds that a header Retry-After, a number or a date, asks to wait; 0 if it asks nothing."""
    if retry_after.isdecimal():
        return float(retry_after)
    with suppress(ValueError, TypeError):  # not a date, or one without a time zone
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    return 0.0


class _Redirects(HTTPRedirectHandler):
    """A handler that follows redirects only to http and https, never from https to http, and not with posted data,
    which may be private, as may the headers."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        if req.data is not None or urlsplit(newurl).scheme not in ("https", req.type):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def retried(
    url: str,
    attempt: Callable[[], _T],
    received: Callable[[], int] = int,
    sleep: Callable[[float], object] | None = None,
) -> _T:
    """Call `attempt` and return its result; after a failure that may be temporary, pause and retry.

    `received` returns the number of bytes received so far: after a further megabyte, the pauses begin anew. `sleep`
    waits for some seconds, by default `time.sleep`. Raises DataError, whose cause is the Failure.
    """
    n_failures = 0
    before = received()
    while True:
        try:
            return attempt()
        except Failure as failure:
            now = received()
            if now - before >= _PROGRESS:
                n_failures = 0
            before = now
            if not failure.may_pass or n_failures == len(PAUSES):
                raise DataError(f"{url}: {failure}") from failure
            pause = max(PAUSES[n_failures], failure.wait)
            n_failures += 1
            say(f"{url}: {failure}; retrying in {pause:g} s")
            (sleep or time.sleep)(pause)


def fetch_json(url: str) -> object:
    """Return the JSON document at a URL. Raises DataError."""
    data = retried(url, lambda: _small(check_url(url)))
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise DataError(f"{url}: the response is not JSON, or is larger than {JSON_BYTES >> 20} MB") from None


def _small(url: str) -> bytes:
    with answer(url, {"Accept": "application/json"}) as response:
        return response.read(JSON_BYTES)


def cached(url: str, sha256: str | None = None) -> Download:
    """Return the file at a URL from the cache; download it if it is missing, damaged or does not match `sha256`. Raises
    DataError.
    """
    check_url(url)
    sha256 = sha256 and sha256.lower()
    folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:32]
    path = folder / _file_name(url)
    record = folder / ".record.json"
    with alone_in(folder, "downloads", "; set NMT_CACHE to use another folder"):
        known = _read(record, _CacheRecord)
        if known is not None and path.is_file() and sha256 in (None, known.sha256):
            if checksum(path) == known.sha256:
                return Download(path, known.sha256)
            say(f"{path}: is damaged; downloading it again")
        digest = fetch(url, path, sha256)
        with writing(record):
            replace_file(record, document_text(_CacheRecord(url=url, sha256=digest)))
    return Download(path, digest)


def cache_folder() -> Path:
    """Return the folder for downloads: NMT_CACHE, or else nmt in XDG_CACHE_HOME or ~/.cache."""
    if given := os.environ.get("NMT_CACHE"):
        return Path(given)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if Path(shared).is_absolute():
        return Path(shared) / "nmt"
    try:
        return Path.home() / ".cache" / "nmt"
    except RuntimeError:
        raise DataError("no home directory to keep downloads in; set NMT_CACHE to a folder") from None


def _file_name(url: str) -> str:
    """Return the last part of the path of a URL as a safe file name."""
    name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[-100:] or "file"


def fetch(url: str, to: Path, sha256: str | None) -> str:
    """Download a file, resuming an interrupted download; the file appears only when it is complete.

    `sha256` is the expected checksum in lower-case hexadecimal, or None. A file with another checksum is deleted.
    Returns the checksum. Only one process at a time may download to the same name. Raises DataError.
    """
    part = to.with_name(f"{to.name}.part")
    address = check_url(url)
    retried(url, lambda: _receive(address, part), lambda: _size(part))
    digest = checksum(part)
    with writing(to):
        if sha256 in (None, digest):
            sync(part)
            part.replace(to)
            sync(to.parent)
        part.unlink(missing_ok=True)
        _note(part).unlink(missing_ok=True)
    if sha256 not in (None, digest):
        raise DataError(
            f"{url}: its SHA-256 is {digest}, but {sha256} is expected: it is damaged or of another version, and was "
            "discarded"
        )
    return digest


def _receive(url: str, part: Path) -> None:
    """Download the rest of a file with one request. Raises Failure, and DataError if it cannot be written."""
    known = _read(_note(part), _Beginning)
    start = _size(part)
    headers = {}
    if known is not None and start:
        headers = {"Range": f"bytes={start}-", "If-Range": known.validator}
    try:
        with answer(url, headers) as response:
            if response.status == 200:
                start = 0
                _begin(part, response)
            elif known is None or not _continues(response, known, start):
                raise Failure("the server sent a part of the file that was not requested", may_pass=True, status=416)
            total = None if response.length is None else start + response.length
            _append(response, part, total)
    except Failure as failure:
        if failure.status == 416:  # the part is not the beginning of the current file
            part.unlink(missing_ok=True)
        raise
    if total not in (None, _size(part)):
        raise Failure(f"the connection was closed after {_size(part):,} of {total:,} bytes", may_pass=True)


def _begin(part: Path, response: HTTPResponse) -> None:
    """Start a download from the beginning; it can be resumed later if the response has a validator and a length."""
    validator = _validator(response)
    with writing(part):
        part.unlink(missing_ok=True)
        _note(part).unlink(missing_ok=True)
        if validator is not None and response.length is not None:
            replace_file(_note(part), document_text(_Beginning(validator=validator)))


def _append(response: HTTPResponse, part: Path, total: int | None) -> None:
    """Append the body of a response to an unfinished download."""
    with writing(part):
        file = os.fdopen(open_own(part, os.O_APPEND), "ab")
    with file, Progress(f"download of {part.stem}", total, "bytes") as progress:
        progress.add(_size(part))
        while block := response.read1(_BLOCK):
            with writing(part):
                file.write(block)
                file.flush()
            progress.add(len(block))


def _validator(response: HTTPResponse) -> str | None:
    """Return the validator that identifies this version of a file; weak entity tags are ignored (RFC 9110, 13.1.5)."""
    tag = response.headers.get("ETag")
    return tag if tag is not None and tag.startswith('"') else response.headers.get("Last-Modified")


def _continues(response: HTTPResponse, known: _Beginning, start: int) -> bool:
    """Return whether a response continues the recorded file after `start` bytes."""
    is_same = _validator(response) in (None, known.validator)
    return is_same and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _read(path: Path, model: type[_D]) -> _D | None:
    """Read a document; return None if it is missing or damaged."""
    try:
        return read_document(path, model, DataError)
    except (OSError, NmtError):
        return None
