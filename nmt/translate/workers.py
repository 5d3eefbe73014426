"""Several batches at once on a CPU: each has too little work in one step for all cores together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")

NAME = "nmt translates"
"""Of the threads."""
MOST_WORKERS = 8
"""Beyond so many, they wait for Python's lock."""


def run_all(
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    device: torch.device,
    context: Callable[[], AbstractContextManager[object]],
) -> Generator[Result]:
    """The result of each job, in order. `work` is called within `context`.

    On a CPU the jobs are shared out among threads, each with a share of PyTorch's own threads; a single job, or any on
    a GPU, is done in the calling thread. What a job raises is raised here. No job is begun after the caller has left.
    """
    n_threads = torch.get_num_threads()
    n_workers = min(n_threads, len(jobs), MOST_WORKERS) if device.type == "cpu" else 1
    if n_workers <= 1:
        for job in jobs:
            with context():  # not around the `yield`: what the caller does meanwhile is not ours
                result = work(job)
            yield result
        return
    crew = _Crew(work, jobs, context, n_threads // n_workers)
    threads = [threading.Thread(target=crew.run, name=NAME, daemon=True) for _ in range(n_workers)]
    for thread in threads:
        thread.start()
    try:
        for place in range(len(jobs)):
            yield crew.result(place)
    finally:
        crew.stop()
        for thread in threads:
            thread.join()
        torch.set_num_threads(n_threads)  # what threads that are yet to start begin with


class _Crew(Generic[Job, Result]):
    """The jobs, their results, and where the threads meet."""

    def __init__(
        self,
        work: Callable[[Job], Result],
        jobs: Sequence[Job],
        context: Callable[[], AbstractContextManager[object]],
        n_threads: int,
    ) -> None:
        self._work, self._jobs, self._context, self._n_threads = work, jobs, context, n_threads
        self._next = 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._news = threading.Condition()

    def run(self) -> None:
        """What a thread does: job after job, until there is none or somebody has failed."""
        torch.set_num_threads(self._n_threads)  # of this thread alone
        while (place := self._take()) is not None:
            try:
                with self._context():
                    result = self._work(self._jobs[place])
            except BaseException as error:
                with self._news:
                    self._errors[place] = error
                    self._next = len(self._jobs)
                    self._news.notify_all()
                return
            with self._news:
                self._results[place] = result
                self._news.notify_all()

    def result(self, place: int) -> Result:
        """That of the job at `place`, as soon as it is there."""
        with self._news:
            while place not in self._results:
                if place in self._errors:
                    raise self._errors[place]
                self._news.wait()
            return self._results.pop(place)

    def stop(self) -> None:
        """Begin no further job."""
        with self._news:
            self._next = len(self._jobs)

    def _take(self) -> int | None:
        with self._news:
            if self._next >= len(self._jobs):
                return None
            self._next += 1
            return self._next - 1
