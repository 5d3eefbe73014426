"""Cases of `serve_faults.py` with bodies that are made to block the server, beside another client's delays without."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping

from scripts.bench.load import Answer, Connection, request
from scripts.bench.server import Server
from scripts.checks.serve_faults import SECRET, TEXT, Faults, Seen, outcome, told

AT_ONCE = 5
HALF_MB = 500_000
"""Size of a body, a little below the limit of a server."""


def form(charset: str, text: bytes, n: int, languages: tuple[str, str], end: str = "") -> bytes:
    """Return a multipart request to translate `n` texts in a charset. end: what the charset needs after ASCII."""
    fields = [("q", text)] * n + [
        (name, f"{value}{end}".encode()) for name, value in zip(("source", "target"), languages, strict=True)
    ]
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}{end}"\r\n\r\n'.encode() + value for name, value in fields
    ]
    return request(
        "/translate", b"\r\n".join([*parts, b"--x--\r\n"]), f"multipart/form-data; boundary=x; charset={charset}"
    )


def filled(path: str, fields: Mapping[str, object], name: str, item: str, brackets: str = "[]") -> bytes:
    """Return a request whose field `name` is half a megabyte of the same items."""
    items = ",".join(item % i if "%d" in item else item for i in range(HALF_MB // (len(item) + 1)))
    half = items[:HALF_MB].rpartition(",")[0]
    body = f"{json.dumps(dict(fields))[:-1]}, {json.dumps(name)}: {brackets[0]}{half}{brackets[1]}}}"
    return request(path, body.encode())


def attacks(languages: tuple[str, str], alternatives: int) -> dict[str, bytes]:
    """Return the requests by name. alternatives: the number of alternatives that the server offers."""
    asked: dict[str, object] = {"source": languages[0], "target": languages[1]}
    long = SECRET * (HALF_MB // len(SECRET))
    html = "<b>a</b> <i>b</i> " * 1100
    escapes = f"source={languages[0]}&target={languages[1]}&q=".encode() + b"%61" * (HALF_MB // 3 - 100)
    of_fields: dict[str, tuple[str, dict[str, object]]] = {
        "unknown fields": ("/v1/translate", {str(i): 1 for i in range(40_000)}),
        "long language": ("/v1/translate", {**asked, "text": TEXT, "source": long}),
        "long tag": ("/v1/translate", {**asked, "text": TEXT, "tags": [long]}),
        "long name of a setting": ("/v1/translate", {**asked, "text": TEXT, "search": {long: 1}}),
        "long text to detect": ("/detect", {"q": TEXT * 1100}),
        "HTML": ("/translate", {**asked, "q": html, "format": "html", "alternatives": alternatives}),
    }
    return {
        "punycode": form("punycode", b"a-" + b"b" * 64_000, 7, languages, "-"),
        "utf-7": form("utf-7", b"+2AA-", 1, languages),
        "form of escapes": request("/translate", escapes, "application/x-www-form-urlencoded"),
        "numbers as texts": filled("/v1/translate", asked, "text", "1"),
        "numbers as terms": filled("/v1/translate", {**asked, "text": TEXT}, "terms", '"%d":1', "{}"),
        "lists as texts": filled("/translate", asked, "q", "[]"),
        "lists to detect": filled("/detect", asked, "q", "[]"),
        **{name: request(path, json.dumps(fields).encode()) for name, (path, fields) in of_fields.items()},
    }


class Delays:
    """How long another client waits for `/health` and for a sentence, in seconds."""

    def __init__(self, faults: Faults, server: Server) -> None:
        self._asked = {"/health": request("/health", method="GET"), "sentence": faults.request()}
        self._connections = {name: Connection(server.port) for name in self._asked}
        self.of: dict[str, list[float]] = {name: [] for name in self._asked}

    async def watch(self, name: str, is_over: Callable[[], bool]) -> None:
        """Send one of the requests again and again."""
        while not is_over():
            began = time.monotonic()
            answer = await self._connections[name].send(self._asked[name])
            self.of[name].append(time.monotonic() - began if answer.status == 200 else float("inf"))
            await asyncio.sleep(0.02)
        await self._connections[name].close()

    def told(self) -> str:
        """Return median and maximum of each as text."""
        return ", ".join(f"{name} p50 {statistics.median(of):.3f} max {max(of):.3f} s" for name, of in self.of.items())


async def one(port: int, message: bytes) -> Answer:
    """Send a request over a connection of its own."""
    connection = Connection(port)
    try:
        return await connection.send(message)
    finally:
        await connection.close()


async def under(
    faults: Faults, server: Server, message: bytes | None, seconds: float
) -> tuple[Delays, Counter[object], int]:
    """Send a request again and again, five at once, or nothing; returns delays, the statuses and the longest error."""
    delays, statuses, longest = Delays(faults, server), Counter[object](), 0
    ends = time.monotonic() + seconds

    async def attack(body: bytes) -> None:
        nonlocal longest
        while time.monotonic() < ends:
            asking = asyncio.ensure_future(one(server.port, body))
            statuses[await outcome(asking)] += 1
            if asking.result().status >= 400:
                longest = max(longest, len(asking.result().body))

    attackers = [asyncio.ensure_future(attack(message)) for _ in range(AT_ONCE) if message is not None]

    def is_over() -> bool:
        return time.monotonic() > ends and all(attacker.done() for attacker in attackers)

    await asyncio.gather(*attackers, *(delays.watch(name, is_over) for name in delays.of))
    return delays, statuses, longest


def crafted_bodies(faults: Faults) -> Seen:
    """Bodies within the limits that take long to read or to refuse, five at once; another client asks meanwhile."""
    seen: list[str] = []
    is_good = True
    with faults.serving("--cache", 0, "--set", "search.beam=8") as server:
        info = json.loads(asyncio.run(one(server.port, request("/v1/info", method="GET"))).body)
        messages = attacks(faults.languages, info["features"]["alternatives"])
        for name, message in {"nothing": None, **messages}.items():
            delays, statuses, longest = asyncio.run(under(faults, server, message, 2 if faults.is_quick else 10))
            seen.append(f"{name}: {delays.told()} (attacker: {told(statuses)}; errors of at most {longest:,} bytes)")
            faults.progress(seen[-1])
            slowest = max(max(times) for times in delays.of.values())
            is_good = is_good and slowest < 2 and longest < 1000 and all(status != 500 for status in statuses)
        goes_on, _ = faults.wait(server)
    return Seen("; ".join(seen), goes_on and is_good)


def unknown_charsets(faults: Faults) -> Seen:
    """Thousands of forms name charsets that do not exist, each another one of 25 kB."""
    with faults.serving() as server:
        n = max(500, faults.n(2000))
        before = server.memory_mb()

        async def send_all() -> Counter[object]:
            connection, statuses = Connection(server.port), Counter[object]()
            for i in range(n):
                message = form(f"{i}" + "x" * 25_000, TEXT.encode(), 1, faults.languages)
                statuses[(await connection.send(message)).status] += 1
            await connection.close()
            return statuses

        statuses = asyncio.run(send_all())
        grown = server.memory_mb() - before
        goes_on, _ = faults.wait(server)
    return Seen(f"{told(statuses)}; the server grew by {grown:.0f} MB", goes_on and grown < 10)


BODY_CASES: dict[str, Callable[[Faults], Seen]] = {
    "crafted-bodies": crafted_bodies,
    "unknown-charsets": unknown_charsets,
}
