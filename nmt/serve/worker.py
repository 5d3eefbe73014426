"""The threads of the server: two translate waiting lines in rounds, a side thread does what else would block others.

Requests are not delayed to fill a batch. Requests whose cost is small relative to their waiting time come first, a
part of each round is reserved for the oldest request, and large requests are divided among rounds, except those whose
lines are translated in context. Requests with long lines, or a long context, have a separate thread.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing
from dataclasses import dataclass, replace
from queue import PriorityQueue
from typing import Any, ParamSpec, TypeVar

from nmt.console import say
from nmt.errors import ConfigError, DataError, failure
from nmt.search.rules import SearchStopped
from nmt.serve.limits import LATE, Refusal, busy
from nmt.serve.metrics import Metrics
from nmt.translate.loading import Translator
from nmt.translate.types import Line, Options, Translation

LONG_COST = 5_000
"""Cost (see `search_cost`) above which a line is long: up to a second on one core."""
LEAST_COST = 1_000
"""Minimum cost of a round."""
ALIGNMENT_COST = 100
"""Cost of reading a line once more, and each of its translations, to align their words."""
ROUND_SECONDS = 1.0
"""Intended duration of a round, whose cost is derived from the speed of earlier rounds."""
OLDEST_SHARE = 4
"""Inverse of the share of a round that is reserved for the oldest request."""
CLOSING = "The server is shutting down"


@dataclass(eq=False)
class Job:
    """The lines of a request to translate in one direction."""

    direction: Translator
    options: Options
    lines: Sequence[Line]
    costs: Sequence[float]
    """See `Translator.costs`."""
    deadline: float
    """A time of `time.monotonic`."""

    def __post_init__(self) -> None:
        self.future: Future[list[list[Translation]]] = Future()
        """Future of the translations of all lines, in order. Cancelling it stops the translation."""
        self.done: list[list[Translation]] = []
        costs = self.costs
        if self.options.align:
            costs = [cost + ALIGNMENT_COST * (1 + self.options.n_best) for cost in costs]
        self._sums = [0.0, *itertools.accumulate(costs)]
        self.in_context = self.options.search.context > 0
        self.is_long = (sum(costs) if self.in_context else max(costs, default=0)) > LONG_COST
        self.since = time.monotonic()
        self.has_begun = False
        self._end = 0  # index after the last line of the current round

    @property
    def key(self) -> tuple[int, str, int]:
        """Key that is equal for jobs that may share a batch. Sampled jobs share none: samples depend on the batch."""
        return id(self.direction), self.options.key, id(self) if self.options.search.sample else 0

    @property
    def n_characters(self) -> int:
        """Number of characters that are not translated yet."""
        return sum(len(line.text) for line in self.lines[len(self.done) :])

    @property
    def left(self) -> float:
        """Cost of the lines that are not translated yet."""
        return self._sums[-1] - self._sums[len(self.done)]

    @property
    def current(self) -> Sequence[Line]:
        """Lines of the current round that are not translated yet."""
        return self.lines[len(self.done) : self._end]

    def begin(self, budget: float) -> float:
        """Add lines up to the cost `budget`, but at least one, or all in context, to the current round. Return their
        cost."""
        n = len(self.done)
        spent = self._sums[len(self.done)]
        self._end = len(self.lines) if self.in_context else max(n + 1, bisect_right(self._sums, spent + budget) - 1)
        return self._sums[self._end] - spent

    @property
    def is_over(self) -> bool:
        """Whether no client waits for the job any more: it is done, late or cancelled. It stays True."""
        return self.future.done() or time.monotonic() > self.deadline

    def finish(self, error: BaseException | None = None) -> None:
        """Set the result or the error, unless the job was cancelled."""
        try:
            if error is None:
                self.future.set_result(self.done)
            else:
                self.future.set_exception(error)
        except InvalidStateError:
            pass  # cancelled in the meantime


class Worker:
    """Two threads that translate the jobs of all requests: one takes jobs with long lines, the other all others.

    One search cannot be interrupted for another, and the search for one long line may take seconds.
    """

    def __init__(self, metrics: Metrics, threads: int | None = None) -> None:
        """Create a worker. threads: the number of PyTorch threads of each of its two threads; None for the default."""
        self._metrics = metrics
        self._threads = threads
        self._waiting: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._rates = {False: 10_000.0, True: 10_000.0}  # cost per second in the last rounds, by Job.is_long
        metrics.queue_requests.set_function(lambda: len(self._waiting))
        metrics.queue_characters.set_function(lambda: sum(job.n_characters for job in [*self._waiting]))
        self._serving = [
            threading.Thread(target=self._run, args=(is_long,), name="nmt serves", daemon=True)
            for is_long in self._rates
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._serving:
            thread.start()

    def close(self, seconds: float = 1.0) -> bool:
        """Reject new jobs, translate the waiting jobs, and stop. Return whether all threads have ended.

        Jobs that are not done after `seconds` fail.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._serving:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            for job in self._waiting:
                job.finish(busy(CLOSING))  # also stops the search
        return not any(thread.is_alive() for thread in self._serving)

    def submit(self, job: Job) -> Future[list[list[Translation]]]:
        """Add a job to the queue. Raises Refusal if the worker was closed."""
        with self._changed:
            if self._closed:
                raise busy(CLOSING)
            self._waiting.append(job)
            self._changed.notify_all()
        return job.future

    def _run(self, is_long: bool) -> None:
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)  # for this thread only
        while jobs := self._take(is_long):
            began = time.monotonic()
            left = sum(job.left for job in jobs)
            groups: dict[tuple[int, str, int], list[Job]] = {}
            for job in jobs:
                groups.setdefault(job.key, []).append(job)
            for group in groups.values():
                self._translate(group)
            if cost := left - sum(job.left for job in jobs):  # a slower rate takes effect at once
                rate = cost / max(time.monotonic() - began, 1e-3)
                self._rates[is_long] = min(rate, 0.8 * self._rates[is_long] + 0.2 * rate)

    def _take(self, is_long: bool) -> list[Job]:
        """Wait for jobs, and return the jobs of the next round, shortest first; an empty list when closed."""
        with self._changed:
            self._drop()
            while not (waiting := [job for job in self._waiting if job.is_long == is_long]) and not self._closed:
                self._changed.wait()
                self._drop()
            if not waiting:
                return []
            oldest, *newer = waiting
            now = time.monotonic()
            newer.sort(key=lambda job: job.left / (now - job.since + 1e-3))
            most = max(LEAST_COST, ROUND_SECONDS * self._rates[is_long])
            costs = {oldest: oldest.begin(max(most - sum(job.left for job in newer), most / OLDEST_SHARE))}
            budget = most - costs[oldest]
            for job in newer:
                if budget <= 0:
                    break
                costs[job] = job.begin(budget)
                budget -= costs[job]
            return sorted(costs, key=costs.__getitem__)

    def _drop(self) -> None:
        """Remove jobs that are done, late or cancelled. The caller must hold the lock."""
        for job in self._waiting:
            if job.is_over and not job.future.done():
                job.finish(Refusal(504, LATE))
        self._waiting = [job for job in self._waiting if not job.future.done()]

    def _translate(self, jobs: Sequence[Job]) -> None:
        """Translate jobs in one batch, or each separately if that fails, so that one job cannot fail the others."""
        try:
            self._search(jobs)
            return
        except SearchStopped:
            with self._changed:
                self._drop()  # answers late jobs
            return
        except BaseException as error:
            unfinished = [job for job in jobs if job.current]
            if len(unfinished) == 1:
                unfinished[0].finish(self._reported(error))
                return
        for job in unfinished:
            self._translate([job])

    def _search(self, jobs: Sequence[Job]) -> None:
        """Translate jobs in one batch. Raises SearchStopped if no client waits for them any more."""

        def should_stop() -> bool:
            return all(job.is_over for job in reversed(jobs))  # the longest job ends last

        for job in jobs:
            if not job.has_begun:
                self._metrics.queue_seconds.observe(time.monotonic() - job.since)
                job.has_begun = True
            if job.in_context:  # begins again, if another job has failed
                job.done.clear()
        first = jobs[0]
        n_pieces = 0
        lines = [line for job in jobs for line in job.current]
        with closing(
            first.direction.translate_window(lines, first.options, len(first.done), None, should_stop)
        ) as results:
            for job in jobs:
                for _ in job.current:
                    translations = next(results)
                    n_pieces += sum(len(part.src_ids) for part in translations[0].parts)
                    job.done.append([replace(translation, parts=()) for translation in translations])
                if len(job.done) == len(job.lines):
                    job.finish()
        self._metrics.batch_pieces.observe(n_pieces)

    def _reported(self, error: BaseException) -> BaseException:
        """Log an error without its message, which may quote the text, and return the error to send to the client."""
        if isinstance(error, (ConfigError, DataError)):
            return invalid(error)
        self._metrics.failures.labels(type(error).__name__).inc()
        say(f"a translation failed: {failure(error)}")
        return Refusal(500, "Cannot translate text: internal error")


def invalid(error: ConfigError | DataError) -> Refusal:
    """Return the error response to an invalid request."""
    return Refusal(400, f"Invalid request: {' '.join(str(error).split())}")


# --- other work ---------------------------------------------------------------------------------------

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

AGING = 10_000.0
LARGE = 20_000
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
PORTION = 10_000
PER_LINE = 20
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
