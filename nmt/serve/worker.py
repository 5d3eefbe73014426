"""The threads that translate: whenever one is free, it takes as many waiting lines as fill its batches.

Requests are not delayed to fill a batch. Those go first whose cost is small for the time that they have waited, and a
part of each round is for the one that came first; long ones are divided among rounds. Requests with long lines have
rounds of their own beside the others'.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing
from dataclasses import dataclass

from nmt.console import say
from nmt.errors import ConfigError, DataError
from nmt.search.rules import SearchStopped
from nmt.serve.limits import LATE, Refusal, busy
from nmt.serve.metrics import Metrics
from nmt.serve.models import Candidate, Direction, How, LoadError
from nmt.translate.types import Line

ROUND_COST = 5_000
"""Of what is translated together, at least (see `search_cost`): up to a second of work for one core. A line that costs
more is long."""
ROUND_SECONDS = 1.0
"""More is translated together where lines took no longer than that lately."""
OLDEST_SHARE = 4
"""One part in so many of a round is for the request that came first."""
CLOSING = "The server is closing"


class Job:
    """Lines to translate in one direction in one way, for one request."""

    def __init__(self, direction: Direction, how: How, lines: Sequence[Line], deadline: float) -> None:
        """deadline: in seconds of `time.monotonic`. Raises ConfigError or DataError."""
        self.direction, self.how, self.lines, self.deadline = direction, how, lines, deadline
        self.future: Future[list[list[Candidate]]] = Future()
        """All translations, in order. Cancelling it stops the translation."""
        self.done: list[list[Candidate]] = []
        self.costs = direction.costs(lines, how)
        self.left = sum(self.costs)
        self.is_long = max(self.costs, default=0) > ROUND_COST
        self.since = time.monotonic()
        self.has_begun = False

    @property
    def key(self) -> tuple[int, str, int]:
        """Key of jobs that may share a batch. Samples depend on what is around a line, so that theirs are alone."""
        return id(self.direction), self.how.key, id(self) if self.how.search.sample else 0

    @property
    def n_characters(self) -> int:
        """Number of characters that are not translated yet."""
        return sum(len(line.text) for line in self.lines[len(self.done) :])

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for it: it is done, late, or its client has disconnected. Once True, always True."""
        return self.future.done() or time.monotonic() > self.deadline

    def finish(self, error: BaseException | None = None) -> None:
        """Set the result or the error, unless the job was cancelled."""
        try:
            if error is None:
                self.future.set_result(self.done)
            else:
                self.future.set_exception(error)
        except InvalidStateError:
            pass  # cancelled at this moment


@dataclass
class _Share:
    """The lines of a job that are translated in the current round."""

    job: Job
    lines: deque[Line]
    """Those that are not translated yet."""

    @property
    def cost(self) -> float:
        """The cost of the lines that are left."""
        return sum(self.job.costs[len(self.job.done) :][: len(self.lines)])


class Worker:
    """Translates the jobs of all requests in two threads: one for those with long lines, one for the others.

    A search cannot be interrupted for another, and that of one long line may take seconds.
    """

    def __init__(self, metrics: Metrics, most_waiting: int = 256, threads: int | None = None) -> None:
        """most_waiting: maximum number of waiting jobs; threads: PyTorch's, for each; None: its choice."""
        self._metrics, self._most, self._threads = metrics, most_waiting, threads
        self._waiting: deque[Job] = deque()
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

    def close(self, seconds: float = 10.0) -> None:
        """Accept no more jobs, translate those that wait, and end. Jobs not done after `seconds` are refused."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._serving:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            for job in self._waiting:
                job.finish(busy(1, CLOSING))  # which stops the search, too

    def submit(self, job: Job) -> Future[list[list[Candidate]]]:
        """Queue a job. Raises Refusal if too many wait, or the worker was closed."""
        with self._changed:
            if self._closed:
                raise busy(1, CLOSING)
            if len(self._waiting) >= self._most:
                self._drop()  # what this round has translated does not wait
            if len(self._waiting) >= self._most:
                raise busy(sum(other.left / self._rates[other.is_long] for other in self._waiting))
            self._waiting.append(job)
            self._changed.notify_all()
        return job.future

    def _run(self, is_long: bool) -> None:
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)  # of this thread
        while (shares := self._take(is_long)) is not None:
            began = time.monotonic()
            groups: dict[tuple[int, str, int], list[_Share]] = {}
            for share in shares:
                groups.setdefault(share.job.key, []).append(share)
            cost = sum(share.cost for share in shares)
            for group in groups.values():
                self._translate(group)
            cost -= sum(share.cost for share in shares)  # what failed, or was stopped
            if cost:  # what is slow is noticed at once
                rate = cost / max(time.monotonic() - began, 1e-3)
                self._rates[is_long] = min(rate, 0.8 * self._rates[is_long] + 0.2 * rate)

    def _take(self, is_long: bool) -> list[_Share] | None:
        """Wait for work, and return the next round, shortest first; None at the end."""
        with self._changed:
            while True:
                self._drop()
                waiting = [job for job in self._waiting if job.is_long == is_long]
                if waiting or self._closed:
                    break
                self._changed.wait()
            if not waiting:
                return None
            oldest, *others = waiting
            now = time.monotonic()
            others.sort(key=lambda job: job.left / (now - job.since + 1e-3))
            most = max(ROUND_COST, ROUND_SECONDS * self._rates[is_long])
            rest = most - sum(job.left for job in others)
            shares = [_Share(oldest, _next_lines(oldest, max(rest, most / OLDEST_SHARE)))]
            budget = most - shares[0].cost
            for job in others:
                if budget <= 0:
                    break
                shares.append(_Share(job, _next_lines(job, budget)))
                budget -= shares[-1].cost
            return sorted(shares, key=lambda share: share.cost)

    def _drop(self) -> None:
        """Remove the jobs that are done, late, or whose clients have disconnected. The lock is held."""
        for job in self._waiting:
            if job.is_over and not job.future.done():
                job.finish(Refusal(504, LATE))
        self._waiting = deque(job for job in self._waiting if not job.future.done())

    def _translate(self, shares: Sequence[_Share]) -> None:
        """Translate lines in one batch, or if that fails, each request separately: one must not spoil the others."""
        try:
            self._search(shares)
            return
        except SearchStopped:
            with self._changed:
                self._drop()  # answers those that are late
            return
        except BaseException as error:
            unfinished = [share for share in shares if share.lines]
            if len(unfinished) == 1:
                unfinished[0].job.finish(self._reported(error))
                return
        for share in unfinished:
            self._translate([share])

    def _search(self, shares: Sequence[_Share]) -> None:
        """Translate lines in one batch. Raises SearchStopped if nobody waits for them any more."""
        job, jobs = shares[0].job, [share.job for share in shares]

        def should_stop() -> bool:
            return all(job.is_over for job in reversed(jobs))  # the longest is the last to be done

        for other in jobs:
            if not other.has_begun:
                self._metrics.queue_seconds.observe(time.monotonic() - other.since)
                other.has_begun = True
        lines = [line for share in shares for line in share.lines]
        n_pieces = 0
        with closing(job.direction.translate(lines, job.how, len(job.done), should_stop)) as results:
            for share in shares:
                for _ in range(len(share.lines)):
                    candidates, n = next(results)
                    share.job.done.append(candidates)
                    share.job.left -= share.job.costs[len(share.job.done) - 1]
                    share.lines.popleft()
                    n_pieces += n
                if len(share.job.done) == len(share.job.lines):
                    share.job.finish()
        self._metrics.batch_pieces.observe(n_pieces)

    def _reported(self, error: BaseException) -> BaseException:
        """Return the error to send to the client. Its message is not logged, because it may quote the text."""
        if isinstance(error, (ConfigError, DataError)):
            return invalid(error)
        self._metrics.failures.labels(type(error).__name__).inc()
        if isinstance(error, LoadError):
            say(f"a translation failed: {error}")
            return Refusal(500, "Cannot translate text: a model cannot be loaded")
        say(f"a translation failed: {failure(error)}")
        return Refusal(500, "Cannot translate text: internal error")


def invalid(error: ConfigError | DataError) -> Refusal:
    """Return the error to send for an invalid request."""
    return Refusal(400, f"Invalid request: {' '.join(str(error).split())}")


def _next_lines(job: Job, budget: float) -> deque[Line]:
    """Return the next lines of a job whose cost is within a budget; at least one."""
    start = end = len(job.done)
    while end < len(job.lines) and (end == start or job.costs[end] <= budget):
        budget -= job.costs[end]
        end += 1
    return deque(job.lines[start:end])


def failure(error: BaseException) -> str:
    """Return the type of an exception and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}{where}"
