"""Run fault-injection tests against `nmt serve`, and print what its clients see.

    python -m scripts.checks.serve_faults --run RUN [--quick] [--engine ENGINE] [CASE ...]     # all cases by default

Each case starts a server of its own on the loopback interface. A case fails if a client that did nothing wrong gets
anything but its translation, if an answer is neither HTTP nor JSON where JSON is due, if the server's log has text of a
request or a traceback, if the server does not answer afterwards, or if it takes longer than --seconds. The exit status
is the number of cases that failed. --quick: a hundredth of the requests, in some minutes; without it there are a
hundred thousand of them. Progress is written to standard error. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from nmt.cli.exits import user_errors
from nmt.runs.model import open_saved
from scripts.bench.install import FailedError
from scripts.bench.load import Answer, Connection, translation
from scripts.bench.server import Server, free_port, serving

TEXT = "Der Hund schläft."
SECRET = "Geheimnis"
"""In every text that a case sends, but not in a log."""


class Seen(NamedTuple):
    """What a case has shown."""

    what: str
    """What the clients saw."""
    is_good: bool


class OverdueError(KeyboardInterrupt):
    """A case took too long. asyncio lets no other kind of exception out of whatever task it is raised in."""


class Faults:
    """What the cases share: the run and how to serve it."""

    def __init__(self, run: Path, engine: str, is_quick: bool, folder: Path) -> None:
        """folder: for logs. Raises CheckpointError or DataError."""
        self.run, self.engine, self.is_quick, self.folder = run, engine, is_quick, folder
        data = open_saved(run).config.data
        self.languages = data.src, data.tgt

    def n(self, full: int) -> int:
        """Return how often something is done."""
        return max(1, full // 100) if self.is_quick else full

    def progress(self, line: str) -> None:
        """Tell on standard error how far a case is."""
        print(f"  {line}", file=sys.stderr, flush=True)

    @contextmanager
    def serving(self, *options: object, module: str = "nmt") -> Iterator[Server]:
        """Start a server with these options."""
        port = free_port()
        words = ["serve", "--run", self.run.resolve(), "--engine", self.engine, "--port", port, *options]
        log = self.folder / f"{len([*self.folder.iterdir()])}.log"
        command = [sys.executable, "-m", module, *words]
        with serving(command, port, log, ready="/ready", variables={}) as server:
            yield server

    def request(self, text: str = TEXT) -> bytes:
        """Return the bytes of a request to translate a text, which has the secret in it."""
        return translation(f"{text} {SECRET}", self.languages)

    async def ask(self, port: int, text: str = TEXT) -> Answer:
        """Translate a text over a connection of its own. Raises OSError or EOFError."""
        connection = Connection(port)
        try:
            return await connection.send(self.request(text))
        finally:
            await connection.close()

    def wait(self, server: Server) -> tuple[bool, float]:
        """Ask as a client that does nothing wrong: whether it gets a translation, and after how many seconds.

        It asks again after 503, as such a client does.
        """
        began = time.monotonic()
        while True:
            try:
                answer = asyncio.run(asyncio.wait_for(self.ask(server.port), 60))
            except (OSError, EOFError, TimeoutError):
                return False, time.monotonic() - began
            if answer.status != 503 or time.monotonic() > began + 60:
                return answer.status == 200 and answer.text is not None, time.monotonic() - began
            time.sleep(0.2)


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


def clean_log(path: Path) -> list[str]:
    """Return what should not be in a log."""
    log = path.read_text(encoding="utf-8", errors="replace")
    return [word for word in (SECRET, "Traceback") if word in log]


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise OverdueError in the block after so many seconds."""

    def end(_: int, __: FrameType | None) -> None:
        raise OverdueError(f"ended after {seconds} s, the limit of --seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_case(faults: Faults, name: str, seconds: int) -> bool:
    """Run a case and print its row; returns whether it was good."""
    from scripts.checks.serve_faults_cases import CASES

    began, before = time.monotonic(), {*faults.folder.iterdir()}
    faults.progress(name)
    try:
        with limited(seconds):
            seen = CASES[name](faults)
    except (FailedError, OverdueError) as error:
        seen = Seen(str(error), False)
    found = sorted({word for log in {*faults.folder.iterdir()} - before for word in clean_log(log)})
    is_good = seen.is_good and not found
    what = seen.what + (f"; in the log: {', '.join(found)}" if found else "")
    print(f"| {name} | {what} | {time.monotonic() - began:.0f} s | {'ok' if is_good else 'FAILED'} |", flush=True)
    return is_good


def main() -> int:
    """Run the cases and print the table."""
    from scripts.checks.serve_faults_cases import CASES

    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--run", type=Path, required=True, help="run directory")
    parser.add_argument("--engine", default="auto", help="of nmt serve; default: auto")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the requests")
    parser.add_argument("--seconds", type=int, default=1800, help="for each case; default: 1800")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    with user_errors(), tempfile.TemporaryDirectory() as folder:
        faults = Faults(options.run, options.engine, options.quick, Path(folder))
        print("| case | what clients see | took | |\n|---|---|---|---|")
        return sum(not run_case(faults, name, options.seconds) for name in options.cases or CASES)


if __name__ == "__main__":
    sys.exit(main())
