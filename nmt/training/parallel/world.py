"""Several processes that train one model (`torchrun -m -- nmt train …`), or one alone, which none of this concerns.

Every process learns from its share of each update; gradients are summed over all. Process 0 alone writes, validates
and looks at the clock, and what it decides the others are told.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.profiler import record_function

from nmt.errors import ConfigError, NmtError, StoppedError
from nmt.model.device import out_of_memory
from nmt.process import Stop

T = TypeVar("T")
PATIENCE = timedelta(hours=2)  # with the others, while process 0 validates
GRACE_SECONDS = 20.0  # from a signal to the end of a process that waits for process 0
GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")


class World:
    """All processes of a run. `rank` is this one's number among `size`."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.stop = Stop()
        self.mesh: DeviceMesh | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def take_device(self, device: torch.device) -> None:
        """Have this process work on a GPU of its own. Raises ConfigError if there are too few."""
        if self.size == 1 or device.type != "cuda":
            return
        local_rank = int(os.environ["LOCAL_RANK"])
        if local_rank >= torch.cuda.device_count():
            raise ConfigError([f"process {local_rank} of this machine finds only {torch.cuda.device_count()} GPUs"])
        torch.cuda.set_device(local_rank)

    def sum_(self, tensor: Tensor) -> None:
        """Add up a tensor over all processes, in place."""
        if self.size > 1:
            with self.agreeing():
                dist.all_reduce(tensor)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients over all processes; one that had nothing to learn from adds nothing."""
        if self.size == 1:
            return
        parameters = [parameter for parameter in parameters if parameter.requires_grad]  # not those that are frozen
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        self.sum_(flat)
        for grad, part in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def most(self, *values: int) -> list[int]:
        """The greatest of each value over all processes."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.int64)
        with self.agreeing():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return [int(value) for value in tensor.tolist()]

    def send(self, tensor: Tensor) -> None:
        """Overwrite a tensor of a processor's memory with that of process 0."""
        if self.size > 1:
            with self.agreeing():
                dist.broadcast(tensor, 0)

    def from_first(self, make: Callable[[], T], help_: Callable[[str], object] | None = None) -> T:
        """What `make` returns in process 0; it is not called elsewhere. If it raises an error there, all end.

        Meanwhile the others `help_` with what `make` may `ask` for.
        """
        if self.size == 1:
            return make()
        if not self.is_first:
            followed: T = self._follow(help_)
            return followed
        try:
            made = make()
        except Exception as error:
            with suppress(NmtError):  # should the others be gone, this error says more
                self._tell("end", getattr(error, "exit_status", 1))
            raise
        self._tell("made", made)
        return made

    def ask(self, what: str) -> None:
        """In process 0, within `from_first`: have the others call their `help_` with `what`."""
        if self.size > 1:
            self._tell("ask", what)

    def together(self, make: Callable[[], T]) -> T:
        """What `make` returns in each process. If it raises an error anywhere, all end, and the same error is told
        once, whoever found it."""
        if self.size == 1:
            return make()
        failure: Exception | None = None
        try:
            made = make()
        except Exception as error:
            failure = error
        told: list[Any] = [None] * self.size
        with self.agreeing():
            dist.all_gather_object(told, failure and (str(failure), getattr(failure, "exit_status", 1)))
        if failure is not None and told.index(told[self.rank]) == self.rank:
            raise failure
        if any(told):
            raise SystemExit(max(each[1] for each in told if each))
        return made

    def _follow(self, help_: Callable[[str], object] | None) -> Any:
        """In another process than the first: do what that one tells."""
        while True:
            kind, value = self._told()
            if kind == "end":
                raise SystemExit(value)  # process 0 tells why
            if kind == "made":
                return value
            assert help_ is not None, "process 0 asks for help only where there is some"
            help_(value)

    def _tell(self, kind: str, value: object) -> None:
        """In process 0: tell all the others."""
        data = torch.frombuffer(bytearray(pickle.dumps((kind, value))), dtype=torch.uint8)
        self.send(torch.tensor([len(data)]))
        self.send(data)

    def _told(self) -> tuple[str, Any]:
        """What process 0 tells. Raises StoppedError if it has nothing to say for long, and this one is to stop."""
        length = torch.zeros(1, dtype=torch.int64)
        with self.agreeing():
            work, asked, pause = dist.broadcast(length, 0, async_op=True), None, 1e-4
            while not work.is_completed():
                time.sleep(pause)
                pause = min(1.2 * pause, 0.1)
                if self.stop.signal is not None:
                    asked = asked or time.monotonic()
                    if time.monotonic() - asked > GRACE_SECONDS:
                        raise StoppedError(f"stopped by {self.stop.signal}, while process 0 is busy")
            work.wait()
        data = torch.empty(int(length), dtype=torch.uint8)
        self.send(data)
        kind, value = pickle.loads(data.numpy().tobytes())
        return kind, value

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """Around what all processes do together. If one of them is gone, process 0 raises NmtError, the others end."""
        try:
            with record_function("other processes"):
                yield
        except RuntimeError as error:
            if out_of_memory(error):
                raise
            reason = str(error).partition("\n")[0]
            if not self.is_first and any(sign in reason for sign in GONE):
                raise SystemExit(1) from error
            raise NmtError(
                f"process {self.rank} ends because another has ended, which may say why: {reason}"
            ) from error


@contextmanager
def joined() -> Iterator[World]:
    """The world that `torchrun` has set up around this process; without it, this process alone.

    What is decided goes between processors (gloo), so that it waits for no GPU; only what lies on GPUs goes by NCCL.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World()
        return
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ConfigError([f"WORLD_SIZE is set, but not {', '.join(missing)}: start several processes with torchrun"])
    # Its functions take the group that they find when they are imported as a default. Imported later, by the first step
    # of an optimizer, they would keep the group's threads alive while the interpreter ends, and that can abort.
    import_module("torch.distributed.nn")
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        store=meet(store, rank, size),
        rank=rank,
        world_size=size,
        timeout=PATIENCE,
    )
    world = World(rank, size)
    try:
        yield world
    except NmtError as error:
        if not world.is_first and not str(error).startswith("process "):
            error.args = (f"process {world.rank}: {error.args[0]}", *error.args[1:])
        raise
    finally:
        # torchrun sends it to all as soon as one has ended; this one ends too, and may have something to say
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _let_go(world, sys.exc_info()[1])
        dist.destroy_process_group()


def _let_go(world: World, error: BaseException | None) -> None:
    """Forget what holds on to the process group: its threads would outlive it, and can abort the interpreter's end."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()
    if world.mesh is not None:
        vars(world.mesh).get("_pg_registry", {}).clear()  # a cache of PyTorch's keeps the mesh for ever


SECONDS_BETWEEN_LOOKS = 0.02


def meet(store: Store, rank: int, size: int) -> Store:
    """The part of `store` in which the living `size` processes are among themselves."""
    own = uuid4().hex
    if rank == 0:
        store.set("nmt/name", own)
        for other in range(1, size):
            answer = store.get(f"nmt/{own}/{other}").decode()  # waits for it
            store.set(f"nmt/{own}/{answer}", "heard")
        return PrefixStore(own, store)
    name = ""
    while not name or not store.check([f"nmt/{name}/{own}"]):  # a dead process 0 hears nothing
        if (newest := store.get("nmt/name").decode()) != name:
            name = newest
            store.set(f"nmt/{name}/{rank}", own)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return PrefixStore(name, store)
