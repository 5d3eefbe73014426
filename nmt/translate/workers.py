"""Several batches at once on a CPU: one decoding step of a batch is too little work for all cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

import torch

from nmt.model.precision import threads

Job = TypeVar("Job")
Result = TypeVar("Result")

THREAD_NAME = "nmt translates"
MAX_WORKERS = 8
"""More would wait for Python's global interpreter lock."""
SMALL_STEP = 2**25
"""Multiplications: below, a decoding step takes a millisecond or so, of which several threads spare a tenth at best."""


def threads_for(multiplications: int) -> AbstractContextManager[None]:
    """Run decoding steps of so many multiplications on one of PyTorch's threads if they are small.

    Several threads wait for each other after each operation, and where another program has one of their cores that
    takes several times as long as the work.
    """
    return threads(1 if multiplications < SMALL_STEP else torch.get_num_threads())


def run_all(work: Callable[[Job], Result], jobs: Sequence[Job], device: torch.device) -> Generator[Result]:
    """Yield the result of each job, in order.

    On a CPU the jobs are distributed over threads, each with a share of PyTorch's own threads; a single job, or any job
    on a GPU, runs in the calling thread. Exceptions of jobs are raised here. No job starts after the generator is
    closed.
    """
    n_threads = torch.get_num_threads()
    n_workers = min(n_threads, len(jobs), MAX_WORKERS) if device.type == "cpu" else 1
    if n_workers <= 1:
        for job in jobs:
            yield work(job)
        return
    pool = _Pool(work, jobs, n_threads // n_workers)
    threads = [threading.Thread(target=pool.run, name=THREAD_NAME, daemon=True) for _ in range(n_workers)]
    for thread in threads:
        thread.start()
    try:
        for i in range(len(jobs)):
            yield pool.result(i)
    finally:
        pool.stop()
        for thread in threads:
            thread.join()
        torch.set_num_threads(n_threads)  # the default of threads that start later


class _Pool(Generic[Job, Result]):
    """The jobs and their results, shared by the threads."""

    def __init__(self, work: Callable[[Job], Result], jobs: Sequence[Job], n_threads: int) -> None:
        """n_threads: PyTorch's own threads for each worker."""
        self._work, self._jobs, self._n_threads = work, jobs, n_threads
        self._next = 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._changed = threading.Condition()

    def run(self) -> None:
        """Run jobs until none is left or one has failed: the main loop of a thread."""
        torch.set_num_threads(self._n_threads)  # of this thread alone
        while (i := self._take()) is not None:
            try:
                result = self._work(self._jobs[i])
            except BaseException as error:
                with self._changed:
                    self._errors[i] = error
                    self._next = len(self._jobs)
                    self._changed.notify_all()
                return
            with self._changed:
                self._results[i] = result
                self._changed.notify_all()

    def result(self, i: int) -> Result:
        """Wait for the result of job `i` and return it, or raise its exception."""
        with self._changed:
            while i not in self._results:
                if i in self._errors:
                    raise self._errors[i]
                self._changed.wait()
            return self._results.pop(i)

    def stop(self) -> None:
        """Start no further job."""
        with self._changed:
            self._next = len(self._jobs)

    def _take(self) -> int | None:
        with self._changed:
            if self._next >= len(self._jobs):
                return None
            self._next += 1
            return self._next - 1
