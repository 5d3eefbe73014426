"""Work of the event loop that takes longer than some milliseconds, done in threads so that other requests go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

SMALL = 1000
"""Characters, times translations of each, that are worked on at once: at most 5 ms."""
AT_ONCE = 2
"""Threads; more would wait for Python's global interpreter lock, and the event loop with them."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Aside:
    """A few threads for short work. What a client that has left no longer needs, and has not begun, is left out."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, "nmt prepares")

    async def run(
        self, size: int, work: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """Return the result of `work`, or raise its exception; in a thread if it is of more than `SMALL` characters."""
        if size <= SMALL:
            return work(*args, **named)
        return await asyncio.wrap_future(self._threads.submit(work, *args, **named))

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
