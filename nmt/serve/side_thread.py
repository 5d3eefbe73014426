"""A thread for the work outside the search, which would block the event loop."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import PriorityQueue
from typing import Any, ParamSpec, TypeVar

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
        task = [rank, next(self._numbers), future, partial(work, *args, **named)]
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
