"""Cases of `serve_faults.py` with faults of the server and its machine."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable

from scripts.bench.load import Answer, Connection, request
from scripts.checks.serve_broken import BREAKS
from scripts.checks.serve_faults import SECRET, TEXT, Faults, Seen, is_error, outcome, told
from scripts.checks.serve_faults_bodies import BODY_CASES
from scripts.checks.serve_faults_clients import CLIENT_CASES, file_form


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


def full_disk(faults: Faults) -> Seen:
    """A file is uploaded where nothing more can be written, neither files nor the log."""
    with faults.serving() as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        n = max(20, faults.n(2000))
        body, kind = file_form(faults.languages, "".join(f"{TEXT} {i} {SECRET}\n" for i in range(n)).encode())

        async def upload() -> tuple[Answer, Answer | None]:
            connection = Connection(server.port)
            try:
                answer = await asyncio.wait_for(connection.send(request("/translate_file", body, kind)), 600)
                if answer.status != 200:
                    return answer, None
                path = json.loads(answer.body)["translatedFileUrl"].split("/", 3)[3]
                return answer, await connection.send(request(f"/{path}", method="GET"))
            finally:
                await connection.close()

        try:
            answer, file = asyncio.run(upload())
        except (OSError, EOFError, TimeoutError) as error:
            return Seen(f"the upload: {type(error).__name__}", False)
        goes_on, _ = faults.wait(server)
    n_lines = file.body.count(b"\n") if file is not None else 0
    return Seen(f"the upload: {answer.status}; the file: {n_lines:,} of {n:,} lines", goes_on and n_lines == n)


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
                faults.progress(f"{n // 10 * len(sizes):,} of {n:,} requests, {sizes[-1]:.0f} MB")
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
    **CLIENT_CASES,
    **BODY_CASES,
    "full-disk": full_disk,
    "sigterm": sigterm,
    "memory": memory,
}
