"""A server with an API for chat completions on the loopback interface, which translates by a dictionary and can do all
that goes wrong with language models and their servers."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from loopback import serving
from nmt.chat.settings import ChatOptions
from nmt.chat.teacher import ChatTeacher
from nmt.config.load import overridden
from nmt.prepare import download

WORDS = {
    "Der": "The", "der": "the", "Die": "The", "Hund": "dog", "Hunde": "dogs", "bellt": "barks", "eine": "a",
    "Eine": "A", "Katze": "cat", "schläft": "sleeps", "sieht": "sees", "die": "the", "und": "and", "im": "in the",
    "Garten": "garden", "laut": "loudly", "heute": "today", "Mann": "man", "Frau": "woman", "Haus": "house",
    "groß": "big", "ist": "is", "rote": "red", "Ball": "ball", "rollt": "rolls", "ein": "a", "Ein": "A",
}  # fmt: skip


def word_by_word(line: str) -> str:
    """Translate German words that are known."""
    return re.sub(r"\w+", lambda match: WORDS.get(match[0], match[0]), line)


Answer = dict[str, Any]
"""The fields of a choice besides its message: `text` is the content; `status`, `headers` and `raw` replace the answer;
`close`, `wait` and `usage` are done before."""


def text_of(prompt: str) -> list[str]:
    """Return the lines to translate in a prompt that ends in `Text:` and the text, perhaps with more paragraphs."""
    block = prompt.partition("Text:\n")[2].partition("\n\n")[0]
    numbered = re.findall(r"^\d+: (.*)$", block, re.MULTILINE)
    return numbered if "numbered lines" in prompt else [block]


@dataclass
class ChatServer:
    """What the server knows and was asked."""

    translate: Callable[[str], str]
    """The translation of a line."""
    special: dict[str, list[Answer | str]] = field(default_factory=dict)
    """The next answers to a request for a line alone; the last one stays. A text is the content."""
    together: Callable[[list[str]], str] | None = None
    """The answer to several lines; by default a JSON object if it is asked for, else numbered lines."""
    refused_fields: tuple[str, ...] = ()
    """Fields of a request that are answered with status 400."""
    model: str = "dictionary-1"
    key: str | None = None
    usage: bool = True
    delay: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    """How often each line was answered with a completion."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    n_running: int = 0
    most_running: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> Answer:
        """Return the answer to a request."""
        if refused := [name for name in self.refused_fields if name in body]:
            error = {"error": {"message": f"Unsupported parameter: '{refused[0]}' is not supported."}}
            return {"status": 400, "raw": json.dumps(error)}
        lines = text_of(body["messages"][0]["content"])
        if len(lines) == 1:
            with self.lock:
                answers = self.special.get(lines[0])
                given = (answers.pop(0) if len(answers) > 1 else answers[0]) if answers else self.translate(lines[0])
            return given if isinstance(given, dict) else {"text": given}
        if self.together is not None:
            return {"text": self.together(lines)}
        translated = {str(number): self.translate(line) for number, line in enumerate(lines, start=1)}
        if "response_format" in body:
            return {"text": json.dumps(translated)}
        return {"text": "\n".join(f"{number}: {text}" for number, text in translated.items())}


@contextmanager
def serve_chat(server: ChatServer) -> Iterator[ChatServer]:
    """Serve until the block ends."""
    with serving(type("Handler", (_Handler,), {"server_": server})) as url:
        server.url = f"{url}/v1"
        yield server


def serve_at_once(translate: Callable[[str], str], patch: pytest.MonkeyPatch) -> AbstractContextManager[ChatServer]:
    """Serve translations to clients that neither pause nor have a key."""
    patch.setattr(download, "PAUSES", (0.0,) * 4)
    patch.delenv("OPENAI_API_KEY", raising=False)
    return serve_chat(ChatServer(translate))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_: ChatServer

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client was killed
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's own name)
        """Print nothing."""

    def do_GET(self) -> None:
        self.server_.paths.append(self.path)
        self._send(404, b"")

    def do_POST(self) -> None:
        server = self.server_
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.paths.append(self.path)
            server.bodies.append(body)
            server.keys.append(self.headers.get("Authorization"))
            server.n_running += 1
            server.most_running = max(server.most_running, server.n_running)
        try:
            time.sleep(server.delay)
            if server.key is not None and self.headers.get("Authorization") != f"Bearer {server.key}":
                self._send(
                    401,
                    json.dumps(
                        {"error": {"message": f"Incorrect API key: {self.headers.get('Authorization')}"}}
                    ).encode(),
                )
                return
            self._respond(body, server.answer(body))
        finally:
            with server.lock:
                server.n_running -= 1

    def _respond(self, body: dict[str, Any], answer: Answer) -> None:
        server = self.server_
        time.sleep(answer.get("wait", 0.0))
        if answer.get("close"):
            self.close_connection = True
            return
        if "raw" in answer or "status" in answer:
            raw = answer.get("raw", "").encode()
            headers = answer.get("headers", {})
            if answer.get("cut"):
                headers = {"Content-Length": str(len(raw) + 10)}
                self.close_connection = True
            self._send(answer.get("status", 200), raw, headers)
            return
        prompt = body["messages"][0]["content"]
        with server.lock:
            server.asked.update(text_of(prompt))
        message = {"role": "assistant", "content": answer.get("text"), **answer.get("message", {})}
        choice = {"index": 0, "message": message, "finish_reason": answer.get("end", "stop")}
        completion = {
            "id": "1",
            "object": "chat.completion",
            "model": answer.get("model", server.model),
            "choices": [choice],
        }
        if server.usage:
            completion["usage"] = {
                "prompt_tokens": len(prompt.split()),
                "completion_tokens": len(str(answer.get("text")).split()),
            }
        self._send(200, json.dumps(completion).encode())

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:  # the client was killed
            self.close_connection = True


Ask = Callable[..., list[str]]
"""A function that translates lines with the options of a teacher."""


def teacher_of(server: ChatServer, **options: Any) -> ChatTeacher:
    """Return a teacher from German into English."""
    data = {"direction": "de-en", "train": [{"files": {"de": "x.de", "en": "x.en"}}]}
    config = overridden({"data": data}, "test", [])
    settings = ChatOptions(teacher_url=server.url, teacher_model="m", **options)
    return ChatTeacher(settings, config.data, "de-en")
