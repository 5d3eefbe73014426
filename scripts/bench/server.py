"""A server in a separate process on the loopback interface."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.bench.install import FailedError
from scripts.bench.load import HOST

TICK = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


class Server:
    """A server that runs, with the processes that it has started."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path, seconds_to_ready: float) -> None:
        self.process, self.port, self.log, self.seconds_to_ready = process, port, log, seconds_to_ready

    def processes(self) -> list[int]:
        """The process ids: its own first."""
        found, waiting = [], [self.process.pid]
        while waiting:
            found.append(pid := waiting.pop())
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += map(int, children.read_text(encoding="ascii").split())
        return found

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""
        return sum(_cpu_ticks(pid) for pid in self.processes()) / TICK

    def memory_mb(self) -> float:
        """Resident memory that its processes share with no file."""
        return sum(_anonymous_kb(pid) for pid in self.processes()) / 1024

    def is_running(self) -> bool:
        """Whether its own process is there."""
        return self.process.poll() is None


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0
    return int(fields[11]) + int(fields[12])


def _anonymous_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))


@contextmanager
def serving(
    command: Sequence[object],
    port: int,
    log: Path,
    *,
    ready: str,
    variables: Mapping[str, str],
    cwd: Path | None = None,
    seconds: float = 120,
) -> Iterator[Server]:
    """Start a server, wait until GET `ready` is answered with 200, and end it with the block.

    Raises FailedError if it ends before that or takes longer.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*map(str, command)], env={**os.environ, **variables}, cwd=cwd, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        while not answers(port, ready):
            if process.poll() is not None:
                raise FailedError(f"the server ended with status {process.returncode}: {log}")
            if time.monotonic() > began + seconds:
                raise FailedError(f"the server was not ready after {seconds:g} seconds: {log}")
            time.sleep(0.1)
        yield Server(process, port, log, time.monotonic() - began)
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port: int, path: str) -> bool:
    """Whether GET `path` is answered with 200."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False
