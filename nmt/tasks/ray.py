"""Run tasks on a Ray cluster, whose nodes are checked before they do any work.

Ray starts workers and reports lost ones. Which task is done again, where and how often, is decided here: with Ray's own
restarts the actor of a removed node waits for ever.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import nmt
from nmt.errors import ConfigError, DataError, error_text
from nmt.files.write import writing
from nmt.tasks.perform import Done, Task
from nmt.tasks.processes import Lost, Outcome, attempt, run_on

ANSWER_SECONDS = 120.0
SEEN_SECONDS = 10.0
"""A network file system may show a new file late."""


def check_nodes(ray: ModuleType, probe: Path) -> None:
    """Raise DataError, which names the node, unless all nodes with CPUs can take part.

    probe: a file in the folder of work.
    """

    # a local function, which is sent as code: the node might not have nmt
    def describe(probe: str, folder: str, seconds: float) -> tuple[str | None, str, bool, bool]:
        import os
        import platform
        import time

        try:
            import nmt

            version = nmt.__version__
        except ImportError:
            version = None
        end = time.monotonic() + seconds
        while not os.path.exists(probe) and time.monotonic() < end:  # noqa: PTH110
            time.sleep(0.2)
        return version, platform.python_version(), os.path.exists(probe), os.path.isdir(folder)  # noqa: PTH110, PTH112

    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    remote = ray.remote(num_cpus=0, max_retries=0)(describe)
    asked = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            on_node = remote.options(scheduling_strategy=strategy(node["NodeID"], soft=False))
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
            asked[on_node.remote(str(probe), str(Path.cwd()), SEEN_SECONDS)] = name
    ready, silent = wait_for(ray, [*asked], len(asked), ANSWER_SECONDS)
    if silent:
        raise DataError(f"node {asked[silent[0]]} of the Ray cluster does not answer for {ANSWER_SECONDS:.0f} s")
    for reference in ready:
        try:
            found = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            raise DataError(f"node {asked[reference]} of the Ray cluster: {error_text(error)}") from error
        except ray.exceptions.RayError:
            continue  # it has been removed
        if problem := node_problem(probe.parent, *found):
            raise DataError(f"node {asked[reference]} of the Ray cluster {problem}")


def wait_for(
    ray: ModuleType, references: Sequence[object], n: int, seconds: float
) -> tuple[list[object], list[object]]:
    """Wait for `n` results, or until the time is up; return the references of finished and of pending tasks."""
    if not references:
        return [], []
    try:
        ready, others = ray.wait(references, num_returns=n, timeout=seconds)
    except SystemError as error:  # what a handler of signals has raised, but for KeyboardInterrupt
        raise (error.__cause__ or error) from None
    return ready, others


def node_problem(work: Path, version: str | None, python: str, sees_work: bool, sees_folder: bool) -> str | None:
    """Return why a node cannot take part, if it cannot.

    version: of nmt there, None if it is not installed. python: its version. sees_folder: whether there is the folder in
    which nmt was started here.
    """
    here = ".".join(platform.python_version_tuple()[:2])
    if version != nmt.__version__:
        found = "has no nmt" if version is None else f"has nmt {version}"
        return f"{found}, here it is {nmt.__version__}: install the same"
    if python.rpartition(".")[0] != here:
        return f"has Python {python}, here it is {here}: install the same"
    if not sees_work:
        return f"does not see {work}: all nodes need the same folder there"
    if not sees_folder:
        return f"has no folder {Path.cwd()}: start nmt in a folder that all nodes share"
    return None


INSTALL = "Ray is not installed; pip install 'ray>=2.50' installs it, and so does nmt's extra cluster"
START = "start one with `ray start --head`, and name it with --address or RAY_ADDRESS"
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",  # on standard output, where translations go, Ray would report lost workers
    "RAY_NUM_REDIS_GET_RETRIES": "1",  # or else it tries for minutes to reach a cluster that was killed
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
CONNECT_SECONDS = 5.0
POLL_SECONDS = 5.0
"""How often it is looked whether the nodes of all workers are alive."""


def library() -> ModuleType:
    """Import the package ray. Raises ConfigError if it is not installed."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray  # optional
    except ImportError as error:
        raise ConfigError([INSTALL]) from error
    module: ModuleType = ray
    return module


class _Actor:
    """A worker: a process of the cluster."""

    def __init__(self, folder: str) -> None:
        os.chdir(folder)

    def node(self) -> str:
        """Return the id of the node."""
        node: str = library().get_runtime_context().get_node_id()
        return node

    def do(self, work: Path, task: Task, probe: Path) -> Outcome:
        """Do a task, on a node that may have joined after the others were checked."""
        if not probe.exists():
            return Outcome(error=DataError(f"node {socket.gethostname()} of the Ray cluster does not see {work}"))
        return attempt(work, task)


@dataclass(frozen=True)
class _Remote:
    actor: Any
    """Ray's handle of an `_Actor`."""
    node: str = ""


class RayEngine:
    """Runs tasks on a Ray cluster; all its nodes see the work folder under the same name."""

    def __init__(self, n_workers: int | None = None, address: str | None = None, gpus: bool = False) -> None:
        """Connect to the cluster.

        Args:
            n_workers: by default as many as the cluster has CPUs, or GPUs if the workers use them.
            address: by default RAY_ADDRESS or the cluster that runs on this machine.
            gpus: whether each worker gets a GPU, if the cluster has any.

        Raises ConfigError if there is none.
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
        self._n_failed = 0  # workers that did not start, since one did
        self._starting: dict[object, _Remote] = {}
        self._idle: list[_Remote] = []
        self._busy: dict[object, tuple[int, _Remote]] = {}

    def _connect(self, address: str) -> None:
        if address != "auto":
            _check_address(address)
        on_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            where = "on this machine" if address == "auto" else f"at {address}"
            raise ConfigError([f"--engine ray: no Ray cluster {where} ({error_text(error)}); {START}"]) from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, on_sigterm)  # Ray has set its own

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        """See `Engine`. Raises DataError if a node does not see the folder of work, or has another version of nmt."""
        work = work.resolve()
        self._n_wanted = min(self._n_workers, len(tasks))
        with self._probed(work):
            yield from run_on(self, work, tasks)

    @contextmanager
    def _probed(self, work: Path) -> Iterator[None]:
        """Write a file by which the nodes know the folder of work."""
        self._probe = work / f".probe-{secrets.token_hex(8)}"
        with writing(work):
            work.mkdir(parents=True, exist_ok=True)
            for old in work.glob(".probe-*"):  # of a driver that was killed
                old.unlink(missing_ok=True)
            self._probe.touch()
        try:
            check_nodes(self._ray, self._probe)
            yield
        finally:
            self._probe.unlink(missing_ok=True)

    @property
    def is_free(self) -> bool:
        """See `Workers`."""
        return bool(self._idle)

    def start(self, index: int, work: Path, task: Task) -> None:
        """See `Workers`."""
        worker = self._idle.pop()
        self._busy[worker.actor.do.remote(work, task, self._probe)] = index, worker

    def wait(self) -> list[tuple[int, Outcome | Lost]]:
        """See `Workers`. Also returns, with nothing, when a worker has started."""
        while len(self._starting) + len(self._idle) + len(self._busy) < self._n_wanted:
            actor = self._new_actor(str(Path.cwd()))
            self._starting[actor.node.remote()] = _Remote(actor)
        pending = [*self._starting, *self._busy]
        ready, _ = wait_for(self._ray, pending, 1, POLL_SECONDS)
        if not ready:
            return self._lost_unnoticed()
        ready, _ = wait_for(self._ray, pending, len(pending), 0)
        self._collect_started([reference for reference in ready if reference in self._starting])
        return [self._ended(reference) for reference in ready if reference in self._busy]

    def _collect_started(self, references: Sequence[object]) -> None:
        for reference in references:
            worker = self._starting.pop(reference)
            try:
                self._idle.append(_Remote(worker.actor, self._ray.get(reference)))
                self._n_failed = 0
            except self._ray.exceptions.RayError as error:
                self._n_failed += 1
                if self._n_failed > 2 * self._n_workers:
                    raise DataError(f"workers of the Ray cluster do not start: {error_text(error)}") from error

    def _ended(self, reference: object) -> tuple[int, Outcome | Lost]:
        index, worker = self._busy.pop(reference)
        errors = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(reference)
        except errors.RayTaskError as error:  # its arguments or its result could not be sent
            return index, Outcome(error=str(error))
        except errors.RayError as error:
            self._ray.kill(worker.actor)
            alive = self._alive()
            self._idle = [other for other in self._idle if other.node in alive]
            what = "ran out of memory" if isinstance(error, errors.OutOfMemoryError) else "has died"
            return index, Lost(f"its worker on node {alive.get(worker.node, '(removed)')} {what}")
        self._idle.append(worker)
        return index, outcome

    def _lost_unnoticed(self) -> list[tuple[int, Outcome | Lost]]:
        """Return the tasks whose nodes are gone without a word, and raise DataError if no node is left."""
        alive = self._alive()
        lost = [reference for reference, (_, worker) in self._busy.items() if worker.node not in alive]
        if not self._busy and not alive:
            raise DataError(
                f"no node with CPUs is left in the Ray cluster; add one, and start again: {self._probe.parent}"
            )
        return [(self._busy.pop(reference)[0], Lost("its node was removed")) for reference in lost]

    def _alive(self) -> dict[str, str]:
        """Return the host names of the nodes with CPUs by their ids."""
        nodes = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        return {node["NodeID"]: node["NodeManagerHostname"] for node in nodes}

    def end_busy(self) -> None:
        """See `Workers`."""
        for _, worker in self._busy.values():
            self._ray.kill(worker.actor)
        self._busy.clear()

    def close(self) -> None:
        """End all workers and the connection."""
        self._ray.shutdown()


def _check_address(address: str) -> None:
    """Raise ConfigError if nothing answers at an address; Ray would try for a long time."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise ConfigError([f"--address: must be HOST:PORT, such as 10.0.0.1:6379, found {address}"])
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError([f"--engine ray: no Ray cluster at {address} ({error_text(error)}); {START}"]) from error
