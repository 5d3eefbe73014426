"""Running tasks on a Ray cluster, whose nodes share the work folder.

Ray starts workers and reports lost ones. Which task is done again, where and how often, is decided here: with Ray's own
restarts, the actor of a removed node waits forever.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import nmt
from nmt.errors import ConfigError, DataError, error_text
from nmt.files.write import writing
from nmt.tasks.perform import Attempt, Done, Task, attempt, run_on

SEEN_SECONDS = 10.0
"""The longest time that a network file system may take to show a new file."""
CONNECT_SECONDS = 5.0
POLL_SECONDS = 5.0
"""The interval of checks that the nodes of all workers are alive."""
RAY_MISSING = "Ray is not installed; pip install 'ray>=2.50' installs it, and so does nmt-train[cluster]"
START = "start one with `ray start --head`, and name it with --address or RAY_ADDRESS"
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",  # on standard output, where translations go, Ray would report lost workers
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # or else it tries for minutes to reach a cluster that was killed
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def library() -> ModuleType:
    """Import the package ray. Raises ConfigError if it is not installed."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray  # optional
    except ImportError as error:
        raise ConfigError(RAY_MISSING) from error
    module: ModuleType = ray
    return module


def enter_node(version: str, folder: str) -> str | None:
    """Change to `folder` on this node. Return a problem if it does not exist, or nmt is not of the given version."""
    if nmt.__version__ != version:
        return f"has nmt {nmt.__version__}, but {version} is needed: install the same version"
    try:
        os.chdir(folder)
    except OSError:
        return f"has no folder {folder}: start nmt in a folder that all nodes share"
    return None


class _Actor:
    """A worker: a process in the cluster."""

    def enter(self, version: str, folder: str) -> tuple[str, str, str | None]:
        """Return the id and the name of the node and, if it cannot run tasks, the reason; see `enter_node`."""
        return library().get_runtime_context().get_node_id(), socket.gethostname(), enter_node(version, folder)

    def do(self, work: Path, task: Task, probe: Path, seconds: float) -> Attempt:
        """Run a task. `probe`: a file that must be visible within `seconds` on nodes that share the work folder."""
        end = time.monotonic() + seconds
        while not probe.exists():
            if time.monotonic() > end:
                node = f"node {socket.gethostname()} of the Ray cluster"
                return Attempt(error=DataError(f"{node} does not see {work}; all nodes must share this folder"))
            time.sleep(0.2)
        return attempt(work, task)


@dataclass(frozen=True)
class _Worker:
    actor: Any
    """Ray's handle of an `_Actor`."""
    node: str


class RayRunner:
    """Runs tasks on a Ray cluster. All nodes must see the work folder under the same name."""

    def __init__(self, n_workers: int | None, address: str | None, gpus: bool) -> None:
        """Connect to the cluster.

        Args:
            n_workers: number of workers; by default, one for each CPU of the cluster, or for each GPU if they use GPUs.
            address: address of the cluster; by default RAY_ADDRESS, or the cluster that runs on this machine.
            gpus: whether each worker gets a GPU, if the cluster has any.

        Raises ConfigError if there is no such cluster.
        """
        self._ray = library()
        self._connect(address or os.environ.get("RAY_ADDRESS") or "auto")
        resources = self._ray.cluster_resources()
        n_gpus = int(gpus and resources.get("GPU", 0) >= 1)
        self._n_workers = n_workers or max(1, int(resources.get("GPU" if n_gpus else "CPU", 0)))
        self._new_actor = self._ray.remote(
            num_cpus=1, num_gpus=n_gpus, max_restarts=0, max_task_retries=0
        )(_Actor).remote  # fmt: skip
        self._probe = Path()
        self._n_wanted = 0
        self._n_failed = 0  # workers that failed to start since the last one that started
        self._starting: dict[object, Any] = {}  # actors
        self._idle: list[_Worker] = []
        self._busy: dict[object, tuple[int, _Worker]] = {}

    def _connect(self, address: str) -> None:
        if address != "auto":
            _check_address(address)
        on_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            where = "on this machine" if address == "auto" else f"at {address}"
            raise ConfigError(f"--engine ray: no Ray cluster {where} ({error_text(error)}); {START}") from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, on_sigterm)  # Ray has set its own

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """Run the tasks that are not done yet; see `TaskRunner`.

        Raises DataError if a node does not see the work folder, or has another version of nmt.
        """
        work = work.resolve()
        self._n_wanted = min(self._n_workers, len(tasks))
        self._probe = work / f".probe-{secrets.token_hex(8)}"
        with writing(work):
            work.mkdir(parents=True, exist_ok=True)
            for old in work.glob(".probe-*"):  # left by a driver that was killed
                old.unlink(missing_ok=True)
            self._probe.touch()
        try:
            yield from run_on(self, work, tasks)
        finally:
            self._probe.unlink(missing_ok=True)

    @property
    def is_free(self) -> bool:
        """Whether a worker is free."""
        return bool(self._idle)

    def start(self, index: int, work: Path, task: Task) -> None:
        """Start a task on a free worker."""
        worker = self._idle.pop()
        self._busy[worker.actor.do.remote(work, task, self._probe, SEEN_SECONDS)] = index, worker

    def wait(self) -> list[tuple[int, Attempt]]:
        """Wait until a task has ended or been lost, or a worker has started; return the attempts by index of the
        task."""
        while len(self._starting) + len(self._idle) + len(self._busy) < self._n_wanted:
            actor = self._new_actor()
            self._starting[actor.enter.remote(nmt.__version__, str(Path.cwd()))] = actor
        pending = [*self._starting, *self._busy]
        if not ready_among(self._ray, pending, 1, POLL_SECONDS):
            return self._lost_unnoticed()
        ready = ready_among(self._ray, pending, len(pending), 0)
        for reference in ready:
            if reference in self._starting:
                self._collect_started(reference)
        return [self._ended(reference) for reference in ready if reference in self._busy]

    def _collect_started(self, reference: object) -> None:
        actor = self._starting.pop(reference)
        try:
            node, name, problem = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._n_failed += 1
            if self._n_failed > 2 * self._n_workers:
                raise DataError(f"workers cannot be started on the Ray cluster: {error_text(error)}") from error
            return
        if problem is not None:
            self._ray.kill(actor)
            raise DataError(f"node {name} of the Ray cluster {problem}")
        self._idle.append(_Worker(actor, node))
        self._n_failed = 0

    def _ended(self, reference: object) -> tuple[int, Attempt]:
        index, worker = self._busy.pop(reference)
        errors = self._ray.exceptions
        try:
            outcome: Attempt = self._ray.get(reference)
        except errors.RayTaskError as error:  # its arguments or its result could not be sent
            return index, Attempt(error=str(error))
        except errors.RayError as error:
            self._ray.kill(worker.actor)
            alive = self._alive()
            self._idle = [other for other in self._idle if other.node in alive]
            what = "ran out of memory" if isinstance(error, errors.OutOfMemoryError) else "has died"
            return index, Attempt(lost=f"its worker on node {alive.get(worker.node, '(removed)')} {what}")
        self._idle.append(worker)
        return index, outcome

    def _lost_unnoticed(self) -> list[tuple[int, Attempt]]:
        """Return the tasks whose nodes disappeared without an error. Raises DataError if no node is left."""
        alive = self._alive()
        lost = [reference for reference, (_, worker) in self._busy.items() if worker.node not in alive]
        if not self._busy and not alive:
            raise DataError(
                "no node with CPUs is left in the Ray cluster; add one and run the command again; finished work is in "
                f"{self._probe.parent}"
            )
        return [(self._busy.pop(reference)[0], Attempt(lost="its node was removed")) for reference in lost]

    def _alive(self) -> dict[str, str]:
        """Return the host names of the nodes with CPUs, by the ids of the nodes."""
        nodes = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        return {node["NodeID"]: node["NodeManagerHostname"] for node in nodes}

    def end_busy(self) -> None:
        """End the workers that are running a task."""
        for _, worker in self._busy.values():
            self._ray.kill(worker.actor)
        self._busy.clear()

    def close(self) -> None:
        """End all workers, and close the connection."""
        self._ray.shutdown()


def ready_among(ray: ModuleType, references: Sequence[object], n: int, seconds: float) -> list[object]:
    """Wait for `n` results, for at most `seconds`, and return the references of all results that are ready."""
    try:
        ready: list[object] = ray.wait(references, num_returns=n, timeout=seconds)[0] if references else []
    except SystemError as error:  # raised by Ray in place of the exception of a signal handler
        raise (error.__cause__ or error) from None
    return ready


def _check_address(address: str) -> None:
    """Raise ConfigError if no server responds at an address: Ray would retry for a long time."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise ConfigError(f"--address: must be HOST:PORT, such as 10.0.0.1:6379, found {address}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--engine ray: no Ray cluster at {address} ({error_text(error)}); {START}") from error
