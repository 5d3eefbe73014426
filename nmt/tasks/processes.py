"""Running tasks in this process, or in several processes of this machine."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

from nmt.console import say
from nmt.errors import MAX_ERROR_CHARS, error_text
from nmt.process import set_up_streams
from nmt.tasks.perform import Attempt, Done, Task, attempt, perform, remove_remains, run_on


class InProcess:
    """Runs tasks in this process, one after the other."""

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """Run the tasks that are not done yet; see `TaskRunner`."""
        remove_remains(work, tasks)
        for index, task in enumerate(tasks):
            done, problem = perform(work, task)
            if problem is not None:
                say(f"{problem}; retrying")
            yield index, done


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    n_cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(n_cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no such limit
        return n_cores


class Processes:
    """Runs tasks in processes on this machine, which live until it is closed."""

    def __init__(self, n_workers: int, gpus: Sequence[str] = ()) -> None:
        """`gpus`: values for CUDA_VISIBLE_DEVICES; each process gets one of them."""
        self._n_workers = n_workers
        self._gpus = gpus
        self._idle: list[_Process] = []
        self._busy: dict[_Process, int] = {}

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """Run the tasks that are not done yet; see `TaskRunner`. A single task runs in this process."""
        return InProcess().run(work, tasks) if len(tasks) == 1 else run_on(self, work, tasks)

    @property
    def is_free(self) -> bool:
        """Whether a worker is free."""
        return len(self._busy) < self._n_workers

    def start(self, index: int, work: Path, task: Task) -> None:
        """Start a task on a free worker."""
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

    def wait(self) -> list[tuple[int, Attempt]]:
        """Wait until a task has ended or been lost; return the attempts by index of the task."""
        ready = wait([process.connection for process in self._busy])
        ended: list[tuple[int, Attempt]] = []
        for process in [process for process in self._busy if process.connection in ready]:
            index = self._busy.pop(process)
            try:
                ended.append((index, process.connection.recv()))
                self._idle.append(process)
            except (EOFError, OSError):
                ended.append((index, Attempt(lost=process.cause_of_death())))
                process.end()
        return ended

    def end_busy(self) -> None:
        """End the workers that are running a task."""
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
        main = f"import sys; sys.path = {sys.path!r}; from nmt.tasks.processes import main; main({theirs.fileno()})"
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
        """Return why the process has ended; it has already closed its connection."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        status = self._process.returncode
        if status is not None and status < 0:
            return f"its process was killed ({signal.Signals(-status).name})"
        self._output.seek(0)
        end = self._output.read()[-MAX_ERROR_CHARS:].decode(errors="replace")
        return f"its process ended with status {status} ({error_text(end)})"


def main(descriptor: int) -> None:
    """Run the tasks that the main process sends, until the main process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the driver ends this one
    set_up_streams()  # and freed memory is returned: a worker is idle between stages
    connection = Connection(descriptor)
    requests = queue.SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
    while True:
        try:
            work, task = pickle.loads(requests.get())
        except Exception:  # a module that cannot be imported
            connection.send(Attempt(error=traceback.format_exc()))
        else:
            connection.send(attempt(work, task))


def _receive(connection: Connection, requests: queue.SimpleQueue[bytes]) -> None:
    """Read requests, and exit when the main process has ended, even in the middle of a task."""
    try:
        while True:
            requests.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)
