"""The cases of `serve_faults.py`."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable

from scripts.bench.load import HOST, Answer, Connection, read_answer, request
from scripts.checks.serve_broken import BREAKS
from scripts.checks.serve_faults import SECRET, TEXT, Faults, Seen

MB = 1 << 20
LARGE = 100 * MB


def is_error(answer: Answer) -> bool:
    """Whether it is JSON with an `error` for people."""
    try:
        error = json.loads(answer.body)["error"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(error, str) and "Traceback" not in error


def told(statuses: Counter[object]) -> str:
    """Return counts as text."""
    return ", ".join(f"{n:,} × {status}" for status, n in sorted(statuses.items(), key=str)) or "nothing"


async def outcome(work: asyncio.Future[Answer] | asyncio.Task[Answer]) -> object:
    """Return the status of an answer, or the name of the exception in its place."""
    try:
        return (await asyncio.wait_for(work, 90)).status
    except (OSError, EOFError, TimeoutError) as error:
        return type(error).__name__


def worker_exception(faults: Faults) -> Seen:
    """Translating raises an exception for some lines: others in the same batch are translated."""
    with faults.serving("--cache", 0, module="scripts.checks.serve_broken") as server:

        async def both() -> tuple[list[Answer], list[Answer]]:
            texts = [f"{BREAKS} {i}" if i % 4 == 0 else f"Der Hund {i}." for i in range(40)]
            answers = await asyncio.gather(*(faults.ask(server.port, text) for text in texts))
            return answers[::4], [answer for i, answer in enumerate(answers) if i % 4]

        broken, others = asyncio.run(both())
        goes_on, _ = faults.wait(server)
    statuses = [Counter[object](answer.status for answer in group) for group in (broken, others)]
    good = all(answer.status == 500 and is_error(answer) for answer in broken) and set(statuses[1]) == {200}
    return Seen(f"failing lines: {told(statuses[0])}; others: {told(statuses[1])}", good and goes_on)


def killed_engine(faults: Faults) -> Seen:
    """A process that translates is killed, if the server has one."""
    with faults.serving("--cache", 0) as server:
        children = server.processes()[1:]
        if not children:
            return Seen("no such process: the engine is in the server's own", True)
        os.kill(children[0], signal.SIGKILL)
        goes_on, seconds = faults.wait(server)
        return Seen(f"the next request: {'200' if goes_on else 'no translation'} after {seconds:.1f} s", goes_on)


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
        n, seconds = (50, 10) if faults.is_quick else (500, 60)

        async def crawl() -> tuple[int, float, int]:
            pairs = [await asyncio.open_connection(HOST, server.port) for _ in range(n)]
            message, longest, failed = faults.request(TEXT * 50), 0.0, 0
            for i in range(seconds):
                for number, (_, writer) in enumerate(pairs):
                    offset = 0 if number % 2 else message.index(b"\r\n\r\n") + 4  # half of them within the body
                    writer.write(message[: offset + 1] if i == 0 else message[offset + i : offset + i + 1])
                began = time.monotonic()
                failed += await outcome(asyncio.ensure_future(faults.ask(server.port))) != 200
                longest = max(longest, time.monotonic() - began)
                await asyncio.sleep(1)
            closed = sum(reader.at_eof() or writer.is_closing() for reader, writer in pairs)
            for _, writer in pairs:
                writer.close()
            return closed, longest, failed

        closed, longest, failed = asyncio.run(crawl())
        goes_on, _ = faults.wait(server)
    what = f"others: {seconds - failed} × 200, the slowest after {longest:.2f} s; closed of {n}: {closed}"
    return Seen(what, goes_on and not failed)


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
    with faults.serving() as server:

        async def send_all() -> Counter[object]:
            statuses, rng, connection = Counter[object](), random.Random(1), Connection(server.port)
            for _ in range(max(500, faults.n(10_000))):
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


def full_disk(faults: Faults) -> Seen:
    """A file is uploaded where no file can be written that is larger than 16 kB."""
    with faults.serving() as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (16_384, 16_384))
        text = "".join(f"{TEXT} {i} {SECRET}\n" for i in range(2000))
        parts = {"source": faults.languages[0], "target": faults.languages[1]}
        body = "".join(f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in parts.items())
        body += f'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n{text}\r\n--x--\r\n'

        async def upload() -> Answer:
            connection = Connection(server.port)
            message = request("/translate_file", body.encode(), "multipart/form-data; boundary=x")
            return await asyncio.wait_for(connection.send(message), 300)

        try:
            answer: Answer | None = asyncio.run(upload())
        except (OSError, EOFError, TimeoutError):
            answer = None
        goes_on, _ = faults.wait(server)
    good = answer is not None and (answer.status == 200 or is_error(answer))
    return Seen(f"the upload: {answer.status if answer else 'no answer'}", good and goes_on)


def sigterm(faults: Faults) -> Seen:
    """The server is told to end while it is busy: what it was asked before that is answered."""
    with faults.serving("--cache", 0) as server:
        told_at, begun, ended = [0.0], Counter[object](), list[float]()

        async def client(number: int) -> None:
            connection = Connection(server.port)
            for i in range(10_000):
                began = time.monotonic()
                status = await outcome(asyncio.ensure_future(connection.send(faults.request(f"{TEXT} {number} {i}"))))
                when = "before" if not told_at[0] or began < told_at[0] else "after"
                begun[f"{when} SIGTERM {status}"] += 1
                if status != 200:
                    break
            await connection.close()

        async def load() -> None:
            clients = [asyncio.ensure_future(client(number)) for number in range(50)]
            await asyncio.sleep(3)
            told_at[0] = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            ended.append(await asyncio.to_thread(server.process.wait, 60))
            ended.append(time.monotonic() - told_at[0])
            await asyncio.wait(clients, timeout=30)

        asyncio.run(load())
    lost = [kind for kind in begun if str(kind).startswith("before") and not str(kind).endswith("200")]
    return Seen(f"asked {told(begun)}; exit status {ended[0]:.0f} after {ended[1]:.1f} s", not lost and ended[0] == 0)


def memory(faults: Faults) -> Seen:
    """A hundred thousand requests: the server's memory is what it was after the first tenth."""
    with faults.serving() as server:
        n, sizes = faults.n(100_000), list[float]()

        async def client(share: int) -> int:
            connection, failed = Connection(server.port), 0
            for i in range(share):
                text = f"{TEXT} {i // 10}" if i % 10 == 0 else f"{TEXT} {i % 7}"  # one in ten is new
                failed += (await connection.send(faults.request(text))).status != 200
            await connection.close()
            return failed

        async def tenths() -> int:
            failed = 0
            for _ in range(10):
                failed += sum(await asyncio.gather(*(client(n // 80) for _ in range(8))))
                sizes.append(server.memory_mb())
            return failed

        failed = asyncio.run(tenths())
    grown = sizes[-1] - sizes[0]
    return Seen(
        f"{n:,} requests, {failed} failed; {sizes[0]:.0f} MB after a tenth, {sizes[-1]:.0f} MB at the end",
        not failed and grown < 0.05 * sizes[0] + 5,
    )


CASES: dict[str, Callable[[Faults], Seen]] = {
    "worker-exception": worker_exception,
    "killed-engine": killed_engine,
    "client-gone": client_gone,
    "slow-loris": slow_loris,
    "large-body": large_body,
    "fuzzed-bodies": fuzzed_bodies,
    "full-disk": full_disk,
    "sigterm": sigterm,
    "memory": memory,
}
