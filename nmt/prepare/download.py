"""Downloads over HTTP that resume where they were cut, are verified, and are kept in a cache.

The bytes received so far are in NAME.part; NAME.part.json says what they are the beginning of, so that a later process
can resume, too. A file gets its name only when it is complete and verified.

Requests are made by `urllib`: which other client is installed depends on the versions of datasets and huggingface_hub
(requests, httpx or httpx2), and none of these resumes or verifies.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import Message
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import IO, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
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

from nmt.console import Progress, say
from nmt.errors import DataError, NmtError, error_text
from nmt.files.document import Document, document_text, read_document
from nmt.files.read import checksum
from nmt.files.write import alone_in, open_own, replace_file, sync, writing

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

_T = TypeVar("_T")


class Failure(Exception):  # noqa: N818  (becomes an error when no further try is made)
    """A request failed; the message is its reason."""

    def __init__(self, reason: str, may_pass: bool = False, wait: float = 0.0, status: int | None = None) -> None:
        """`may_pass`: whether another try may succeed; `wait`: the seconds that the server asks to wait before it."""
        super().__init__(reason)
        self.may_pass, self.wait, self.status = may_pass, wait, status


def check_url(url: str) -> str:
    """Return an http or https URL with non-ASCII characters in path and query escaped. Raises DataError."""
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
    """Allows redirects to http and https only, and never from https to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise HTTPError(req.full_url, code, msg, headers, fp)
        fp.close()  # else its body would be read into memory, whatever its size
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _opener() -> OpenerDirector:
    """Return an opener for http and https only, with the proxies of the environment and verified certificates."""
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
        case TimeoutError():
            return Failure(f"no answer within {TIMEOUT:g} s", may_pass=True)
        case ConnectionRefusedError() | socket.gaierror():
            return Failure(f"cannot be reached: {error.strerror}; is there a network, and is the host right?")
        case ConnectionError() | IncompleteRead() | ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return Failure("the connection was cut", may_pass=True)
        case OSError():
            return Failure(f"cannot be reached: {error_text(error)}")
        case _:
            return Failure(f"no valid answer: {error_text(error)}")


_BLOCK = 1 << 18
_D = TypeVar("_D", bound=Document)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class Download(NamedTuple):
    """A file in the cache."""

    path: Path
    sha256: str


class _Beginning(Document):
    """The file that NAME.part is an unfinished download of."""

    url: str
    validator: str
    """The strong entity tag of the file, or the date of its last change."""
    total: int


class _CacheRecord(Document):
    """A file of the cache as it was downloaded."""

    url: str
    sha256: str


def cached(url: str, sha256: str | None = None) -> Download:
    """Return the file of a URL from the cache, and download it if it is not there, is damaged or has another checksum
    than `sha256`. Raises DataError."""
    check_url(url)
    sha256 = sha256 and sha256.lower()
    folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:32]
    path, record = folder / _file_name(url), folder / ".record.json"
    with alone_in(folder, "downloads", "; NMT_CACHE names another folder for downloads"):
        known = _read(record, _CacheRecord)
        if known is not None and path.is_file() and sha256 in (None, known.sha256):
            if checksum(path) == known.sha256:
                return Download(path, known.sha256)
            say(f"{path}: damaged; downloading it again")
        digest = fetch(url, path, sha256)
        with writing(record):
            replace_file(record, document_text(_CacheRecord(url=url, sha256=digest)))
    return Download(path, digest)


def cache_folder() -> Path:
    """Return the folder for downloads: NMT_CACHE, by default nmt in XDG_CACHE_HOME or in ~/.cache."""
    if given := os.environ.get("NMT_CACHE"):
        return Path(given)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache") / "nmt"
    except RuntimeError:
        raise DataError("there is no home directory for downloads: name a folder in NMT_CACHE") from None


def _file_name(url: str) -> str:
    """Return the last part of the path of a URL, made safe as a name of a file."""
    name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[-100:] or "file"


def fetch(url: str, to: Path, sha256: str | None) -> str:
    """Download a file, resuming where an earlier try was cut; its name appears only when it is complete.

    Args:
        sha256: the expected checksum in lower-case hexadecimal. A file with another one is refused, and fetched from
            its beginning the next time.

    Returns its checksum. Raises DataError. Only one process at a time may download to the same name.
    """
    part, address = _Part(to, url), check_url(url)
    for _ in range(2):
        retried(url, lambda: _receive(address, part), lambda: part.size)
        digest = checksum(part.path)
        if sha256 in (None, digest):
            part.finish(to)
            return digest
        part.discard()
        if not part.is_resumed:  # else the beginning may be of another version of the file
            break
    raise DataError(
        f"{url}: its SHA-256 is {digest}, where {sha256} is expected: the file is damaged, or another version; "
        "it is not kept"
    )


class _Part:
    """A file that is being downloaded, under its temporary name."""

    def __init__(self, to: Path, url: str) -> None:
        self.path = to.with_name(f"{to.name}.part")
        self.is_resumed = False
        self._note = to.with_name(f"{to.name}.part.json")
        self._url = url

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def beginning(self) -> _Beginning | None:
        """Return the part of which file has been received so far; None if that is unknown, so that it is useless."""
        known = _read(self._note, _Beginning)
        return known if known is not None and known.url == self._url and self.size > 0 else None

    def discard(self) -> None:
        with writing(self.path):
            self._note.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)

    def start(self, validator: str | None, total: int | None) -> None:
        """Begin the file again; it can be continued later if both `validator` and `total` are known."""
        self.discard()
        if validator is not None and total is not None:
            with writing(self.path):
                known = _Beginning(url=self._url, validator=validator, total=total)
                replace_file(self._note, document_text(known))

    def append(self, response: HTTPResponse, total: int | None) -> None:
        """Append the body of a response."""
        is_rank0 = os.environ.get("RANK", "0") == "0"
        name = self.path.name.removesuffix(".part")
        with writing(self.path):
            file = os.fdopen(open_own(self.path, os.O_APPEND), "ab")
        with Progress(f"download of {name}", total, "bytes", shown=is_rank0) as progress:
            progress.add(self.size)
            try:
                while block := response.read1(_BLOCK):
                    with writing(self.path):
                        file.write(block)
                    progress.add(len(block))
            finally:
                with writing(self.path):
                    file.close()

    def finish(self, to: Path) -> None:
        """Give the file its name."""
        with writing(to):
            sync(self.path)
            self.path.replace(to)
            sync(to.parent)
            self._note.unlink(missing_ok=True)


def _receive(url: str, part: _Part) -> None:
    """Download the missing part of a file in one request. Raises Failure, and DataError if it cannot be written."""
    known, start = part.beginning(), part.size
    if known is not None and start == known.total:  # stopped just before it got its name
        return
    asked = {} if known is None else {"Range": f"bytes={start}-", "If-Range": known.validator}
    try:
        with answer(url, asked) as response:
            if known is not None and response.status == 206:
                if not _continues(response, known, start):
                    raise Failure("the server sent another part of the file than requested", status=416)
                part.is_resumed = True
                total: int | None = known.total
            elif response.status == 200:
                total = response.length
                part.start(_validator(response), total)
            else:
                raise Failure(f"the server answers {response.status} where 200 is expected")
            part.append(response, total)
    except Failure as failure:
        if known is None or failure.status != 416:
            raise
        part.discard()  # it is not the beginning of what the server has now
        _receive(url, part)
        return
    if total is not None and part.size != total:
        raise Failure(f"the connection ended after {part.size:,} of {total:,} bytes", may_pass=True)


def _validator(response: HTTPResponse) -> str | None:
    """Return what identifies this version of a file; a weak entity tag cannot, see RFC 9110, 13.1.5."""
    tag = response.headers.get("ETag")
    return tag if tag is not None and tag.startswith('"') else response.headers.get("Last-Modified")


def _continues(response: HTTPResponse, known: _Beginning, start: int) -> bool:
    """Whether a response with status 206 continues the known file after `start` bytes."""
    sent = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    is_same = _validator(response) in (None, known.validator)
    return is_same and sent is not None and int(sent[1]) == start and sent[2] in ("*", str(known.total))


def _read(path: Path, model: type[_D]) -> _D | None:
    """Read a document; None if it is missing or damaged."""
    try:
        return read_document(path, model, DataError)
    except (OSError, NmtError):
        return None
