"""The choice of what runs tasks: this process, several processes of this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Literal, TypeAlias

from nmt.tasks.perform import TaskRunner
from nmt.tasks.processes import InProcess, Processes, usable_cores
from nmt.tasks.ray import RayRunner

RunnerName: TypeAlias = Literal["local", "ray"]


@contextmanager
def open_runner(
    name: RunnerName,
    workers: int | None = None,
    address: str | None = None,
    gpus: Sequence[str] | None = None,
) -> Iterator[TaskRunner]:
    """Yield a runner of tasks, and end its workers after the `with` block.

    Args:
        workers: number of processes; by default one for each core.
        address: address of a Ray cluster; by default RAY_ADDRESS, or the cluster that runs on this machine.
        gpus: names of the GPUs of this machine, if the workers use any. Each worker gets one of them, or one of its Ray
            node.

    Raises ConfigError if there is no such cluster, or Ray is not installed.
    """
    if name == "ray":
        with closing(RayRunner(workers, address, gpus is not None)) as cluster:
            yield cluster
        return
    n_workers = workers or usable_cores()
    if n_workers == 1:
        yield InProcess()
        return
    with closing(Processes(n_workers, gpus or ())) as processes:
        yield processes
