"""Run `nmt` commands as subprocesses, a limited number at a time; a request to stop is forwarded to them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nmt.errors import StoppedError
from nmt.files.read import open_own
from nmt.process import Stop

POLL = 0.1  # seconds
PATIENCE = 20.0  # seconds from the interrupt to the kill
STOPPED = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 129, 130, 143, StoppedError.exit_status}
"""Exit statuses of a command that was stopped: while starting, in `nmt prepare`, and in `nmt train`."""


@dataclass(frozen=True)
class Job:
    """A command of `nmt`."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    """Its output is appended to this file."""


@dataclass(frozen=True)
class Ended:
    """The outcome of a command."""

    status: int
    """Its exit status; minus the number of the signal that killed it."""
    message: str
    """The last line of its output; empty on success."""

    @property
    def has_failed(self) -> bool:
        """Whether it ended in an error: neither successfully nor because it was stopped."""
        return self.status != 0 and self.status not in STOPPED


@dataclass
class _Running:
    job: Job
    slot: Mapping[str, str]
    process: subprocess.Popen[bytes]
    log_start: int
    """Byte offset of its output in the log."""


@dataclass
class Jobs:
    """A pool that runs jobs in slots: one at a time in each, with the environment variables of the slot."""

    slots: Sequence[Mapping[str, str]]
    environment: Mapping[str, str]
    stop: Stop
    report: Callable[[Job, Ended | None], None]
    """Called when a job starts, with None, and when it has ended."""
    watch: Callable[[Sequence[Job]], None]
    """Called repeatedly with the running jobs."""
    _running: list[_Running] = field(default_factory=list)

    def run(self, jobs: Sequence[Job]) -> dict[str, Ended]:
        """Run the jobs; returns the outcome by name, without jobs that a request to stop left unstarted."""
        waiting, free = list(reversed(jobs)), list(reversed(self.slots))
        ended: dict[str, Ended] = {}
        is_stopping = False
        try:
            while self._running or (waiting and self.stop.reason is None):
                while waiting and free and self.stop.reason is None:
                    self._start(waiting.pop(), free.pop())
                if self.stop.reason is not None and not is_stopping:
                    is_stopping = True
                    self._signal(signal.SIGTERM)
                time.sleep(POLL)
                for running in [running for running in self._running if running.process.poll() is not None]:
                    self._running.remove(running)
                    free.append(running.slot)
                    ended[running.job.name] = _end_of(running)
                    self.report(running.job, ended[running.job.name])
                self.watch([running.job for running in self._running])
        finally:
            self._end()
        return ended

    def _start(self, job: Job, slot: Mapping[str, str]) -> None:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_own(job.log, os.O_APPEND), "ab") as log:
            log.write(f"$ nmt {shlex.join(job.arguments)}\n".encode())
            log.flush()
            start = log.tell()
            process = subprocess.Popen(
                [sys.executable, "-m", "nmt", *job.arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**self.environment, **slot},
            )  # fmt: skip
        self._running.append(_Running(job, slot, process, start))
        self.report(job, None)

    def _signal(self, number: signal.Signals) -> None:
        for running in self._running:
            with suppress(ProcessLookupError):
                running.process.send_signal(number)

    def _end(self) -> None:
        """End all processes; there are some left only after a second Ctrl-C or an error here."""
        self._signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        for running in self._running:
            try:
                running.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()


def _end_of(running: _Running) -> Ended:
    status = running.process.returncode
    with running.job.log.open("rb") as log:
        log.seek(running.log_start)
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    if status == 0:
        return Ended(status, "")
    if status < 0:
        return Ended(status, f"killed by signal {-status}, {signal.strsignal(-status)}")
    return Ended(status, lines[-1].removeprefix("nmt: ") if lines else f"ended with status {status}")
