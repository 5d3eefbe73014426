"""Clients of a translation server on this machine: single requests, and a load of many concurrent clients.

A client has one connection, which it keeps, and sends a text when it has the answer to the one before. Only the
loopback interface is ever addressed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

HOST = "127.0.0.1"


class Answer(NamedTuple):
    """What a server has answered."""

    status: int
    body: bytes

    @property
    def text(self) -> str | None:
        """The translation in LibreTranslate's JSON; None if there is none."""
        try:
            found = json.loads(self.body)["translatedText"]
        except (ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, str) else None


def request(path: str, body: bytes = b"", content_type: str = "application/json", method: str = "POST") -> bytes:
    """Return the bytes of a request over a connection that is kept."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    )
    return f"{head}\r\n".encode() + body


def translation(text: str, languages: tuple[str, str]) -> bytes:
    """Return the bytes of a request to translate a text, from and to these languages."""
    fields = {"q": text, "source": languages[0], "target": languages[1], "format": "text"}
    return request("/translate", json.dumps(fields).encode())


class Connection:
    """A connection that is kept open from one request to the next."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, message: bytes) -> Answer:
        """Send a request and return the answer. Raises OSError or EOFError where there is none."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(HOST, self.port)
        reader, writer = self._streams
        try:
            writer.write(message)
            await writer.drain()
            answer, is_kept = await read_answer(reader)
        except BaseException:
            await self.close()
            raise
        if not is_kept:
            await self.close()
        return answer

    async def close(self) -> None:
        """Close it; the next request opens another."""
        if self._streams is not None:
            writer = self._streams[1]
            self._streams = None
            writer.close()


async def read_answer(reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    """Read an answer; returns it, and whether the server keeps the connection. Raises OSError or EOFError."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    is_kept = fields.get("connection", "").lower() != "close"
    if "content-length" in fields:
        body = await reader.readexactly(int(fields["content-length"]))
    elif fields.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunks(reader)
    else:
        body, is_kept = await reader.read(), False
    return Answer(int(first.split(" ")[1]), body), is_kept


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return body


@dataclass
class Load:
    """What a load has done."""

    seconds: float = 0.0
    """From the first request to the last answer."""
    cpu_seconds: float = 0.0
    """Of the clients' own process."""
    waits: list[float] = field(default_factory=list)
    """Seconds from a request to its translation."""
    answers: list[tuple[str, str]] = field(default_factory=list)
    """Texts and their translations, in the order of the translations."""
    errors: Counter[str] = field(default_factory=Counter)
    """How often something else than a translation came: by status, or by the name of the exception."""


async def run_load(port: int, texts: Iterable[str], languages: tuple[str, str], n_clients: int, seconds: float) -> Load:
    """Have clients send texts, each text once, until there are none left or the time is over.

    What was sent by then is waited for, a minute at most.
    """
    load, supply, began, cpu = Load(), iter(texts), time.monotonic(), time.process_time()
    clients = [asyncio.create_task(_client(port, supply, languages, began + seconds, load)) for _ in range(n_clients)]
    _, late = await asyncio.wait(clients, timeout=seconds + 60)
    for task in late:
        task.cancel()
        load.errors["no answer"] += 1
    await asyncio.gather(*late, return_exceptions=True)
    load.seconds, load.cpu_seconds = time.monotonic() - began, time.process_time() - cpu
    return load


async def _client(port: int, supply: Iterator[str], languages: tuple[str, str], end: float, load: Load) -> None:
    connection = Connection(port)
    for text in supply:
        began = time.monotonic()
        try:
            answer = await connection.send(translation(text, languages))
        except (OSError, EOFError) as error:
            load.errors[type(error).__name__] += 1
            await asyncio.sleep(0.1)  # a server that is not there would be asked without end
        else:
            if answer.status == 200 and answer.text is not None:
                load.waits.append(time.monotonic() - began)
                load.answers.append((text, answer.text))
            else:
                load.errors[f"status {answer.status}"] += 1
        if time.monotonic() >= end:
            break
    await connection.close()
