"""The thread that translates: whenever it is free, it takes what waits, as much as fills its batches, at once.

Nothing waits for company: a request that comes alone is translated alone. Short requests go first, but a part of each
round is for the one that came first, so that none waits forever; long ones are divided among rounds.
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
from nmt.search.stopping import SearchStopped
from nmt.serve.metrics import Metrics
from nmt.serve.models import Candidate, Direction, How, LoadError
from nmt.serve.refusal import LATE, Refusal, busy
from nmt.translate.types import Line

ROUND_CHARACTERS = 16_384
"""Translated together: about two full batches for each of two cores, and a second of work."""
OLDEST_SHARE = 4
"""One in so many characters of a round is for the request that came first."""
PER_LINE = 8
"""Characters that a line counts for beside its own."""
CLOSING = "The server is closing"


class Job:
    """Lines to translate in one direction in one way, for one request."""

    def __init__(self, direction: Direction, how: How, lines: Sequence[Line], deadline: float) -> None:
        """deadline: on the clock of `time.monotonic`."""
        self.direction, self.how, self.lines, self.deadline = direction, how, lines, deadline
        self.future: Future[list[list[Candidate]]] = Future()
        """All translations, in order. Cancel it, and no more is translated."""
        self.done: list[list[Candidate]] = []
        self.sizes = [len(line.text) + PER_LINE for line in lines]
        self.left = sum(self.sizes)
        self.since = time.monotonic()
        self.has_begun = False

    @property
    def key(self) -> tuple[int, str, int]:
        """Equal for jobs that may share a batch. Samples depend on what is around a line, so that theirs are alone."""
        return id(self.direction), self.how.key, id(self) if self.how.search.sample else 0

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for more of it: it is done, its client has left, or it is late. Never False again."""
        return self.future.done() or time.monotonic() > self.deadline

    def finish(self, error: BaseException | None = None) -> None:
        """Give the result, or an error, to who waits, unless they no longer do."""
        try:
            if error is None:
                self.future.set_result(self.done)
            else:
                self.future.set_exception(error)
        except InvalidStateError:
            pass  # cancelled at this moment


@dataclass
class _Share:
    """The lines of a job that are in a round."""

    job: Job
    lines: deque[Line]
    """Those that are not translated yet."""

    @property
    def size(self) -> int:
        """In characters, as `Job.left`."""
        return sum(len(line.text) + PER_LINE for line in self.lines)


class Worker:
    """Translates the jobs of all requests in a thread of its own."""

    def __init__(self, metrics: Metrics, most_waiting: int = 256, threads: int | None = None) -> None:
        """most_waiting: jobs that wait; threads: of PyTorch, by default as many as it takes."""
        self._metrics, self._most, self._threads = metrics, most_waiting, threads
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._rate = 1000.0  # characters per second, a mean of the last rounds
        metrics.queue_requests.read = lambda: float(len(self._waiting))
        metrics.queue_characters.read = lambda: float(sum(job.left for job in [*self._waiting]))
        self._thread = threading.Thread(target=self._run, name="nmt serves", daemon=True)

    def start(self) -> None:
        """Begin to translate."""
        self._thread.start()

    def close(self, seconds: float = 10.0) -> None:
        """Take no further job, translate what waits, and end. What takes longer than so many seconds is refused."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)
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
                raise busy(sum(other.left for other in self._waiting) / self._rate)
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def _run(self) -> None:
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)  # of this thread
        while (shares := self._take()) is not None:
            began = time.monotonic()
            groups: dict[tuple[int, str, int], list[_Share]] = {}
            for share in shares:
                groups.setdefault(share.job.key, []).append(share)
            n = sum(share.size for share in shares)
            for group in groups.values():
                self._translate(group)
            n -= sum(share.size for share in shares)  # what failed, or was stopped
            if n:
                self._rate = 0.8 * self._rate + 0.2 * n / max(time.monotonic() - began, 1e-3)

    def _take(self) -> list[_Share] | None:
        """Wait for work, and return that of the next round, the shortest first; None at the end."""
        with self._changed:
            while True:
                self._drop()
                if self._waiting or self._closed:
                    break
                self._changed.wait()
            if not self._waiting:
                return None
            oldest, *others = self._waiting
            others.sort(key=lambda job: job.left)
            rest = ROUND_CHARACTERS - sum(job.left for job in others)
            shares = [_Share(oldest, _next_lines(oldest, max(rest, ROUND_CHARACTERS // OLDEST_SHARE)))]
            budget = ROUND_CHARACTERS - shares[0].size
            for job in others:
                if budget <= 0:
                    break
                shares.append(_Share(job, _next_lines(job, budget)))
                budget -= shares[-1].size
            return sorted(shares, key=lambda share: share.size)

    def _drop(self) -> None:
        """Leave out the requests that are done, whose clients have left, or that are late. The lock is held."""
        for job in self._waiting:
            if job.is_over and not job.future.done():
                job.finish(Refusal(504, LATE))
        self._waiting = deque(job for job in self._waiting if not job.future.done())

    def _translate(self, shares: Sequence[_Share]) -> None:
        """Translate lines together. If that fails, each request by itself: one must not spoil the others'."""
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
        """Translate lines together. Raises SearchStopped if nobody waits for them any more."""
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
                    share.job.left -= share.job.sizes[len(share.job.done) - 1]
                    share.lines.popleft()
                    n_pieces += n
                if len(share.job.done) == len(share.job.lines):
                    share.job.finish()
        self._metrics.batch_pieces.observe(n_pieces)

    def _reported(self, error: BaseException) -> BaseException:
        """Return what the client is told about an error. The log has no message of it, which may quote the text."""
        if isinstance(error, (ConfigError, DataError)):
            return Refusal(400, f"Invalid request: {' '.join(str(error).split())}")
        self._metrics.failures.add(exception=type(error).__name__)
        if isinstance(error, LoadError):
            say(f"a translation failed: {error}")
            return Refusal(500, "Cannot translate text: a model cannot be loaded")
        say(f"a translation failed: {failure(error)}")
        return Refusal(500, "Cannot translate text: internal error")


def _next_lines(job: Job, budget: int) -> deque[Line]:
    """Return the next lines of a job that are within a budget of characters; at least one."""
    start = end = len(job.done)
    while end < len(job.lines) and (end == start or job.sizes[end] <= budget):
        budget -= job.sizes[end]
        end += 1
    return deque(job.lines[start:end])


def failure(error: BaseException) -> str:
    """Return the type of an exception and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}{where}"
