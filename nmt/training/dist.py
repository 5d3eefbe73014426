"""Several processes that train one model (`torchrun -m -- nmt train …`), or one alone, which none of this concerns.

Every process learns from its share of each update; gradients are summed over all. Process 0 alone writes, validates
and looks at the clock, and what it decides the others are told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nmt.errors import ConfigError, NmtError
from nmt.training.memory import out_of_memory

T = TypeVar("T")
PATIENCE = timedelta(hours=2)  # with the others, while process 0 validates


class World:
    """All processes of a run. `rank` is this one's number among `size`."""

    def __init__(self, rank: int = 0, size: int = 1, control: dist.ProcessGroup | None = None) -> None:
        """`control` carries what is decided, between processors and not between GPUs, which need not wait for it."""
        self.rank, self.size = rank, size
        self._control = control

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> None:
        """Add up a tensor over all processes, in place."""
        if self.size > 1:
            with self._agreeing():
                dist.all_reduce(tensor)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients over all processes; one that had nothing to learn from adds nothing."""
        if self.size == 1:
            return
        parameters = list(parameters)
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        with self._agreeing():
            dist.all_reduce(flat)
        for grad, part in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def most(self, *values: int) -> list[int]:
        """The greatest of each value over all processes."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.int64)
        with self._agreeing():
            dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self._control)
        return [int(value) for value in tensor.tolist()]

    def from_first(self, make: Callable[[], T]) -> T:
        """What `make` returns in process 0; it is not called elsewhere. If it raises an error there, all end."""
        if self.size == 1:
            return make()
        box: list[Any] = [None, None]
        failure: Exception | None = None
        if self.is_first:
            try:
                box[0] = make()
            except Exception as error:
                failure, box[1] = error, getattr(error, "exit_status", 1)
        with self._agreeing():
            dist.broadcast_object_list(box, group=self._control)
        if failure is not None:
            raise failure
        if box[1] is not None:
            raise SystemExit(box[1])  # process 0 tells why
        result: T = box[0]
        return result

    @contextmanager
    def _agreeing(self) -> Iterator[None]:
        """Around what all processes do together. Raises NmtError if one of them is gone."""
        try:
            yield
        except RuntimeError as error:
            if out_of_memory(error):
                raise
            reason = str(error).partition("\n")[0]
            raise NmtError(
                f"process {self.rank} ends because another has ended, which may say why: {reason}"
            ) from error


@contextmanager
def joined(on_gpu: bool) -> Iterator[World]:
    """The world that `torchrun` has set up around this process; without it, this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World()
        return
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ConfigError([f"WORLD_SIZE is set, but not {', '.join(missing)}: start several processes with torchrun"])
    local_rank = int(os.environ["LOCAL_RANK"])
    if on_gpu and local_rank >= torch.cuda.device_count():
        raise ConfigError([f"process {local_rank} of this machine finds only {torch.cuda.device_count()} GPUs"])
    if on_gpu:
        torch.cuda.set_device(local_rank)
    # Its functions take the group that they find when they are imported as a default. Imported later, by the first step
    # of an optimizer, they would keep the group's threads alive while the interpreter ends, and that can abort.
    import_module("torch.distributed.nn")
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=PATIENCE)
    try:
        control = dist.new_group(backend="gloo", timeout=PATIENCE) if on_gpu else None
        yield World(dist.get_rank(), dist.get_world_size(), control)
    finally:
        dist.destroy_process_group()
