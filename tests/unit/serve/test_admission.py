"""Tests of requests rejected by their headers, keys and rates, and limits on queue and memory that clients share."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nmt.errors import ConfigError
from nmt.serve import admission
from nmt.serve.admission import Admission, RateLimiter, client_of, digest_of, new_key, read_keys
from nmt.serve.limits import Refusal
from nmt.serve.models import Models
from nmt.serve.service import Service
from nmt.serve.settings import Limits
from served import FORM, Answer, Client, Clock, MadeUp, multipart, serving
from waiting import until

LANGUAGES = {"source": "de", "target": "en"}
OTHER = {"x_forwarded_for": "192.0.2.1"}
"""Header of a local proxy with the address of a remote client."""


def head(*lines: str, path: str = "/translate") -> bytes:
    """Return the headers of a request whose body is not sent."""
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *lines, "", ""]).encode()


def answer_to(client: Client, message: bytes) -> tuple[int, bytes]:
    """Send bytes, and return the status and the rest of the answer."""
    with client.connect() as connection:
        connection.sendall(message)
        answer = connection.recv(10_000)
        while not answer.endswith(b"}"):
            answer += connection.recv(10_000)
    return int(answer.split()[1]), answer


def file_form(name: str, content: bytes) -> bytes:
    parts = [(f'name="{key}"', value.encode()) for key, value in LANGUAGES.items()]
    return multipart(*parts, (f'name="file"; filename="{name}"', content))


@pytest.mark.usefixtures("no_child")
def test_key_in_header_is_checked_before_body(tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys", "Anna")
    limits = Limits(bytes=2000, file_bytes=9000)
    service = Service(Models([MadeUp("de", "en")]), limits)
    with serving(service, Admission(limits, read_keys(tmp_path / "keys"), RateLimiter(3))) as client:
        status, answer = answer_to(client, head("X-API-Key: wrong", "Content-Length: 1000"))
        assert status == 403 and b"Invalid API key" in answer
        known = f"Authorization: Bearer {key}"
        file = file_form("a.txt", b"x" * 5000)
        sent = client.ask("/translate_file", raw=file, content_type=FORM, authorization=f"Bearer {key}")
        assert sent.status == 200  # the request is charged once
        fields = {"q": "a", **LANGUAGES}
        assert client.ask("/translate", {**fields, "api_key": key}).status == 200
        # a key in the body is unknown until the body has arrived, so the body must be small
        for framing in ("Content-Length: 2001", "Transfer-Encoding: chunked"):
            begun = head(framing, path="/translate_file")
            status, answer = answer_to(client, begun + (b"7d1\r\n" + b"x" * 2001 if "chunked" in framing else b""))
            assert status == 413 and b"send the API key in a header" in answer
        assert answer_to(client, head(known, "Content-Length: 2001"))[0] == 413
        assert answer_to(client, head(known, "Content-Length: 10"))[0] == 429


@pytest.fixture
def made_up() -> MadeUp:
    return MadeUp("de", "en")


@contextmanager
def waiting(client: Client, made_up: MadeUp) -> Iterator[Callable[..., None]]:
    """Yield a function that sends `n` more requests and waits until `in_all` wait in the translator; in the end they
    are answered."""
    answers = list[Future[Answer]]()

    def ask(n: int, path: str, in_all: int, **asked: Any) -> None:
        answers.extend(pool.submit(client.ask, path, **asked) for _ in range(n))
        until(lambda: f"nmt_queue_requests {in_all}.0\n" in client.ask("/metrics").body.decode())

    made_up.gate.clear()
    with ThreadPoolExecutor(9) as pool:
        try:
            yield ask
        finally:
            made_up.gate.set()
    assert {answer.result().status for answer in answers} == {200}


def test_client_cannot_fill_queue(made_up: MadeUp) -> None:
    fields = {"q": "wait", **LANGUAGES}
    with serving(Service(Models([made_up])), Admission(Limits(), queue=9)) as client:
        with waiting(client, made_up) as ask:
            ask(8, "/translate", 8, fields=fields)
            refused = client.ask("/translate", fields)
            assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
            ask(1, "/translate", 9, fields=fields, **OTHER)
        assert client.ask("/translate", fields).status == 200  # the places in the queue are free again


@pytest.mark.usefixtures("no_child")
def test_texts_of_a_file_reserve_memory(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_BYTES", 1)
    service = Service(Models([made_up]), Limits(bytes=1000, file_bytes=1000))  # 32,000 bytes in all, and 1,000 a text
    with serving(service) as client:
        for n_lines, status in ((5, 200), (50, 503), (5, 200)):
            form = file_form("a.txt", b"ab\n" * n_lines)
            assert client.ask("/translate_file", raw=form, content_type=FORM).status == status


def test_garbage_is_collected_only_while_requests_hold_little(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    collected = threading.Event()
    monkeypatch.setattr("nmt.serve.app.COLLECTION_SECONDS", 0.01)
    monkeypatch.setattr("nmt.serve.app.gc.collect", collected.set)
    holding = threading.Event()
    looked = threading.Semaphore(0)

    def holds_much(_: Admission) -> bool:
        looked.release()
        return holding.is_set()

    monkeypatch.setattr(Admission, "holds_much", property(holds_much))
    holding.set()
    with serving(Service(Models([made_up]))):
        for _ in range(3):
            assert looked.acquire(timeout=60)
        assert not collected.is_set()
        holding.clear()
        assert collected.wait(60)


def test_admission_holds_much_while_an_eighth_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_BYTES", 80_000)
    gate = Admission(Limits(bytes=10, file_bytes=10))
    assert not gate.holds_much
    assert gate._memory.take("a", 10_001) and gate.holds_much
    gate._memory.give_back("a", 10_001)
    assert not gate.holds_much


def test_bodies_reserve_memory_until_answered(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HELD_BYTES", 1)
    padded = {"q": "wait", **LANGUAGES, "pad": "x" * 920}  # 980 of 8000 bytes, of which one client may have 7200
    service = Service(Models([made_up]), Limits(bytes=1000, file_bytes=1000))
    with serving(service) as client:
        with waiting(client, made_up) as ask:
            ask(7, "/translate", 7, fields=padded)
            large = {"q": "a", "pad": "x" * 920}
            refused = client.ask("/detect", large)
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert "too much text" in refused.json["error"]
            assert client.ask("/detect", {"q": "a"}).status == 200  # a small request still fits
            assert client.ask("/detect", large, **OTHER).status == 200
        assert client.ask("/detect", large).status == 200


# --- keys, and rates of clients ---


def test_key_file_stores_hashes(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    key, other = new_key(path, "Anna"), new_key(path, "Bert")
    text = path.read_text(encoding="utf-8")
    assert key not in text and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line.partition(" ")[2] for line in text.splitlines()] == ["Anna", "Bert"]
    assert read_keys(path) == {digest_of(key), digest_of(other)} and digest_of("\ud800") not in read_keys(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("# none\n\n", "contains no key"), ("secret Anna\n", "line 1: not a SHA-256"), (None, "No such file")],
)
def test_key_file_without_keys_raises(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "keys.txt"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        read_keys(path)


def test_new_key_after_a_line_without_an_end_is_on_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(f"{digest_of('k')} Änne", encoding="utf-8")
    assert read_keys(path) | {digest_of(new_key(path, "Bert"))} == read_keys(path)
    assert [line.partition(" ")[2] for line in path.read_text(encoding="utf-8").splitlines()] == ["Änne", "Bert"]


def test_new_key_without_name_or_directory_raises(tmp_path: Path) -> None:
    for path, name in ((tmp_path / "keys", " "), (tmp_path / "keys", "a\nb"), (tmp_path / "none" / "keys", "Anna")):
        with pytest.raises(ConfigError):
            new_key(path, name)


def test_rate_limit_is_per_client() -> None:
    clock = Clock()
    rate = RateLimiter(3, clock)
    for _ in range(3):
        rate.charge("a")
    rate.charge("b")
    for seconds, n, wait in (
        (0, 0, "20"),
        (19, 0, "2"),
        (1, 1, "20"),
        (3600, 3, "20"),
    ):  # tokens do not accumulate beyond the burst size
        clock.now += seconds
        for _ in range(n):
            rate.charge("a")
        with pytest.raises(Refusal) as refused:
            rate.charge("a")
        assert (refused.value.status_code, refused.value.headers) == (429, {"Retry-After": wait})


def test_client_is_identified_by_address_or_network() -> None:
    assert client_of("192.0.2.1") == client_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") != client_of("2001:db8:0:1::1")
    assert client_of(None) == client_of("testclient") == ""
