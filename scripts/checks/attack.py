"""Attack `nmt serve`, and measure what another client notices: delays, refusals, and the memory of the server.

    python -m scripts.checks.attack --run RUN [--checkout DIRECTORY] [--only NAME,...] [--seconds 60]

For each attack a server is started anew. Another client asks for /health and for the translation of a short sentence,
each over a new connection, first for a few seconds without an attack, then during the attack and for 2 s after it. The
table has the median and the longest delay in seconds of both, the number of requests that failed, the server's peak
memory, the size of its log, and what the attacker was answered. On two cores the goals are 1 s for /health, 2 s for a
sentence, and 2 GB. An attack takes up to a minute. Linux only.

--checkout: serve with the code of another checkout, to compare.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import multiprocessing
import os
import random
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeAlias

from scripts.bench.load import HOST, request, translation
from scripts.bench.server import Server, free_port, serving

FILE_BYTES = 4 << 20
"""The largest file that the server accepts by default."""
OPEN_FILES = 1024
"""Soft limit of open files of the server, the default of most systems."""
BASELINE_SECONDS = 4.0
AFTER_SECONDS = 2.0
PAUSE_SECONDS = 0.1
"""Between two requests of a client."""
TIMEOUT_SECONDS = 60.0
Answers: TypeAlias = "Counter[str]"
Languages: TypeAlias = tuple[str, str]


class Target:
    """The server that is attacked, and the words to attack it with."""

    def __init__(self, port: int, languages: Languages, words: Sequence[str], events: Sequence[Event]) -> None:
        """Aim at a server. events: what is set when the attack is prepared, when it is to begin, and when to end."""
        self.port = port
        self.languages = languages
        self._words = words
        self._prepared, self._beginning, self._ending = events
        self.answers: Answers = Counter()

    @property
    def is_over(self) -> bool:
        """Whether the attack is to end."""
        return self._ending.is_set()

    def begin(self) -> None:
        """Wait until the attack is to begin."""
        self._prepared.set()
        self._beginning.wait()

    def send(self, message: bytes) -> None:
        """Send a request over a new connection, and count the answer."""
        self.answers[ask(self.port, message)] += 1

    def together(self, messages: Sequence[bytes], work: Callable[[bytes], None] | None = None) -> None:
        """Send requests at the same time when the attack is to begin."""
        self.begin()
        with ThreadPoolExecutor(len(messages)) as threads:
            list(threads.map(work or self.send, messages))

    def upload(self, name: str, content: bytes) -> bytes:
        """Return the bytes of a request to translate a file."""
        source, target = self.languages
        parts = [("source", source.encode()), ("target", target.encode()), (f'file"; filename="{name}', content)]
        body = b""
        for field, value in parts:
            body += f'--XX\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n'.encode() + value + b"\r\n"
        return request("/translate_file", body + b"--XX--\r\n", "multipart/form-data; boundary=XX")

    def words(self, rng: random.Random, n: int) -> str:
        """Return a text of `n` random words."""
        return " ".join(rng.choices(self._words, k=n))

    def paragraphs(self, line: Callable[[str], str]) -> bytes:
        """Return a file of paragraphs, none of which is repeated."""
        rng = random.Random(time.monotonic_ns())
        size = 0
        lines = []
        while size < FILE_BYTES:
            lines.append(line(self.words(rng, 40)).encode())
            size += len(lines[-1])
        return b"".join(lines[:-1])


def ask(port: int, message: bytes) -> str:
    """Send a request over a new connection. Return the status, or the name of the exception."""
    try:
        with socket.create_connection((HOST, port), timeout=TIMEOUT_SECONDS) as connection:
            with contextlib.suppress(ConnectionError):  # it may have been answered and closed before it was sent
                connection.sendall(message)
            return connection.recv(1 << 16).split(b" ", 2)[1].decode() if message else ""
    except (OSError, IndexError) as error:
        return type(error).__name__


# --- attacks ----------------------------------------------------------------------------------------------


def html_tags(target: Target) -> None:
    """8 .html of 4 MB with 48,000 <b>"""
    rng = random.Random(1)
    texts = []
    for _ in range(8):
        paragraphs = []
        for _ in range(1_900):
            words = target.words(rng, 330).split()
            words[::13] = [f"<b>{word}</b>" for word in words[::13]][:26]
            paragraphs.append(f"<p>{' '.join(words)}\n")
        text = "".join(paragraphs)[:FILE_BYTES].encode()
        texts.append(text[: text.rindex(b"<p>", 0, FILE_BYTES)])
    target.together([target.upload("a.html", text) for text in texts])


def html_plain(target: Target) -> None:
    """8 .html of 4 MB without tags inside paragraphs"""
    texts = [target.paragraphs(lambda words: f"<p>{words}\n") for _ in range(8)]
    target.together([target.upload("a.html", text) for text in texts])


def po(target: Target) -> None:
    """8 .po of 4 MB"""
    texts = [target.paragraphs(lambda words: f'msgid "{words}"\nmsgstr ""\n\n') for _ in range(8)]
    target.together([target.upload("a.po", text) for text in texts])


def lines_txt(target: Target) -> None:
    """8 .txt of 49,000 short lines"""
    rng = random.Random(1)
    texts = ["\n".join(target.words(rng, 2) for _ in range(49_000)).encode() for _ in range(8)]
    target.together([target.upload("a.txt", text) for text in texts])


def docx(text: str) -> bytes:
    """Return a Word document of one paragraph."""
    content = io.BytesIO()
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", CONTENT_TYPES)
        archive.writestr("_rels/.rels", RELATIONSHIPS)
        body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
        archive.writestr("word/document.xml", f"<w:document {space}>{body}</w:document>")
    return content.getvalue()


OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
CONTENT_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/word/document.xml" ContentType="{OFFICE}"/></Types>'
)
RELATIONSHIPS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def braces_docx(target: Target) -> None:
    """4 .docx of 8 KB with one paragraph of 8 million {"""
    target.together([target.upload("a.docx", docx("{" * 8_000_000 + "a"))] * 4)


def letters_docx(target: Target) -> None:
    """4 small .docx with one paragraph of 8 million letters"""
    target.together([target.upload("a.docx", docx("a " * 4_000_000))] * 4)


def percent_po(target: Target) -> None:
    """4 .po with one message of 4 million %"""
    content = b'msgid "' + b"%" * (FILE_BYTES - 100) + b'a"\nmsgstr ""\n'
    target.together([target.upload("a.po", content)] * 4)


def long_line_txt(target: Target) -> None:
    """4 .txt of one line of 4 million {"""
    target.together([target.upload("a.txt", b"{" * (FILE_BYTES - 100) + b"a")] * 4)


def chunks(target: Target) -> None:
    """20 bodies of 1.8 MB in chunks of one byte"""
    head = f"POST /translate HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    message = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + b"1\r\nx\r\n" * 300_000
    target.together([message] * 20)


def n_best(target: Target) -> None:
    """4 times 1,000 texts, 5 best with alignment"""
    rng = random.Random(2)
    messages = []
    for _ in range(4):
        texts = [target.words(rng, 4)[:20] for _ in range(1000)]
        fields = {"text": texts, "n_best": 5, "alignment": True}
        messages.append(v1(target, fields))
    target.together(messages)


def v1(target: Target, fields: dict[str, object]) -> bytes:
    """Return the bytes of a request to /v1/translate."""
    source, into = target.languages
    return request("/v1/translate", json.dumps({**fields, "source": source, "target": into}).encode())


def spans_html(target: Target) -> None:
    """4 HTML fragments of 20,000 characters of spans, with 4 alternatives"""
    source, into = target.languages
    rng = random.Random(3)
    messages = []
    for _ in range(4):
        text = "".join(f"<b>{word}</b> " for word in target.words(rng, 1500).split())[:19_990]
        fields = {"q": text, "source": source, "target": into, "format": "html", "alternatives": 4}
        messages.append(request("/translate", json.dumps(fields).encode()))
    target.together(messages)


def urls(target: Target) -> None:
    """4 texts of 20,000 characters of URLs and placeholders"""
    source, into = target.languages
    messages = []
    for place in range(4):
        text = " ".join(f"http://{place}.de/{i} {{a{i}}}" for i in range(1000))[:20_000]
        fields = {"q": text, "source": source, "target": into}
        messages.append(request("/translate", json.dumps(fields).encode()))
    target.together(messages)


def url_lines(target: Target) -> None:
    """4 times 1,000 lines, each with a URL"""
    source, into = target.languages
    messages = []
    for place in range(4):
        texts = [f"Hund x.de/{place}{i} www.a{i}.de"[:20] for i in range(1000)]
        fields = {"q": texts, "source": source, "target": into}
        messages.append(request("/translate", json.dumps(fields).encode()))
    target.together(messages)


def idle(target: Target) -> None:
    """1,060 idle connections"""
    target.begin()
    connections = []
    for _ in range(1060):
        connection = socket.socket()
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection.connect((HOST, target.port))
        connections.append(connection)
    time.sleep(10)
    for connection in connections:
        connection.close()


def open_close(target: Target) -> None:
    """20 threads that open and close connections"""

    def work(_: bytes) -> None:
        while not target.is_over:
            try:
                socket.create_connection((HOST, target.port), timeout=5).close()
            except OSError as error:
                target.answers[type(error).__name__] += 1

    target.together([b""] * 20, work)


def downloads(target: Target) -> None:
    """empty files without end, from 4 threads"""

    def work(message: bytes) -> None:
        while not target.is_over:
            target.send(message)

    target.together([target.upload("a.txt", b"\n")] * 4, work)


ATTACKS: tuple[Callable[[Target], None], ...] = (
    html_tags, html_plain, po, lines_txt, braces_docx, letters_docx, percent_po, long_line_txt, chunks, n_best,
    spans_html, urls, url_lines, idle, open_close, downloads,
)  # fmt: skip


# --- measuring --------------------------------------------------------------------------------------------


class Client:
    """Another client, which sends a request again and again, each over a new connection."""

    def __init__(self, port: int, messages: Iterator[bytes]) -> None:
        self.waits: list[float] = []
        self.failures: Answers = Counter()
        self._port = port
        self._messages = messages
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(PAUSE_SECONDS):
            began = time.monotonic()
            if (answer := ask(self._port, next(self._messages))) != "200":
                self.failures[answer] += 1
            self.waits.append(time.monotonic() - began)

    def __str__(self) -> str:
        failed = f", {sum(self.failures.values())} failed" if self.failures else ""
        return f"{statistics.median(self.waits):.2f} / {max(self.waits):.2f}{failed}"


def sentences(languages: Languages, words: Sequence[str]) -> Iterator[bytes]:
    """Yield requests to translate short texts, each of which is new to the server."""
    rng = random.Random(4)
    while True:
        yield translation(" ".join(rng.sample(words, 5)), languages)


def measured(port: int, languages: Languages, words: Sequence[str], during: Callable[[], None]) -> tuple[str, str]:
    """Return the delays of /health and of a short text while a function runs."""
    health = itertools.repeat(request("/health", method="GET"))
    with Client(port, health) as first, Client(port, sentences(languages, words)) as second:
        during()
    return str(first), str(second)


def run_attack(number: int, target: Target, answers: multiprocessing.SimpleQueue[Answers]) -> None:
    """Attack a server: the main function of the attacker's process, which shares no interpreter with the clients."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    ATTACKS[number](target)
    answers.put(target.answers)


def attacked(number: int, server: Server, languages: Languages, words: Sequence[str], seconds: float) -> list[object]:
    """Return the cells of a row of the table."""
    before = measured(server.port, languages, words, lambda: time.sleep(BASELINE_SECONDS))
    spawn = multiprocessing.get_context("spawn")
    prepared, beginning, ending = events = [spawn.Event() for _ in range(3)]
    answers = spawn.SimpleQueue()
    target = Target(server.port, languages, words, events)
    attacker = spawn.Process(target=run_attack, args=(number, target, answers), daemon=True)
    attacker.start()
    prepared.wait()

    sizes = [memory_mb(server.process.pid)]

    def attack() -> None:
        beginning.set()
        end = time.monotonic() + seconds
        while attacker.is_alive() and time.monotonic() < end:
            attacker.join(PAUSE_SECONDS)
            sizes.append(memory_mb(server.process.pid))
        ending.set()
        attacker.join(AFTER_SECONDS)
        attacker.terminate()
        time.sleep(AFTER_SECONDS)

    delays = measured(server.port, languages, words, attack)
    answered = "none in time" if answers.empty() else ", ".join(f"{n} x {what}" for what, n in answers.get().items())
    if not server.is_running():
        answered += "; the server ended"
    return [delays[0], before[0], delays[1], before[1], max(sizes), server.log.stat().st_size >> 10, answered]


def memory_mb(server: int) -> int:
    """Return the resident memory of a process and its children."""
    size = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            status = dict(line.split(":", 1) for line in path.read_text(encoding="utf-8").splitlines())
            if server in (int(status["Pid"]), int(status["PPid"])):
                size += int(status.get("VmRSS", "0").split()[0])
    return size >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--text", type=Path, default=Path("data/sample/train.de"), help="lines in the source language")
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--checkout", type=Path, default=Path())
    parser.add_argument("--only", default=",".join(attack.__name__ for attack in ATTACKS))
    parser.add_argument("--seconds", type=float, default=60.0, help="longest time of an attack")
    given = parser.parse_args()
    source, target = given.languages.split("-")
    words = sorted({*given.text.read_text(encoding="utf-8").split()})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))  # inherited by the server
    checkout = given.checkout.resolve()
    variables = {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(os.cpu_count())}
    print("attack | /health: median / longest | before | sentence | before | peak MB | log KB | answers", flush=True)
    for number, attack in enumerate(ATTACKS):
        if attack.__name__ not in given.only.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            command = [sys.executable, "-m", "nmt", "serve", "--port", port, "--run", given.run.resolve()]
            log = Path(folder) / "log"
            with serving(command, port, log, ready="/ready", variables=variables, cwd=checkout) as server:
                row = attacked(number, server, (source, target), words, given.seconds)
        print(attack.__doc__, *row, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
