"""The writer of checkpoints: on a GPU a thread, so that training goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from nmt.errors import UnsafeFileError
from nmt.runs.checkpoint import Tensors

THREADED = ("cuda",)
"""Devices whose training does not need the cores that the thread takes."""


class Saver:
    """Writes one checkpoint at a time, and knows the last one that is complete."""

    def __init__(self, device: torch.device) -> None:
        """device: what the model is on."""
        self._executor = ThreadPoolExecutor(1, "nmt saves") if device.type in THREADED else None
        self._saved_step = 0
        self._writing: tuple[int, Future[None]] | None = None

    @property
    def saved_step(self) -> int:
        """The step of the last checkpoint that this process has written or read. Waits for one being written."""
        if self._writing is not None and self._writing[1].exception() is None:
            self._saved_step = self._writing[0]
        return self._saved_step

    @saved_step.setter
    def saved_step(self, step: int) -> None:
        self._saved_step = step

    def copied(self, tensors: Tensors) -> Tensors:
        """Return what a thread can write while training changes the tensors: a copy in the host's memory."""
        if self._executor is None:
            return tensors
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}

    def write(self, step: int, write: Callable[[], None]) -> None:
        """Begin to write the checkpoint of a step; the outcome of the one before has been taken."""
        assert self._writing is None, "one at a time"
        if self._executor is not None:
            self._writing = step, self._executor.submit(write)
            return
        future: Future[None] = Future()
        try:
            write()
            future.set_result(None)
        except (OSError, UnsafeFileError) as error:
            future.set_exception(error)
        self._writing = step, future

    def outcome(self, must_wait: bool) -> tuple[int, OSError | UnsafeFileError | None] | None:
        """Return once, for a checkpoint whose writing has ended, its step and what has failed; None: nothing new.

        Raises what else has gone wrong.
        """
        if self._writing is None or not (must_wait or self._writing[1].done()):
            return None
        (step, future), self._writing = self._writing, None
        error = future.exception()
        if error is None:
            self._saved_step = step
        elif not isinstance(error, OSError | UnsafeFileError):
            raise error
        return step, error

    def close(self) -> None:
        """Wait for what is being written."""
        if self._executor is not None:
            self._executor.shutdown()
