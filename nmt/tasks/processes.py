"""Run tasks in several processes of this machine."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

from nmt.errors import MAX_ERROR_CHARS, error_text
from nmt.tasks.attempts import Lost, Outcome, run_on
from nmt.tasks.in_process import InProcess
from nmt.tasks.task import Done, Task

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    n_cores = len(os.sched_getaffinity(0))
    if sys.version_info >= (3, 13):
        n_cores = os.process_cpu_count() or n_cores  # also -X cpu_count
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(n_cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no such limit
        return n_cores


class Processes:
    """Runs tasks in processes of this machine, which live until it is closed."""

    def __init__(self, n_workers: int, gpus: Sequence[str] = ()) -> None:
        """`gpus`: names of GPUs for CUDA_VISIBLE_DEVICES, of which each process gets one."""
        self._n_workers, self._gpus = n_workers, gpus
        self._idle: list[_Process] = []
        self._busy: dict[_Process, int] = {}

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """See `Engine`. A single task is done in this process."""
        return InProcess().run(work, tasks) if len(tasks) == 1 else run_on(self, work, tasks)

    @property
    def is_free(self) -> bool:
        """See `Workers`."""
        return len(self._busy) < self._n_workers

    def start(self, index: int, work: Path, task: Task) -> None:
        """See `Workers`."""
        request = pickle.dumps((work, task))
        while self._idle and not self._idle[-1].is_alive:
            self._idle.pop().end()
        process = self._idle.pop() if self._idle else self._new_process()
        self._busy[process] = index
        with suppress(OSError):  # it has died, as `wait` will find
            process.connection.send_bytes(request)

    def _new_process(self) -> _Process:
        environment = dict.fromkeys(_THREADS, str(max(1, usable_cores() // self._n_workers)))
        if self._gpus:
            taken = [process.gpu for process in self._busy]
            environment["CUDA_VISIBLE_DEVICES"] = min(self._gpus, key=taken.count)
        return _Process(environment)

    def wait(self) -> list[tuple[int, Outcome | Lost]]:
        """See `Workers`."""
        ready = wait([process.connection for process in self._busy])
        ended: list[tuple[int, Outcome | Lost]] = []
        for process in [process for process in self._busy if process.connection in ready]:
            outcome: Outcome | Lost
            try:
                outcome = process.connection.recv()
                self._idle.append(process)
            except (EOFError, OSError):
                outcome = Lost(process.cause_of_death())
                process.end()
            ended.append((self._busy.pop(process), outcome))
        return ended

    def end_busy(self) -> None:
        """See `Workers`."""
        for process in self._busy:
            process.end()
        self._busy.clear()

    def close(self) -> None:
        """End all processes."""
        self.end_busy()
        for process in self._idle:
            process.end()
        self._idle.clear()


class _Process:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.gpu = environment.get("CUDA_VISIBLE_DEVICES")
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (open until the process ends)
        # not multiprocessing, which imports the driver's main module, and cannot set the environment
        main = f"import sys; sys.path = {sys.path!r}; from nmt.tasks.worker import main; main({theirs.fileno()})"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", main],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                env={**os.environ, **environment},
            )
        self.connection = Connection(ours.detach())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self.connection.close()
        self._output.close()

    def cause_of_death(self) -> str:
        """Return how the process, which has closed its connection, has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        status = self._process.returncode
        if status is not None and status < 0:
            return f"its process was killed ({signal.Signals(-status).name})"
        self._output.seek(0)
        end = self._output.read()[-MAX_ERROR_CHARS:].decode(errors="replace")
        return f"its process ended with status {status} ({error_text(end)})"
