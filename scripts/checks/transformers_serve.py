"""Does `nmt translate --teacher-url` work with `transformers serve`, a server that was not written for it?

    python -m scripts.checks.transformers_serve SERVE_COMMAND

SERVE_COMMAND starts the server, such as "/tmp/venv/bin/transformers serve", from an environment of its own
(`pip install 'transformers[serving]'`). It gets a model with tiny random weights and works offline. nmt reaches it
through a relay, which copies all bytes and notes the requests. Made-up lines are translated

- unchecked: nmt is killed by SIGKILL after some answers, repeated until --max-tokens stops it, and repeated until it
  ends; no line may be asked for whose answer was kept, and the tokens must be those that the server reports;
- unchecked, with five lines per request: as the answers are random, each line must then be asked for alone;
- checked: nearly all answers must be rejected, with a reason for each blank line.

Prints figures; the exit status is 1 if anything is wrong. Takes a minute.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
import socketserver
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

from scripts.bench.load import HOST
from scripts.bench.server import free_port, serving

N_LINES = 50
N_KEPT = 10
"""Number of answers after which nmt is killed."""
MOST_TOKENS = 5000
"""Number of tokens, read and written, after which nmt stops: those of half of the lines."""
PARALLEL = 4
TOGETHER = 5
"""Lines per request."""
TIMEOUT_SECONDS = 60.0
"""Seconds after which a request to the model's server is given up."""
ANSWER_TOKENS = 64
"""Number of tokens of an answer: random weights hardly ever end one."""
REJECTED_SHARE = 0.9
"""Least share of lines that must be rejected if they are checked."""
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def made_up_lines() -> list[str]:
    """Return different lines."""
    parts = (
        ["Der Hund", "Die Katze", "Eine Frau", "Mein Nachbar", "Das Kind"],
        ["sieht", "sucht", "vergisst", "zeichnet"],
        ["heute einen Ball.", "im Garten einen Baum.", "am Abend das alte Haus."],
    )
    return [*islice(map(" ".join, product(*parts)), N_LINES)]


def make_model(folder: Path, lines: Sequence[str]) -> None:
    """Write a language model with random weights, and a tokenizer that is trained on the lines."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = byte_level
    pieces.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|user|>", "<|assistant|>", "<|end|>"],
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    pieces.train_from_iterator(lines, trainer)
    tokenizer: Any = transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, eos_token="<|end|>", pad_token="<|end|>", chat_template=TEMPLATE
    )
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=4096,
        initializer_range=0.3,  # with the usual 0.02, all lines have the same answer
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model: Any = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Exchange(NamedTuple):
    """A request and its response."""

    request: bytes
    response: bytes
    began: float
    ended: float

    @property
    def lines(self) -> list[str]:
        """The lines that are asked for."""
        prompt = json.loads(self.request.partition(b"\r\n\r\n")[2])["messages"][0]["content"]
        block = prompt.partition("Text:\n")[2].partition("\n\n")[0]
        return [re.sub(r"^\d+: ", "", line) for line in block.splitlines()]

    @property
    def tokens(self) -> tuple[int, int]:
        """The numbers of tokens read and written, as the server reports them."""
        usage = json.loads(self.response.partition(b"\r\n\r\n")[2])["usage"]
        return usage["prompt_tokens"], usage["completion_tokens"]


class Relay(socketserver.ThreadingTCPServer):
    """A server that passes the bytes of each connection, which has one request, to the model's server and back."""

    daemon_threads = True

    def __init__(self, target: int) -> None:
        """target: the port of the model's server."""
        super().__init__((HOST, 0), _Passing)
        self.target = target
        self.lock = threading.Lock()
        self.exchanges = list[Exchange]()
        self.n_running = self.most_running = 0

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://{HOST}:{self.server_address[1]}/v1"

    def taken(self) -> tuple[list[Exchange], int]:
        """Wait until no request is under way; return the exchanges since the last call, and the largest number of
        requests at once."""
        while self.n_running:
            time.sleep(0.05)
        with self.lock:
            exchanges, most = self.exchanges, self.most_running
            self.exchanges, self.most_running = [], 0
        return exchanges, most


class _Passing(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        relay = self.server
        sent = whole_message(self.request)
        if not sent:  # the client was killed before it has sent all
            return
        began = time.monotonic()
        with relay.lock:
            relay.n_running += 1
            relay.most_running = max(relay.most_running, relay.n_running)
        with socket.create_connection((HOST, relay.target), timeout=TIMEOUT_SECONDS) as upstream:
            upstream.sendall(sent)
            received = whole_message(upstream)
        with relay.lock:
            relay.n_running -= 1
            relay.exchanges.append(Exchange(sent, received, began, time.monotonic()))
        with suppress(ConnectionError):  # the client was killed
            self.request.sendall(received)


def whole_message(connection: socket.socket) -> bytes:
    """Receive a request or response, which must say its length; return nothing if the connection ends before."""
    message = b""
    while block := connection.recv(1 << 16):
        message += block
        head, separator, body = message.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if separator and length is not None and len(body) >= int(length[1]):
            return message
    return b""


@contextmanager
def relaying(target: int) -> Iterator[Relay]:
    """Relay to a port until the block ends."""
    with Relay(target) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield relay
        relay.shutdown()


class Done(NamedTuple):
    """The outcome of a command, and the requests that it has sent."""

    status: int
    messages: str
    exchanges: list[Exchange]
    n_at_once: int
    """The largest number of requests at once."""
    seconds: float

    @property
    def asked(self) -> Counter[str]:
        """How often each line was asked for."""
        return Counter(line for exchange in self.exchanges for line in exchange.lines)

    @property
    def tokens(self) -> tuple[int, int]:
        """The numbers of tokens read and written, as the server reports them."""
        pairs = [exchange.tokens for exchange in self.exchanges]
        return sum(read for read, _ in pairs), sum(written for _, written in pairs)

    def __str__(self) -> str:
        """Return the figures."""
        asking = max(exchange.ended for exchange in self.exchanges) - min(exchange.began for exchange in self.exchanges)
        read, written = self.tokens
        return (
            f"{len(self.exchanges)} requests, at most {self.n_at_once} at once, in {asking:.1f} of {self.seconds:.1f} "
            f"s; {read:,} tokens read and {written:,} written"
        )


class Check:
    """The translations of the same lines, and what is wrong with them."""

    def __init__(self, folder: Path, model: Path, relay: Relay, lines: Sequence[str]) -> None:
        """folder: where the files are written; model: the name of the model on the server."""
        self._folder, self._model, self._relay, self._lines = folder, model, relay, lines
        (folder / "text.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        cut_off: dict[str, object] = {"max_tokens": ANSWER_TOKENS}
        for name, fields in (("cut_off", cut_off), ("ended", {**cut_off, "stop": ["z"]})):
            (folder / f"{name}.json").write_text(json.dumps(fields), encoding="utf-8")
        self.problems = list[str]()

    def killed_and_continued(self) -> None:
        """Kill nmt after some answers, stop it by a limit, and let it end."""
        killed = self._done("one.en", "--unchecked", kill_after=N_KEPT)
        kept = answers_in(self._folder / "one.en.work")
        print(f"killed: {len(kept)} answers are kept of {killed}")
        self._expect(killed.status == -9, f"it was not killed: {killed.messages}")
        # the last responses may not have reached it
        self._expect(N_KEPT - PARALLEL <= len(kept) < N_LINES, "the answers that had come were not kept")

        stopped = self._done("one.en", "--unchecked", "--max-tokens", MOST_TOKENS)
        print(f"stopped by --max-tokens {MOST_TOKENS:,}: {stopped}")
        self._expect(stopped.status == 75 and "--max-tokens" in stopped.messages, stopped.messages)
        counted = answers_in(self._folder / "one.en.work")
        reported = {exchange.lines[0]: exchange.tokens for exchange in (*killed.exchanges, *stopped.exchanges)}
        self._expect(counted == {line: reported[line] for line in counted}, "the tokens are not those of the server")
        self._expect(counted.keys() == kept.keys() | stopped.asked.keys(), "answers of the stopped command are lost")
        total = sum(map(sum, counted.values()))
        print(f"  counted as the server does: {total:,} tokens of {len(counted)} answers")
        self._expect(total >= MOST_TOKENS, "it was stopped too early")

        ended = self._done("one.en", "--unchecked")
        print(f"continued to the end: {ended}")
        self._expect_end("one.en", ended)
        later = stopped.asked + ended.asked
        self._expect(not later.keys() & kept.keys(), "a line was asked for again after the kill")
        self._expect(set(later.values()) == {1}, f"asked for again: {later.most_common(3)}")
        self._expect(later.keys() | kept.keys() == {*self._lines}, "lines were not asked for")
        self._expect(stopped.n_at_once == PARALLEL, f"{stopped.n_at_once} requests at once")

    def several_lines(self) -> None:
        """Ask for several lines at once, and then for each alone."""
        done = self._done("several.en", "--unchecked", "--lines-per-request", TOGETHER)
        sizes = Counter(len(exchange.lines) for exchange in done.exchanges)
        print(f"{TOGETHER} lines per request: {done}; {sizes[TOGETHER]} for {TOGETHER} lines and {sizes[1]} for one")
        self._expect_end("several.en", done)
        self._expect(sizes == {TOGETHER: N_LINES // TOGETHER, 1: N_LINES}, f"sizes of requests: {sizes}")
        self._expect(done.asked == dict.fromkeys(self._lines, 2), "not each line was asked for twice")

    def checked(self) -> None:
        """Reject answers."""
        done = self._done("checked.en", request="ended.json")
        print(f"checked: {done}")
        self._expect_end("checked.en", done)
        reasons = {reason: int(n) for n, reason in re.findall(r"(\d+) lines? blank: (.*)", done.messages)}
        print(*(f"  {n} lines {reason}" for reason, n in reasons.items()), sep="\n")
        n_blank = rows_of(self._folder / "checked.en").count("")
        n_rejected = len(rows_of(self._folder / "checked.en.rejected.tsv"))
        self._expect(
            n_blank == n_rejected == sum(reasons.values()), f"{n_blank} lines are blank, {n_rejected} rejected"
        )
        self._expect(n_blank >= REJECTED_SHARE * N_LINES, f"only {n_blank} lines are blank")
        self._expect(done.asked.keys() == {*self._lines} and max(done.asked.values()) == 2, "asked for other lines")

    def _done(self, output: str, *options: object, request: str = "cut_off.json", kill_after: int = N_LINES**2) -> Done:
        """Translate the lines. request: a file with the fields of each request; kill_after: the number of responses
        after which nmt is killed."""
        words = ["translate", "--from", "de", "--to", "en", "--input", "text.de", "--output", output]
        words += ["--teacher-url", self._relay.url, "--teacher-model", str(self._model)]
        words += ["--request", request, "--parallel", str(PARALLEL), *map(str, options)]
        began = time.monotonic()
        with (self._folder / "messages").open("w+", encoding="utf-8") as messages:
            command = [sys.executable, "-m", "nmt", *words]
            child = subprocess.Popen(command, cwd=self._folder, stderr=messages)
            while child.poll() is None:
                time.sleep(0.005)
                if len(self._relay.exchanges) >= kill_after:
                    child.kill()
            seconds = time.monotonic() - began
            messages.seek(0)
            return Done(child.returncode, messages.read(), *self._relay.taken(), seconds)

    def _expect_end(self, output: str, done: Done) -> None:
        """Expect a translation that is complete."""
        self._expect(done.status == 0, f"{output}: status {done.status}: {done.messages}")
        self._expect(len(rows_of(self._folder / output)) == N_LINES, f"{output}: another number of lines")
        self._expect(not (self._folder / f"{output}.work").exists(), f"{output}.work was left")

    def _expect(self, is_so: bool, problem: str) -> None:
        if not is_so:
            self.problems.append(problem)


def answers_in(work: Path) -> dict[str, tuple[int, int]]:
    """Return the numbers of tokens read and written for each line whose answer is kept."""
    with closing(sqlite3.connect(work / "answers.db")) as file:
        return {
            line: (read, written) for line, read, written in file.execute("SELECT line, read, written FROM answers")
        }


def rows_of(file: Path) -> list[str]:
    """Return the lines of a file; none if it does not exist."""
    return file.read_text(encoding="utf-8").split("\n")[:-1] if file.is_file() else []


def main(arguments: Sequence[str]) -> None:
    """Print the figures; exit with status 1 if anything is wrong."""
    [serve] = arguments
    lines = made_up_lines()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model"
        make_model(model, lines)
        port = free_port()
        command = [*shlex.split(serve), "--host", HOST, "--port", port, "--device", "cpu"]
        variables = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
        with (
            serving(command, port, folder / "log", ready="/health", variables=variables) as server,
            relaying(port) as relay,
        ):
            print(f"the server answers after {server.seconds_to_ready:.1f} s")
            check = Check(folder, model, relay, lines)
            check.killed_and_continued()
            check.several_lines()
            check.checked()
    if check.problems:
        sys.exit("\n".join(check.problems))
    print("all is as expected")


if __name__ == "__main__":
    main(sys.argv[1:])
