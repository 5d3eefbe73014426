"""Tests of requests rejected by their headers, and of the limits on queue and memory that clients share."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nmt.serve import admission
from nmt.serve.admission import Admission, Rate, new_key, read_keys
from nmt.serve.models import Models
from nmt.serve.service import Service
from nmt.serve.settings import Limits
from served import FORM, Answer, Client, MadeUp, multipart, serving
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
    with serving(service, Admission(limits, read_keys(tmp_path / "keys"), Rate(3))) as client:
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


class Waiting:
    """Requests that wait in the translator until the `with` block ends."""

    def __init__(self, client: Client, made_up: MadeUp) -> None:
        self.client, self._made_up = client, made_up
        self._threads, self.answers = list[threading.Thread](), list[Answer]()

    def __enter__(self) -> Waiting:
        self._made_up.gate.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._made_up.gate.set()
        for thread in self._threads:
            thread.join()

    def ask(self, n: int, path: str, in_all: int, **asked: object) -> None:
        """Send `n` more requests, and wait until `in_all` requests are waiting."""

        def ask() -> None:
            self.answers.append(self.client.ask(path, **asked))  # type: ignore[arg-type]

        self._threads += [threading.Thread(target=ask) for _ in range(n)]
        for thread in self._threads[-n:]:
            thread.start()
        until(lambda: f"nmt_queue_requests {in_all}.0\n" in self.client.ask("/metrics").body.decode())


def test_client_cannot_fill_queue(made_up: MadeUp) -> None:
    fields = {"q": "wait", **LANGUAGES}
    with serving(Service(Models([made_up])), Admission(Limits(), queue=9)) as client:
        with Waiting(client, made_up) as waiting:
            waiting.ask(8, "/translate", 8, fields=fields)
            refused = client.ask("/translate", fields)
            assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
            waiting.ask(1, "/translate", 9, fields=fields, **OTHER)
        assert len(waiting.answers) == 9 and {answer.status for answer in waiting.answers} == {200}
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
        with Waiting(client, made_up) as waiting:
            waiting.ask(7, "/translate", 7, fields=padded)
            large = {"q": "a", "pad": "x" * 920}
            refused = client.ask("/detect", large)
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert "too much text" in refused.json["error"]
            assert client.ask("/detect", {"q": "a"}).status == 200  # a small request still fits
            assert client.ask("/detect", large, **OTHER).status == 200
        assert len(waiting.answers) == 7 and {answer.status for answer in waiting.answers} == {200}
        assert client.ask("/detect", large).status == 200
