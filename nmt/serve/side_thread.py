"""A thread for the work outside the search, which would block the event loop."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import PriorityQueue
from typing import Any, ParamSpec, TypeVar

from nmt.translate.types import Line

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

AGING, LARGE = 10_000.0, 20_000
"""Work that is larger by `AGING` characters comes first if it has waited a second longer; sizes above `LARGE` count as
`LARGE`, so that no work waits forever for smaller work that arrives later."""


class SideThread:
    """A thread that does one piece of work at a time, small ones first; the process ends without waiting for it."""

    def __init__(self) -> None:
        self._waiting: PriorityQueue[list[Any]] = PriorityQueue()
        self._numbers = itertools.count()
        threading.Thread(target=self._run, name="nmt works", daemon=True).start()

    async def run(
        self, size: int, work: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """Return the result of `work`, which does not begin any more if the caller is cancelled."""
        future = Future[Result]()
        rank = time.monotonic() + min(size, LARGE) / AGING
        task = [rank, next(self._numbers), future, functools.partial(work, *args, **named)]
        self._waiting.put(task)
        try:
            return await asyncio.wrap_future(future)
        finally:
            task[-1] = None  # frees the texts of a client that has left

    def _run(self) -> None:
        while True:
            *_, future, work = self._waiting.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del future, work  # which hold texts


SMALL = 1000
"""Maximum size of work that runs in the event loop: characters times translations, and aligned words, up to 5 ms."""
PORTION, PER_LINE = 10_000, 20
"""Size of the portions in which lines are worked on, up to 0.2 s, and what each line adds to its characters."""
_side_thread = functools.cache(SideThread)


async def aside(
    size: int, work: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Return the result of `work`, which runs in a thread if `size` is above `SMALL`."""
    return work(*args, **named) if size <= SMALL else await _side_thread().run(size, work, *args, **named)


async def in_portions(
    size: int, lines: Sequence[Line], work: Callable[[Sequence[Line], int], list[Result]]
) -> list[Result]:
    """Return the results of `work` for each line, given some lines and the number of the first one.

    size: the total size of the lines; see `aside`. Other requests have their turn between portions, which wait by their
    own sizes, and the work ends if the caller is cancelled.
    """
    results: list[Result] = []
    sums = [0, *itertools.accumulate(len(line.text) + len(line.prefix) + PER_LINE for line in lines)]
    while (n := len(results)) < len(lines):
        end = max(n + 1, bisect_right(sums, sums[n] + PORTION) - 1)
        results += await aside(min(size, SMALL + sums[end] - sums[n]), work, lines[n:end], n)
    return results
