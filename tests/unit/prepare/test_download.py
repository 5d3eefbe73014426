"""Downloads from a real server: cut, changed, refused, slow, and from two places at once."""

from __future__ import annotations

import errno
import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from file_server import Cut, Silence, Site, Status, serve_files
from nmt.errors import DataError
from nmt.files.write import Lock
from nmt.prepare import download as http
from nmt.prepare.download import cache_folder, cached, fetch

TEXT = b"".join(b"line %d\n" % number for number in range(2000))
SHA = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(http, "PAUSES", (0.0, 0.0, 0.0))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve_files() as site:
        site.files["/a.txt"] = TEXT
        yield site


def download(site: Site, to: Path, sha256: str | None = None) -> bytes:
    """Return what is downloaded from /a.txt."""
    fetch(f"{site.url}/a.txt", to, sha256)
    return to.read_bytes()


def problem(site: Site, to: Path, sha256: str | None = None) -> str:
    """Return the message of the error that the download raises."""
    with pytest.raises(DataError) as caught:
        fetch(f"{site.url}/a.txt", to, sha256)
    return str(caught.value)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("after", [0, 1, 5000, len(TEXT) - 1])
@pytest.mark.parametrize("validators", [{"ETag": '"x"'}, {"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}])
def test_interrupted_download_resumes(after: int, validators: dict[str, str], site: Site, tmp_path: Path) -> None:
    site.troubles, site.validators = [Cut(after), Cut(0)], validators
    assert download(site, tmp_path / "a", SHA) == TEXT
    again = f"/a.txt bytes={after}-" if after else "/a.txt"
    assert site.requests == ["/a.txt", again, again]


def test_download_resumes_in_later_process(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAUSES", ())
    site.troubles = [Cut(300)]
    assert problem(site, tmp_path / "a").endswith("the connection was closed after 300 of 18,890 bytes")
    assert names(tmp_path) == ["a.part", "a.part.json"]
    assert download(site, tmp_path / "a") == TEXT
    assert site.requests == ["/a.txt", "/a.txt bytes=300-"] and names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"validators": {}}, "/a.txt"),
        ({"validators": {"ETag": 'W/"weak"'}}, "/a.txt"),
        ({"has_ranges": False}, "/a.txt bytes=300-"),
    ],
    ids=["no validator", "weak validator", "no ranges"],
)
def test_download_that_cannot_resume_restarts(
    changes: dict[str, object], again: str, site: Site, tmp_path: Path
) -> None:
    vars(site).update(changes, troubles=[Cut(300)])
    assert download(site, tmp_path / "a", SHA) == TEXT
    assert site.requests == ["/a.txt", again]


def left(tmp_path: Path, data: bytes, **changes: object) -> None:
    """What a process leaves that was killed in the middle."""
    (tmp_path / "a.part").write_bytes(data)
    (tmp_path / "a.part.json").write_text(json.dumps({"validator": '"one"'} | changes))


@pytest.mark.parametrize("keeps_promises", [True, False])
def test_changed_file_restarts(keeps_promises: bool, site: Site, tmp_path: Path) -> None:
    left(tmp_path, b"of an older version", validator='"zero"')
    site.keeps_promises = keeps_promises
    assert download(site, tmp_path / "a") == TEXT
    assert site.requests == ["/a.txt bytes=19-", *([] if keeps_promises else ["/a.txt"])]


def test_wrong_partial_file_fails_checksum(site: Site, tmp_path: Path) -> None:
    left(tmp_path, b"x" * 50)
    assert "is expected" in problem(site, tmp_path / "a", SHA)
    assert download(site, tmp_path / "a", SHA) == TEXT
    assert site.requests == ["/a.txt bytes=50-", "/a.txt"]


def test_wrong_checksum_raises(site: Site, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("what was there")
    assert f"its SHA-256 is {SHA}, but {'0' * 64} is expected" in problem(site, tmp_path / "a", "0" * 64)
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "what was there"
    assert site.requests == ["/a.txt"]
    assert download(site, tmp_path / "a", SHA) == TEXT


@pytest.mark.parametrize("code", [400, 403, 404, 410])
def test_permanent_failures_are_not_retried(code: int, site: Site, tmp_path: Path) -> None:
    site.troubles = [Status(code)]
    assert problem(site, tmp_path / "a").startswith(f"{site.url}/a.txt: the server responded with {code} ")
    assert len(site.requests) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_temporary_failures_are_retried(
    code: int, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.troubles = [Status(code), Status(code, {"Retry-After": "0"})]
    assert download(site, tmp_path / "a") == TEXT
    assert capsys.readouterr().err.count(f"the server responded with {code}") == 2
    site.troubles = [Status(code)] * 4
    assert f"the server responded with {code}" in problem(site, tmp_path / "a")


def test_pause_follows_retry_after_header(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(http.time, "sleep", pauses.append)
    monkeypatch.setattr(http, "PAUSES", (1.0, 4.0, 15.0))
    site.troubles = [Status(429, headers) for headers in ({"Retry-After": "7"}, {"Retry-After": "soon"}, {})]
    download(site, tmp_path / "a")
    assert pauses == [7.0, 4.0, 15.0]
    site.troubles = [Status(503, {"Retry-After": "86400"})]
    assert "503" in problem(site, tmp_path / "a")


def test_retries_continue_while_download_progresses(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_PROGRESS", 1000)
    site.troubles = [Cut(1000)] * 10
    assert download(site, tmp_path / "a", SHA) == TEXT
    assert site.requests[1:3] == ["/a.txt bytes=1000-", "/a.txt bytes=2000-"]
    site.troubles = [Cut(100)] * 10
    assert "after 400 of 18,890 bytes" in problem(site, tmp_path / "a")


def test_silent_server_times_out(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "TIMEOUT", 0.1)
    monkeypatch.setattr(http, "PAUSES", (0.0,))
    site.troubles = [Silence(), Silence()]
    assert "no response: timed out" in problem(site, tmp_path / "a")


def test_redirects_to_other_schemes_raise(site: Site, tmp_path: Path) -> None:
    site.files["/b.txt"] = TEXT
    site.troubles = [Status(302, {"Location": "/b.txt"})]
    assert download(site, tmp_path / "a") == TEXT
    for place in ("file:///etc/passwd", "ftp://127.0.0.1/a", "data:text/plain,a", "gopher://a", "/a.txt"):
        site.troubles = [Status(302, {"Location": place})] * (30 if place == "/a.txt" else 1)
        assert "the server responded with 302" in problem(site, tmp_path / "b")


def test_https_never_redirects_to_http() -> None:
    from email.message import Message
    from io import BytesIO
    from urllib.request import Request

    redirects, headers = http._Redirects(), Message()
    for old, new, is_followed in (("https", "http", False), ("http", "https", True), ("https", "https", True)):
        asked = (Request(f"{old}://a/x"), BytesIO(), 302, "Found", headers, f"{new}://b/y")
        assert (redirects.redirect_request(*asked) is not None) == is_followed


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a/b",
        "a.txt",
        "",
        "http://",
        "http:///a",
        "http://[::1",
        "http://a:b/c",
        "http://a/\udcff",
    ],
)
def test_unsupported_schemes_raise(url: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a URL"):
        fetch(url, tmp_path / "a", None)


def test_full_disk_raises(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(http, "open_own", full)
    message = problem(site, tmp_path / "a")
    assert "a.part: cannot be written: No space left on device; make room" in message and len(site.requests) == 1


def test_concurrent_downloads_take_turns(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    path = cached(f"{site.url}/a.txt").path
    path.unlink()
    timer = threading.Timer(0.6, Lock(path.parent, "downloads").release)
    timer.start()
    assert cached(f"{site.url}/a.txt").path.read_bytes() == TEXT
    timer.join()
    assert capsys.readouterr().err.count("waiting; ") == 1


def test_cached_files_are_not_downloaded_again(site: Site, tmp_path: Path) -> None:
    first = cached(f"{site.url}/a.txt", SHA)
    assert first.path.read_bytes() == TEXT and first.sha256 == SHA and first.path.is_relative_to(tmp_path / "cache")
    assert cached(f"{site.url}/a.txt") == cached(f"{site.url}/a.txt", SHA.upper()) == first
    assert site.requests == ["/a.txt"]


def test_damaged_cached_file_is_fetched_again(site: Site) -> None:
    path = cached(f"{site.url}/a.txt").path
    path.write_bytes(TEXT[:-1] + b"x")
    assert cached(f"{site.url}/a.txt").path.read_bytes() == TEXT
    (path.parent / ".record.json").write_text("{")
    assert cached(f"{site.url}/a.txt").path.read_bytes() == TEXT
    assert site.requests == ["/a.txt"] * 3


def test_cached_file_with_other_checksum_is_fetched_again(site: Site) -> None:
    path = cached(f"{site.url}/a.txt").path
    with pytest.raises(DataError, match="is expected"):
        cached(f"{site.url}/a.txt", "0" * 64)
    assert path.read_bytes() == TEXT
    site.files["/a.txt"] = b"a newer version\n"
    new = hashlib.sha256(b"a newer version\n").hexdigest()
    assert cached(f"{site.url}/a.txt", new) == (path, new)


def test_cache_location_is_read_from_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NMT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/nmt")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "nmt"
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written: Not a directory; set NMT_CACHE to use another folder"):
        cached("http://127.0.0.1:9/a")
