"""Downloads that resume where they were cut, are verified, and are kept in a cache.

The bytes received so far are in NAME.part; NAME.part.json says what they are the beginning of, so that a later process
can resume, too. A file gets its name only when it is complete and verified.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from nmt.console import Progress, say
from nmt.errors import DataError, LockedError, NmtError
from nmt.files.document import Document, document_text, read_document
from nmt.files.read import checksum, open_own
from nmt.files.write import Lock, replace_file, sync
from nmt.prepare.http import Failure, answer, check_url, retried

_BLOCK = 1 << 18
_WAIT = 0.5  # seconds between two looks at the lock of another process
_D = TypeVar("_D", bound=Document)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class Download(NamedTuple):
    """A file in the cache."""

    path: Path
    sha256: str


class _Beginning(Document):
    """What NAME.part is the beginning of."""

    url: str
    validator: str
    """The strong entity tag of the file, or the date of its last change."""
    total: int


class _CacheRecord(Document):
    """A file of the cache as it was downloaded."""

    url: str
    sha256: str


def download(url: str, to: Path, sha256: str | None = None) -> Path:
    """Download a file, resuming where an earlier try was cut; its name appears only when it is complete.

    Args:
        sha256: the expected checksum in hexadecimal. A file with another one is refused, and fetched from its
            beginning the next time.

    Raises DataError. Waits while another process downloads the same file.
    """
    with _alone(to):
        _fetch(url, to, sha256 and sha256.lower())
    return to


def cached(url: str, sha256: str | None = None) -> Download:
    """Return the file of a URL from the cache, and download it if it is not there, is damaged or has another checksum
    than `sha256`. Raises DataError."""
    check_url(url)
    sha256 = sha256 and sha256.lower()
    folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:32]
    with _writing(folder, "; NMT_CACHE names another folder for downloads"):
        folder.mkdir(parents=True, exist_ok=True)
    path, record = folder / _file_name(url), folder / ".record.json"
    with _alone(path):
        known = _read(record, _CacheRecord)
        if known is not None and path.is_file() and sha256 in (None, known.sha256):
            if checksum(path) == known.sha256:
                return Download(path, known.sha256)
            say(f"{path}: damaged; downloading it again")
        digest = _fetch(url, path, sha256)
        with _writing(record):
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


@contextmanager
def _alone(to: Path) -> Iterator[None]:
    """Hold the lock on the download of a file; wait while another process has it."""
    path, is_told = to.with_name(f"{to.name}.lock"), False
    while True:
        try:
            with _writing(path):
                lock = Lock(path, "downloads")
            break
        except LockedError as error:
            if not is_told:
                say(f"{to.name}: waiting; {error}")
            is_told = True
            time.sleep(_WAIT)
    try:
        yield
    finally:
        lock.release()


def _fetch(url: str, to: Path, sha256: str | None) -> str:
    """Download, verify and rename a file; returns its checksum."""
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
        f"{url}: its SHA-256 is {digest}, where {sha256} is expected: another version of the file, or a damaged one; "
        "nothing is kept of it"
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
        with _writing(self.path):
            self._note.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)

    def start(self, validator: str | None, total: int | None) -> None:
        """Begin the file again; it can be continued later if both `validator` and `total` are known."""
        self.discard()
        if validator is not None and total is not None:
            with _writing(self.path):
                known = _Beginning(url=self._url, validator=validator, total=total)
                replace_file(self._note, document_text(known))

    def append(self, response: HTTPResponse, total: int | None) -> None:
        """Append the body of a response."""
        is_rank0 = os.environ.get("RANK", "0") == "0"
        name = self.path.name.removesuffix(".part")
        with _writing(self.path):
            file = os.fdopen(open_own(self.path, os.O_APPEND), "ab")
        with Progress(f"download of {name}", total, "bytes", shown=is_rank0) as progress:
            progress.add(self.size)
            try:
                while block := response.read1(_BLOCK):
                    with _writing(self.path):
                        file.write(block)
                    progress.add(len(block))
            finally:
                with _writing(self.path):
                    file.close()

    def finish(self, to: Path) -> None:
        """Give the file its name."""
        with _writing(to):
            sync(self.path)
            self.path.replace(to)
            sync(to.parent)
            self._note.unlink(missing_ok=True)


def _receive(url: str, part: _Part) -> None:
    """Receive what is missing of a file, in one request. Raises Failure, and DataError if it cannot be written."""
    known, start = part.beginning(), part.size
    if known is not None and start == known.total:  # stopped just before it got its name
        return
    asked = {} if known is None else {"Range": f"bytes={start}-", "If-Range": known.validator}
    try:
        with answer(url, asked) as response:
            if known is not None and response.status == 206:
                if not _continues(response, known, start):
                    raise Failure("the server sends another part than asked for", status=416)
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
    """Whether a response with status 206 is what follows `start` bytes of the known file."""
    sent = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    is_same = _validator(response) in (None, known.validator)
    return is_same and sent is not None and int(sent[1]) == start and sent[2] in ("*", str(known.total))


def _read(path: Path, model: type[_D]) -> _D | None:
    """Read a document; None if it is missing or damaged."""
    try:
        return read_document(path, model, DataError)
    except (OSError, NmtError):
        return None


@contextmanager
def _writing(path: Path, advice: str = "") -> Iterator[None]:
    """Turn errors of writing into DataError."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "; make room and run the command again, the download goes on where it stopped" if full else advice
        raise DataError(f"{path}: cannot be written: {error.strerror}{advice}") from error
