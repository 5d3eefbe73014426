"""The nodes of a Ray cluster, checked before they do any work."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import nmt
from nmt.errors import DataError, error_text

ANSWER_SECONDS = 120.0
SEEN_SECONDS = 10.0
"""A network file system may show a new file late."""


@dataclass(frozen=True)
class Node:
    """What a node says of itself."""

    version: str | None
    """Of nmt; None if it is not installed."""
    python: str
    sees_work: bool
    sees_folder: bool
    """Whether there is the folder in which nmt was started here."""


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
            found = Node(*ray.get(reference))
        except ray.exceptions.RayTaskError as error:
            raise DataError(f"node {asked[reference]} of the Ray cluster: {error_text(error)}") from error
        except ray.exceptions.RayError:
            continue  # it has been removed
        if problem := node_problem(found, probe.parent):
            raise DataError(f"node {asked[reference]} of the Ray cluster {problem}")


def wait_for(
    ray: ModuleType, references: Sequence[object], n: int, seconds: float
) -> tuple[list[object], list[object]]:
    """Wait until `n` results are there, or for so many seconds; return the references of those and of the others."""
    if not references:
        return [], []
    try:
        ready, others = ray.wait(references, num_returns=n, timeout=seconds)
    except SystemError as error:  # what a handler of signals has raised, but for KeyboardInterrupt
        raise (error.__cause__ or error) from None
    return ready, others


def node_problem(node: Node, work: Path) -> str | None:
    """Return why a node cannot take part, if it cannot."""
    here = ".".join(platform.python_version_tuple()[:2])
    if node.version != nmt.__version__:
        found = "has no nmt" if node.version is None else f"has nmt {node.version}"
        return f"{found}, here it is {nmt.__version__}: install the same"
    if node.python.rpartition(".")[0] != here:
        return f"has Python {node.python}, here it is {here}: install the same"
    if not node.sees_work:
        return f"does not see {work}: all nodes need the same folder there"
    if not node.sees_folder:
        return f"has no folder {Path.cwd()}: start nmt in a folder that all nodes share"
    return None
