"""Cases of `serve_faults.py` with misbehaving clients."""

from __future__ import annotations

import asyncio
import io
import json
import random
import signal
import statistics
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from scripts.bench.load import HOST, Answer, Connection, read_answer, request
from scripts.bench.server import Server
from scripts.checks.serve_faults import SECRET, TEXT, Faults, Seen, is_error, outcome, told

MB = 1 << 20
LARGE = 100 * MB
STILL_OPEN = "still open"


def client_gone(faults: Faults) -> Seen:
    """Clients close their connections without waiting for the answer."""
    with faults.serving("--cache", 0) as server:

        async def leave(i: int) -> None:
            _, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(faults.request(f"{TEXT} {i} " * 100))
            await writer.drain()
            writer.transport.abort() if i % 2 else writer.close()

        async def leave_all() -> None:
            for begin in range(0, n, 100):
                await asyncio.gather(*(leave(i) for i in range(begin, min(n, begin + 100))))

        n = max(50, faults.n(1000))
        asyncio.run(leave_all())
        goes_on, seconds = faults.wait(server)
    return Seen(f"{n} left; the next one: {'200' if goes_on else 'no translation'} after {seconds:.1f} s", goes_on)


def slow_loris(faults: Faults) -> Seen:
    """Many connections on which a request arrives byte by byte and never ends."""
    with faults.serving("--cache", 0) as server:
        n, seconds = (50, 40) if faults.is_quick else (500, 60)

        async def crawl() -> tuple[Counter[object], float, int]:
            pairs = [await asyncio.open_connection(HOST, server.port) for _ in range(n)]
            message, longest, failed = faults.request(TEXT * 50), 0.0, 0
            for i in range(seconds):
                for number, (_, writer) in enumerate(pairs):
                    if writer.is_closing():
                        continue
                    offset = 0 if number % 2 else message.index(b"\r\n\r\n") + 4  # half of them within the body
                    writer.write(message[: offset + 1] if i == 0 else message[offset + i : offset + i + 1])
                began = time.monotonic()
                failed += await outcome(asyncio.ensure_future(faults.ask(server.port))) != 200
                longest = max(longest, time.monotonic() - began)
                await asyncio.sleep(1)
            ends = Counter[object](await asyncio.gather(*(end_of(reader) for reader, _ in pairs)))
            for _, writer in pairs:
                writer.close()
            return ends, longest, failed

        ends, longest, failed = asyncio.run(crawl())
        goes_on, _ = faults.wait(server)
    what = f"others: {seconds - failed} × 200, the slowest after {longest:.2f} s; the slow ones: {told(ends)}"
    return Seen(what, goes_on and not failed and ends[STILL_OPEN] == 0)


async def end_of(reader: asyncio.StreamReader) -> str:
    """Return how a connection has ended: with which status, without an answer, or not at all."""
    try:
        answer = await asyncio.wait_for(reader.read(), 5)
    except TimeoutError:
        return STILL_OPEN
    except OSError:
        return "closed"
    return answer.split()[1].decode() if answer.startswith(b"HTTP/") else "closed"


def large_body(faults: Faults) -> Seen:
    """A body of 100 MB, with its length announced and without."""
    with faults.serving() as server:

        async def send(head: str, is_chunked: bool) -> tuple[object, int]:
            reader, writer = await asyncio.open_connection(HOST, server.port)
            answering = asyncio.ensure_future(read_answer(reader))
            block, sent = b"x" * 65536, 0
            framed = b"10000\r\n" + block + b"\r\n" if is_chunked else block
            try:
                writer.write(f"POST /translate HTTP/1.1\r\nHost: {HOST}\r\n{head}\r\n\r\n".encode())
                while sent < LARGE and not answering.done() and not writer.is_closing():
                    writer.write(framed)
                    await writer.drain()
                    sent += len(block)
                return (await asyncio.wait_for(answering, 30))[0].status, sent
            except (OSError, EOFError, TimeoutError) as error:
                return type(error).__name__, sent
            finally:
                answering.cancel()
                writer.close()

        before, results = server.memory_mb(), []
        for framing in (f"Content-Length: {LARGE}", "Transfer-Encoding: chunked"):
            head = f"Content-Type: application/json\r\n{framing}"
            results.append(asyncio.run(send(head, "chunked" in framing)))
        grown, (goes_on, _) = server.memory_mb() - before, faults.wait(server)
    what = "; ".join(f"{status} after {sent / MB:.1f} MB" for status, sent in results)
    good = all(status == 413 for status, _ in results) and grown < 20
    return Seen(f"{what}; the server grew by {grown:.0f} MB", good and goes_on)


def large_bodies(faults: Faults) -> Seen:
    """A thousand clients of one address send half a megabyte each, but not the last byte."""
    n, size = (200, 500_000) if faults.is_quick else (900, 500_000)
    with faults.serving() as server:
        before = server.memory_mb()

        async def send() -> tuple[Counter[object], float, object]:
            pairs = [await asyncio.open_connection(HOST, server.port) for _ in range(n)]
            message = request("/translate", b"x" * size)[:-1]
            for begin in range(0, n, 50):
                for _, writer in pairs[begin : begin + 50]:
                    writer.write(message)
                drains = (writer.drain() for _, writer in pairs[begin : begin + 50])
                await asyncio.gather(*drains, return_exceptions=True)
            faults.progress(f"{n} bodies sent")
            grown = server.memory_mb() - before
            other = await outcome(asyncio.ensure_future(elsewhere(faults, server.port)))
            for _, writer in pairs:
                writer.write_eof()
            ends = Counter[object](await asyncio.gather(*(end_of(reader) for reader, _ in pairs)))
            for _, writer in pairs:
                writer.close()
            return ends, grown, other

        ends, grown, other = asyncio.run(send())
        goes_on, _ = faults.wait(server)
    what = f"{told(ends)}; a client elsewhere meanwhile: {other}; the server grew by {grown:.0f} MB"
    return Seen(what, goes_on and other == 200 and ends["503"] > 0 and grown < 200)


async def elsewhere(faults: Faults, port: int, text: str = TEXT) -> Answer:
    """Translate a text for a client of another address, as a proxy on this machine says. Raises OSError or EOFError."""
    connection = Connection(port)
    try:
        forwarded = b"\r\nX-Forwarded-For: 192.0.2.1\r\n"
        return await connection.send(faults.request(text).replace(b"\r\n", forwarded, 1))
    finally:
        await connection.close()


def greedy_client(faults: Faults) -> Seen:
    """A client asks more than the queue takes, again and again; another asks one thing after the other."""
    with faults.serving("--cache", 0) as server:
        n, is_over = 5 if faults.is_quick else 200, False
        greedy, others, waits = Counter[object](), Counter[object](), list[float]()

        async def ask(number: int) -> None:
            connection, i = Connection(server.port), 0
            while not is_over:
                text, i = f"{TEXT} {number} {i}", i + 1
                status = await outcome(asyncio.ensure_future(connection.send(faults.request(text))))
                greedy[status] += 1
                if status != 200:
                    await asyncio.sleep(0.2)
            await connection.close()

        async def both() -> None:
            nonlocal is_over
            clients = [asyncio.ensure_future(ask(number)) for number in range(300)]
            for i in range(n):
                began = time.monotonic()
                others[await outcome(asyncio.ensure_future(elsewhere(faults, server.port, f"{TEXT} {i}")))] += 1
                waits.append(time.monotonic() - began)
            is_over = True
            await asyncio.gather(*clients)

        asyncio.run(both())
        goes_on, _ = faults.wait(server)
    what = f"300 at once: {told(greedy)}; the other: {told(others)}, the slowest after {max(waits):.1f} s"
    return Seen(what, goes_on and {*others} == {200} and {*greedy} <= {200, 503})


def unread_answers(faults: Faults) -> Seen:
    """Many connections ask for a file of megabytes and do not read it."""
    with faults.serving() as server:
        body, kind = file_form(faults.languages, f"{TEXT} {SECRET} {'ja ' * 12}\n".encode() * 45_000)
        n = 50 if faults.is_quick else 400

        async def leave_unread() -> tuple[int, float]:
            connection = Connection(server.port)
            answer = await asyncio.wait_for(connection.send(request("/translate_file", body, kind)), 600)
            path = json.loads(answer.body)["translatedFileUrl"].split("/", 3)[3]
            asked = request(f"/{path}", method="GET")
            size = len((await connection.send(asked)).body)
            before = server.memory_mb()
            pairs = [await asyncio.open_connection(HOST, server.port, limit=1024) for _ in range(n)]
            for reader, writer in pairs:
                writer.write(asked)
                await reader.readuntil(b"\r\n")
            grown = server.memory_mb() - before
            for _, writer in pairs:
                writer.close()
            await connection.close()
            return size, grown

        try:
            size, grown = asyncio.run(leave_unread())
        except (OSError, EOFError, KeyError, ValueError) as error:
            return Seen(f"no file: {type(error).__name__}", False)
        goes_on, _ = faults.wait(server)
    what = f"{n} connections, a file of {size / MB:.1f} MB: the server grew by {grown:.0f} MB"
    return Seen(what, goes_on and grown < 10 + n * 0.2)


def odt(n: int) -> bytes:
    """Return an OpenDocument text with so many spaces, each an element."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
        names = " ".join(
            f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("text", "office")
        )
        members.writestr("content.xml", f"<office:x {names}><text:p>ja {'<text:s/>' * n} ja</text:p></office:x>")
    return archive.getvalue()


def crafted_uploads(faults: Faults) -> Seen:
    """Small requests that are made to take long: heads of parts, 20 a second, then two compressed documents."""
    head = b'Content-Disposition: form-data; name="q"; '
    heads = b"".join(b"--x\r\n" + head + b";" * 900 + b"\r\n\r\nx\r\n" for _ in range(31)) + b"--x--\r\n"
    file, kind = file_form(faults.languages, odt(29_000), "a.odt")
    small, _ = file_form(faults.languages, odt(1), "a.odt")
    attacks = [(request("/translate", heads, kind), 60, 0.05), (request("/translate_file", file, kind), 2, 0.0)]
    seen: list[str] = []
    is_good = True
    with faults.serving("--cache", 0) as server:

        async def ask(message: bytes) -> Answer:
            connection = Connection(server.port)
            try:
                return await connection.send(message)
            finally:
                await connection.close()

        async def attack(message: bytes, n: int, pause: float) -> tuple[Counter[object], dict[str, float]]:
            sent = []
            waits = {"health": 0.0, "another client's sentence": 0.0}
            for _ in range(n):
                sent.append(asyncio.ensure_future(outcome(asyncio.ensure_future(ask(message)))))
                await asyncio.sleep(pause)
            while not all(each.done() for each in sent):
                for what, other in zip(waits, (request("/health", method="GET"), faults.request()), strict=True):
                    began = time.monotonic()
                    await ask(other)
                    waits[what] = max(waits[what], time.monotonic() - began)
                await asyncio.sleep(0.05)
            return Counter(await asyncio.gather(*sent)), waits

        asyncio.run(ask(request("/translate_file", small, kind)))  # PyTorch's model is loaded for the first file
        for message, n, pause in attacks:
            statuses, waits = asyncio.run(attack(message, n, pause))
            slowest = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in waits.items())
            seen.append(f"{len(message):,} bytes: {told(statuses)}, slowest: {slowest}")
            is_good = is_good and max(waits.values()) < 2
        goes_on, _ = faults.wait(server)
    return Seen("; ".join(seen), goes_on and is_good)


ATTACKS = {
    "lines of dots, terms that nearly match": ("a" + "." * 2857 + "\n") * 205,
    "the same, terms that match": ("a" + "." * 2857 + "\n") * 205,
    "words in lines of 19,000 characters": ("ja nein " * 2400 + "\n") * 30,
    "percent signs and zeros": ("ja %" + "0" * 19_000 + "\n") * 30,
    "formats in HTML": "<p>" + ("<b>1</b> 2 ja, " * 1000 + "<p>") * 40,
}
"""Contents of files that take long outside the search."""
NESTED = {"." * n: "x" for n in range(1, 195)}


async def text_of_another_client(faults: Faults, port: int, n: int) -> tuple[list[float], float]:
    """Translate a text of 1,680 characters `n` times, and return the seconds of each, and the longest of GET /health.

    It ends after a text that takes 20 seconds or more.
    """
    of_text, of_health = list[float](), 0.0
    while len(of_text) < n and max(of_text, default=0) < 20:
        began = time.monotonic()
        await outcome(asyncio.ensure_future(Connection(port).send(request("/health", method="GET"))))
        of_health = max(of_health, time.monotonic() - began)
        began = time.monotonic()
        status = await outcome(asyncio.ensure_future(elsewhere(faults, port, f"{TEXT * 98} {began}")))
        of_text.append(time.monotonic() - began if status == 200 else float("inf"))
    return of_text, of_health


def costly_files(faults: Faults) -> Seen:
    """Seven files at once that take long outside the search; another client's text beside them; then SIGTERM."""
    n, seen, is_good = max(10, faults.n(100)), list[str](), True

    async def attack(server: Server, message: bytes) -> tuple[list[float], list[float], float, float]:
        alone, _ = await text_of_another_client(faults, server.port, n)
        sent = [asyncio.ensure_future(outcome(asyncio.ensure_future(Connection(server.port).send(message))))
                for _ in range(7)]  # fmt: skip
        await asyncio.sleep(0.5)
        beside, of_health = await text_of_another_client(faults, server.port, n)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        while server.is_running() and time.monotonic() < began + 60:
            await asyncio.sleep(0.1)
        for each in sent:
            each.cancel()
        return alone, beside, of_health, time.monotonic() - began

    for name, content in ATTACKS.items():
        terms = {"": {}, "nearly": {f"{term}b": "x" for term in NESTED}, "that": NESTED}
        kind = "nearly" if "nearly" in name else "that" if "match" in name else ""
        suffix = "html" if content.startswith("<") else "txt"
        form = file_form(faults.languages, content.encode(), f"a.{suffix}", terms[kind])
        with faults.serving("--cache", 0, "--grace", 5) as server:
            alone, beside, of_health, ending = asyncio.run(attack(server, request("/translate_file", *form)))
            if server.is_running():
                server.process.kill()
        seen.append(
            f"{name}: {statistics.median(alone):.2f} s alone, {statistics.median(beside):.2f} s beside them, at most "
            f"{max(beside):.2f} s; /health at most {of_health:.2f} s; ended {ending:.1f} s after SIGTERM"
        )
        faults.progress(seen[-1])
        is_good = is_good and max(beside) < 5 and of_health < 2 and ending < 20
    return Seen("another client's text: " + "; ".join(seen), is_good)


def worst_lines(faults: Faults) -> Seen:
    """One client sends the longest text again and again, in two requests at a time; another sends a sentence."""
    rng = random.Random(7)
    letters = "".join(map(chr, [*range(0x4E00, 0x4F00), *range(0x1F600, 0x1F640), *range(0x0900, 0x0940)]))
    words = ["Ein", "Mann", "geht", "neben", "einer", "Frau", "an", "dem", "roten", "Haus", "vorbei", "und"]
    attacks = {
        "a" * 20_000: "one word",
        "1 " * 10_000: "digits",
        "".join(rng.choice(letters) for _ in range(20_000)): "letters of other scripts",
        " ".join(rng.choice(words) for _ in range(4000))[:20_000]: "one sentence",
        "Ein Hund läuft da.\n" * 1000: "1,000 lines",
        "\n".join("a" * 1000 for _ in range(20)): "20 words of 1,000 letters",
        "%s {a} " * 2500: "placeholders",
    }
    n = max(20, faults.n(300))
    seen: list[str] = []
    is_good = True
    with faults.serving("--cache", 0) as server:

        async def attack(text: str) -> list[float]:
            async def send() -> None:
                while True:
                    statuses[await outcome(asyncio.ensure_future(elsewhere(faults, server.port, text)))] += 1

            attackers = [asyncio.ensure_future(send()) for _ in range(2)]
            await asyncio.sleep(1)
            waits = []
            for i in range(n):
                began = time.monotonic()
                answer = await faults.ask(server.port, f"{TEXT} {i}")
                waits.append(time.monotonic() - began if answer.status == 200 else float("inf"))
                await asyncio.sleep(0.02)
            for attacker in attackers:
                attacker.cancel()
            return sorted(waits)

        for text, name in attacks.items():
            statuses = Counter[object]()
            waits = asyncio.run(attack(text[:19_980]))
            p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
            seen.append(f"{name}: p50 {p50:.2f} s, p99 {p99:.2f} s (attacker: {told(statuses)})")
            faults.progress(seen[-1])
            is_good = is_good and p99 < 2
        goes_on, _ = faults.wait(server)
    return Seen("another client's sentence: " + "; ".join(seen), goes_on and is_good)


def file_form(
    languages: tuple[str, str], content: bytes, name: str = "a.txt", terms: Mapping[str, str] = MappingProxyType({})
) -> tuple[bytes, str]:
    """Return a form with a file, and its content type."""
    fields = dict(zip(("source", "target", "terms"), (*languages, json.dumps(dict(terms))), strict=True))
    parts = [f'Content-Disposition: form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in fields.items()]
    parts.append(f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content)
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n", "multipart/form-data; boundary=x"


def fuzzed(rng: random.Random, languages: tuple[str, str]) -> tuple[str, bytes, str]:
    """Return path, body and content type of a request with mistakes."""
    odd = ["", SECRET, "\ud800", "\x00", None, True, -1, 1e308, [], [None], {}, {"a": [1]}, "x" * 30_000, ["y"] * 2000]
    fields: dict[str, object] = {"q": f"Hund {SECRET}", "source": languages[0], "target": languages[1]}
    for _ in range(rng.randint(0, 3)):
        names = ["q", "source", "target", "format", "alternatives", "api_key", "n_best", "search", "terms", "prefix"]
        fields[rng.choice(names)] = rng.choice(odd)
    if rng.random() < 0.3:
        fields.pop(rng.choice([*fields]))
    body = bytearray(json.dumps(fields).encode())
    for _ in range(rng.choice([0, 0, 1, 5])):
        position = rng.randrange(len(body) + 1)
        body[position : position + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 4))
    kinds = ["application/json", "application/json; charset=utf-16", "application/x-www-form-urlencoded",
             "multipart/form-data; boundary=x", "multipart/form-data", "text/plain", "", "a/b;;=\"\\"]  # fmt: skip
    paths = ["/translate"] * 5 + ["/detect", "/translate_file", "/suggest", "/v1/translate", f"/{rng.randint(0, 9)}"]
    if rng.random() < 0.1:
        body = bytearray(b"[" * 50_000)
    return rng.choice(paths), bytes(body), rng.choice(kinds[:1] * 5 + kinds)


def fuzzed_bodies(faults: Faults) -> Seen:
    """Ten thousand requests with mistakes."""
    n = max(500, faults.n(10_000))
    with faults.serving() as server:

        async def send_all() -> Counter[object]:
            statuses, rng, connection = Counter[object](), random.Random(1), Connection(server.port)
            for number in range(n):
                if number % 1000 == 0:
                    faults.progress(f"{number:,} of {n:,} bodies")
                path, body, kind = fuzzed(rng, faults.languages)
                try:
                    answer = await asyncio.wait_for(connection.send(request(path, body, kind)), 60)
                except (OSError, EOFError, TimeoutError) as error:
                    statuses[type(error).__name__] += 1
                    await connection.close()
                    continue
                bad = answer.status >= 400 and not is_error(answer)
                statuses[f"{answer.status} without an error in JSON" if bad else answer.status] += 1
            await connection.close()
            return statuses

        statuses = asyncio.run(send_all())
        goes_on, _ = faults.wait(server)
    good = all(isinstance(status, int) and status < 500 for status in statuses)
    return Seen(told(statuses), good and goes_on)


CLIENT_CASES: dict[str, Callable[[Faults], Seen]] = {
    "client-gone": client_gone,
    "slow-loris": slow_loris,
    "large-body": large_body,
    "large-bodies": large_bodies,
    "greedy-client": greedy_client,
    "unread-answers": unread_answers,
    "fuzzed-bodies": fuzzed_bodies,
    "crafted-uploads": crafted_uploads,
    "costly-files": costly_files,
    "worst-lines": worst_lines,
}
