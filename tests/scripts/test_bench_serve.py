"""The load on a translation server, and what is made of its answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

import pytest

from loopback import serving
from scripts.bench.load import run_load
from scripts.bench.serve import compared

LANGUAGES = ("aa", "bb")


class Reversing(BaseHTTPRequestHandler):
    """A server that reverses texts; some texts are rejected or get no answer."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar = Counter[str]()

    def do_POST(self) -> None:
        fields = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = fields["q"]
        self.asked[text] += 1
        if text == "drop":
            self.close_connection = True
            return
        answer = {"error": "busy"} if text == "busy" else {"translatedText": text[::-1]}
        body = json.dumps(answer).encode()
        self.send_response(503 if text == "busy" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Reversing.asked.clear()
    with serving(Reversing) as url:
        yield int(url.rpartition(":")[2])


def test_load_sends_each_text_once_and_counts_answers_and_errors(port: int) -> None:
    texts = [*(f"text {i}" for i in range(30)), "busy", "drop"]
    load = asyncio.run(run_load(port, texts, LANGUAGES, 4, 30))
    assert Reversing.asked == Counter(texts)
    assert sorted(load.answers) == sorted((text, text[::-1]) for text in texts if text not in ("busy", "drop"))
    assert load.errors == {"status 503": 1, "IncompleteReadError": 1}
    assert len(load.waits) == 30 and all(0 < wait <= load.seconds for wait in load.waits)


def test_swapped_and_other_wrong_answers_are_counted() -> None:
    expected = {"a": "A", "b": "B", "c": "C"}
    assert compared([("a", "A"), ("b", "B"), ("c", "C")], expected) == (0, 0)
    assert compared([("a", "B"), ("b", "x"), ("c", "C")], expected) == (2, 1)
    assert compared([("a", "A"), ("new", "N")], expected) == (0, 0)
