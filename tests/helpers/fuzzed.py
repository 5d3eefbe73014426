"""A limit of time for what must not hang, and how a command may end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

from command import Result

SECONDS = 60
"""More than any command of these tests takes, on a machine that is busy too."""


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    """Fail if the block takes longer than `SECONDS`."""

    def give_up(*_: object) -> None:
        raise AssertionError("this hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(result: Result, statuses: tuple[int, ...] = (0, 2)) -> None:
    """A command ended as commands end: with a status of its own, and lines that say why it is not 0."""
    assert result.status in statuses, result
    if result.status != 0:
        assert result.err.splitlines()[-1].startswith("nmt: "), result.err
    assert "Traceback" not in result.err


def put_somewhere(tree: Any, value: object, choose: Callable[[list[Any]], Any]) -> None:
    """Put a value into a place of nested lists and mappings that is chosen, or leave what is there out (None)."""
    spots: list[tuple[Any, Any]] = []
    nodes = [tree]
    for node in nodes:
        for key in node if isinstance(node, dict) else range(len(node)):
            spots.append((node, key))
            if isinstance(node[key], (dict, list)):
                nodes.append(node[key])
    node, key = choose(spots)
    if value is None:
        del node[key]
    else:
        node[key] = value
