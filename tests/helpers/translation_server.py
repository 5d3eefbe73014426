"""A stand-in for `nmt serve` on the loopback interface: the page, and translations that tests write down before."""

from __future__ import annotations

import json
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any

from loopback import serving

POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class Phrase:
    """A translation. `links`: pairs of a word of the source and one of the translation, counted from 0."""

    text: str
    alternatives: tuple[str, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    lost: tuple[str, ...] = ()


def word_spans(text: str) -> list[list[int]]:
    """Start and end of each word, in code points."""
    spans, at = [], 0
    for word in text.split():
        at = text.index(word, at)
        spans.append([at, at + len(word)])
        at += len(word)
    return spans


@dataclass
class Stand:
    """What the stand-in knows and how it behaves, and what it was asked. A line it does not know becomes capitals."""

    info: dict[str, Any]
    phrases: dict[str, Phrase] = field(default_factory=dict)
    detected: str | None = "de"
    languages: dict[str, str] = field(default_factory=dict)
    """The detected languages of lines in other languages."""
    failures: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    """Status, headers and error of each of the next answers."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    """A text whose answer is delayed until the event is set."""
    key: str | None = None
    paths: list[str] = field(default_factory=list)
    """The request lines so far."""
    questions: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requests for translations."""
    forms: list[dict[str, bytes]] = field(default_factory=list)
    """The form fields of the requests for files."""
    file_keys: list[str | None] = field(default_factory=list)
    """The Authorization headers of the requests."""
    url: str = ""

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        translations = [self._translation(line, question) for line in question["text"]]
        detected = translations[0]["detected"]
        source = self.detected if detected else question["source"]
        return {"source": source, "target": question["target"], "detected": detected, "translations": translations}

    def _translation(self, line: str, question: dict[str, Any]) -> dict[str, Any]:
        phrase = self.phrases.get(line) or Phrase(line.upper(), links=tuple((i, i) for i in range(len(line.split()))))
        source, target = word_spans(line), word_spans(phrase.text)
        alternatives = [{"text": each, "score": -2.0} for each in phrase.alternatives][: question["n_best"] - 1]
        links = [{"source": source[i], "target": target[j]} for i, j in phrase.links]
        is_auto, language = question["source"] == "auto", self.languages.get(line, self.detected)
        detected = {"language": language, "confidence": 0.9} if is_auto else None
        scores = {"score": -1.0, "log_prob": -3.0, "lost": phrase.lost}
        return {"text": phrase.text, "detected": detected, **scores, "alternatives": alternatives, "alignment": links}


@contextmanager
def serve_translations(stand: Stand) -> Iterator[Stand]:
    """Serve the page and the translations of `stand` until the block ends."""

    with serving(type("Handler", (_Handler,), {"stand": stand})) as stand.url:
        try:
            yield stand
        finally:
            for event in stand.held.values():
                event.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stand: Stand

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's own name)
        """Print nothing."""

    def do_GET(self) -> None:
        self.stand.paths.append(f"GET {self.path}")
        if self.path == "/v1/info":
            self._fail() or self._json(200, self.stand.info)
        elif self.path == "/download_file/1":
            self._send(200, self.stand.forms[-1]["file"].upper(), {"Content-Type": "text/plain"})
        else:
            asset = files("nmt.serve.page").joinpath(self.path.lstrip("/") or "index.html")
            kind = mimetypes.guess_type(asset.name)[0] or "application/octet-stream"
            self._send(200, asset.read_bytes(), {"Content-Type": kind, "Content-Security-Policy": POLICY})

    def do_POST(self) -> None:
        self.stand.paths.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/translate_file":
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            parts: Any = message_from_bytes(head + body).get_payload()
            form = {str(p.get_param("name", header="content-disposition")): p.get_payload(decode=True) for p in parts}
            self.stand.forms.append(form)
            self.stand.file_keys.append(self.headers.get("Authorization"))
            if not self._fail():
                self._json(200, {"translatedFileUrl": "http://elsewhere.example/download_file/1"})
            return
        question = json.loads(body)
        self.stand.questions.append(question)
        if held := self.stand.held.get("\n".join(question["text"])):
            held.wait(20)
        if self.stand.key and self.headers.get("Authorization") != f"Bearer {self.stand.key}":
            self._json(401, {"error": "the key is not known"})
        elif not self._fail():
            self._json(200, self.stand.answer(question))

    def _fail(self) -> bool:
        """Answer with the next failure, if there is one."""
        if not self.stand.failures:
            return False
        status, headers, error = self.stand.failures.pop(0)
        self._json(status, {"error": error}, headers)
        return True

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:  # the page no longer wants the answer
            self.close_connection = True
