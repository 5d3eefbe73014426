"""The load on a translation server, and what is made of its answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from loopback import serving
from nmt.errors import DataError
from scripts.bench.load import Connection, request, run_load
from scripts.bench.serve import Row, compared, percentile, read_lines, render

LANGUAGES = ("aa", "bb")


class Reversing(BaseHTTPRequestHandler):
    """Translates by reversing; some texts are refused or get no answer."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar = Counter[str]()
    n_connections = 0

    def setup(self) -> None:
        super().setup()
        type(self).n_connections += 1

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
        if text == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (body[:5], body[5:], b""):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Reversing.asked.clear()
    Reversing.n_connections = 0
    with serving(Reversing) as url:
        yield int(url.rpartition(":")[2])


def test_each_text_is_sent_once_and_every_answer_and_error_is_counted(port: int) -> None:
    texts = [*(f"text {i}" for i in range(30)), "busy", "drop", "chunked"]
    load = asyncio.run(run_load(port, texts, LANGUAGES, 4, 30))
    assert Reversing.asked == Counter(texts)
    assert sorted(load.answers) == sorted((text, text[::-1]) for text in texts if text not in ("busy", "drop"))
    assert load.errors == {"status 503": 1, "IncompleteReadError": 1}
    assert len(load.waits) == 31 and all(0 < wait <= load.seconds for wait in load.waits)
    assert Reversing.n_connections <= 5  # each client keeps its own; one was dropped


def test_a_load_ends_with_its_time(port: int) -> None:
    began = time.monotonic()
    load = asyncio.run(run_load(port, (f"text {i}" for i in range(10**9)), LANGUAGES, 2, 0.3))
    assert load.answers and not load.errors and load.seconds < 10 and time.monotonic() - began < 20


def test_a_server_that_is_not_there_is_an_error() -> None:
    with serving(Reversing) as url:
        gone = int(url.rpartition(":")[2])
    load = asyncio.run(run_load(gone, ["a", "b"], LANGUAGES, 1, 30))
    assert load.errors == {"ConnectionRefusedError": 2} and not load.answers


def test_answers_without_a_translation_have_no_text(port: int) -> None:
    async def ask(body: bytes) -> str | None:
        connection = Connection(port)
        answer = await connection.send(request("/translate", body))
        await connection.close()
        return answer.text

    assert asyncio.run(ask(b'{"q": "busy"}')) is None
    assert asyncio.run(ask(b'{"q": "ab"}')) == "ba"


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(i) for i in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([7.0], 0.99) == 7


def test_an_answer_to_another_text_is_crossed_and_one_to_none_is_other() -> None:
    expected = {"a": "A", "b": "B", "c": "C"}
    assert compared([("a", "A"), ("b", "B"), ("c", "C")], expected) == (0, 0)
    assert compared([("a", "B"), ("b", "x"), ("c", "C")], expected) == (2, 1)
    assert compared([("a", "A"), ("new", "N")], expected) == (0, 0)


def test_the_table_has_the_ratios_to_our_server() -> None:
    rows = [
        Row("nmt", 120.0, 2400.0, 1200, 100.4, 300.0, {}, 3, 0, 15.0, 2.0, 10.0, 250.0),
        Row("file", 150.0, 3000.0, 1200),
        Row("libretranslate", 30.0, 600.0, 300, 2000.0, 9000.0, {"status 500": 2}, 9, 1, 20.0, 1.0, 10.0, 900.0),
    ]
    lines = render(rows, 200).split("\n")
    assert lines[2] == "| nmt | 120.0 | 2,400 | 100 | 300 | 1,200 | 0 | 3 | 0 |"
    assert lines[3] == "| file | 150.0 | 3,000 | – | – | 1,200 | – | – | – |"
    assert lines[4] == "| libretranslate | 30.0 | 600 | 2,000 | 9,000 | 300 | 2 status 500 | 9 | 1 |"
    assert lines[8:10] == ["| nmt | 1.50 | 0.20 | 250 |", "| libretranslate | 2.00 | 0.10 | 900 |"]
    assert lines[-2:] == ["nmt / file: 0.80", "nmt / libretranslate: 4.00"]


def test_lines_are_different_and_not_blank(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("b\n\na\nb \n", encoding="utf-8")
    assert sorted(read_lines(path)) == ["a", "b"]
    path.write_text("a\na\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no text"):
        read_lines(path)
