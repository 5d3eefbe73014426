"""Data-parallel training in several processes (`torchrun -m -- nmt train …`); a no-op with one process.

Each rank learns from its share of every update, and gradients are summed over ranks. Only rank 0 writes files,
validates and reads the clock, and it broadcasts its decisions.

`training.parallel: ddp` wraps model and loss in DistributedDataParallel, which exchanges gradients during the last
backward pass of an update. Every rank makes that pass exactly once, so the ranks may have different numbers of
micro-batches before it.

`training.parallel: fsdp` shards weights, gradients and moments over the ranks. A layer's weights are gathered only
while it runs, so all ranks must run forward and backward equally often. Only rank 0 gathers the full model, to save and
validate it. PyTorch's modules for sharding take half a second to import, so they are imported only where a model is
sharded.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from nmt.errors import ConfigError, NmtError
from nmt.model.device import out_of_memory
from nmt.model.transformer import Model
from nmt.runs.checkpoint import Tensors

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor


T = TypeVar("T")
TIMEOUT = timedelta(hours=2)  # of a collective: the others wait while rank 0 validates
DISCONNECTED = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")


class World:
    """The process group of a run of `size` ranks, of which this process is `rank`."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size
        self.mesh: DeviceMesh | None = None

    @property
    def is_rank0(self) -> bool:
        """Whether this process is rank 0, which writes files and makes decisions."""
        return self.rank == 0

    def set_device(self, device: torch.device) -> None:
        """Select the GPU of this rank by LOCAL_RANK. Raises ConfigError if there are too few GPUs."""
        if self.size == 1 or device.type != "cuda":
            return
        local_rank = int(os.environ["LOCAL_RANK"])
        if local_rank >= (n_gpus := torch.cuda.device_count()):
            problem = f"rank {self.rank}: no GPU for local rank {local_rank}, since this machine has {n_gpus}"
            raise ConfigError(f"{problem}; start fewer processes with torchrun --nproc-per-node")
        torch.cuda.set_device(local_rank)

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum a tensor over all ranks, in place."""
        if self.size > 1:
            with self.collective():
                dist.all_reduce(tensor)

    def max_over_ranks(self, *values: int) -> list[int]:
        """Return the maximum of each value over all ranks."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.int64)
        with self.collective():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return [int(value) for value in tensor.tolist()]

    def broadcast(self, tensor: Tensor) -> None:
        """Overwrite a CPU tensor with the tensor of rank 0."""
        if self.size > 1:
            with self.collective():
                dist.broadcast(tensor, 0)

    def on_rank0(self, call: Callable[[], T], serve: Callable[[str], object] | None = None) -> T:
        """Call a function on rank 0 only and return its result on all ranks; an error on rank 0 ends all ranks.

        Meanwhile the other ranks call `serve` with each message that `call` passes to `request`.
        """
        if self.size == 1:
            return call()
        if not self.is_rank0:
            return cast(T, self._serve(serve))
        try:
            result = call()
        except Exception as error:
            with suppress(NmtError):  # if the others are gone, this error says more
                self._broadcast_message("exit", getattr(error, "exit_status", 1))
            raise
        self._broadcast_message("result", result)
        return result

    def request(self, message: str) -> None:
        """Make the other ranks call their `serve` with `message`; called by rank 0 within `on_rank0`."""
        if self.size > 1:
            self._broadcast_message("request", message)

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Run a block on all ranks; an error on any rank ends all of them.

        If several ranks have the same error, only the first raises it, so that it is reported once.
        """
        if self.size == 1:
            yield
            return
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        report = None if failure is None else (str(failure), int(getattr(failure, "exit_status", 1)))
        failures: list[tuple[str, int] | None] = [None] * self.size
        with self.collective():
            dist.all_gather_object(failures, report)
        if failure is not None and failures.index(report) == self.rank:
            raise failure
        if any(failures):
            raise SystemExit(max(other[1] for other in failures if other))

    def _serve(self, serve: Callable[[str], object] | None) -> object:
        """Answer the requests of rank 0 until it broadcasts its result, and return that result."""
        while True:
            kind, value = self._broadcast_message()
            if kind == "exit":
                raise SystemExit(cast(int, value))  # rank 0 reports why
            if kind == "result":
                return value
            assert serve is not None, "rank 0 makes requests only where the others serve them"
            serve(str(value))

    def _broadcast_message(self, *message: object) -> list[object]:
        """Broadcast a message from rank 0 and return it on all ranks."""
        box: list[object] = [message]
        with self.collective():
            dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
        return [*cast(tuple[object, ...], box[0])]

    @contextmanager
    def collective(self, in_pass: bool = False) -> Iterator[None]:
        """Run a collective operation. If another rank is gone, rank 0 raises NmtError and the others exit.

        `in_pass` is for a forward and backward pass that includes collectives: errors of the computation itself are
        raised unchanged.
        """
        try:
            with nullcontext() if in_pass else record_function("other processes"):
                yield
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            if out_of_memory(error) or (in_pass and not (isinstance(error, dist.DistError) or "gloo" in reason)):
                raise
            if not self.is_rank0 and any(sign in reason for sign in DISCONNECTED):
                raise SystemExit(1) from error
            raise NmtError(
                f"rank {self.rank} ends because another rank has ended; see the error of that rank, if any: {reason}"
            ) from error


@contextmanager
def joined() -> Iterator[World]:
    """Join the process group set up by `torchrun`; without `torchrun`, the world is this process only.

    Decisions are exchanged between CPUs (gloo), so that they do not wait for a GPU; NCCL carries GPU tensors only.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World()
        return
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ConfigError(f"WORLD_SIZE is set without {', '.join(missing)}; start the processes with torchrun")
    # The defaults of its functions are bound to the process group that exists at import. Imported later, by the first
    # step of an optimizer, they would keep the group's threads alive at interpreter exit, which can abort the process.
    import_module("torch.distributed.nn")
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        store=meet(store, rank, size),
        rank=rank,
        world_size=size,
        timeout=TIMEOUT,
    )
    world = World(rank, size)
    try:
        yield world
    except NmtError as error:
        if not world.is_rank0 and not str(error).startswith("rank "):
            error.args = (f"rank {world.rank}: {error.args[0]}", *error.args[1:])
        raise
    finally:
        # torchrun sends SIGTERM to all ranks as soon as one has ended; this one may still have an error to report
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _release_group(world, sys.exc_info()[1])
        dist.destroy_process_group()


def _release_group(world: World, error: BaseException | None) -> None:
    """Drop the references to the process group, whose threads can otherwise abort interpreter exit."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()
    if world.mesh is not None:
        vars(world.mesh).get("_pg_registry", {}).clear()  # PyTorch's cache would keep the mesh


POLL_SECONDS = 0.02


def meet(store: Store, rank: int, size: int) -> Store:
    """Return a namespace of `store` that is shared only by the `size` processes of this launch.

    After a restart, the store still holds the keys of dead processes; a new random name separates them.
    """
    key = uuid4().hex
    if rank == 0:
        store.set("nmt/name", key)
        for other in range(1, size):
            answer = store.get(f"nmt/{key}/{other}").decode()  # blocks until it is set
            store.set(f"nmt/{key}/{answer}", "heard")
        return PrefixStore(key, store)
    name = ""
    while not name or not store.check([f"nmt/{name}/{key}"]):  # a dead rank 0 acknowledges nothing
        if (newest := store.get("nmt/name").decode()) != name:
            name = newest
            store.set(f"nmt/{name}/{rank}", key)
        time.sleep(POLL_SECONDS)
    return PrefixStore(name, store)


def replicate(objective: nn.Module, exchange: torch.dtype) -> DistributedDataParallel:
    """Wrap model and loss in DistributedDataParallel, which averages gradients over ranks in format `exchange`."""
    # The tables of sinusoidal positions are buffers that grow with the longest sentence of a rank, so they are not
    # broadcast. Recent versions of PyTorch have renamed the argument.
    names = signature(DistributedDataParallel).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
    options: dict[str, Any] = {buffers: False, "init_sync": False}  # all ranks start from the same weights
    wrapped = DistributedDataParallel(objective, gradient_as_bucket_view=True, **options)
    if exchange == torch.bfloat16:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

        # in a function, since PyTorch refuses this hook by its name on a CPU
        wrapped.register_comm_hook(None, lambda group, bucket: bf16_compress_hook(group, bucket))
    return wrapped


def shard(model: Model, device: torch.device, world: World, exchange: torch.dtype = torch.float32) -> None:
    """Shard a model over all ranks and move it to the device. Gradients are summed in format `exchange`."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    world.mesh = mesh = world.mesh or init_device_mesh(device.type, (world.size,))
    policy = MixedPrecisionPolicy(reduce_dtype=exchange)
    # The decoder projects the encoder output to keys and values before its layers run, so these weights stay gathered
    # from forward to the end of backward, as do those outside of any layer: embeddings and output weight.
    layers = [layer for stack in model.stacks for layer in stack.layers]
    attentions = [module for name, module in model.named_modules() if name.endswith(".cross_attention")]
    groups = fully_shard(attentions, mesh=mesh, reshard_after_forward=False, mp_policy=policy)[:1] if attentions else []
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    for module in model.modules():
        if isinstance(module, FSDPModule):  # gradients are summed: the loss is already divided by all tokens
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    for group in groups:  # all of them
        model.register_forward_pre_hook(partial(_unshard, group))


def _unshard(group: FSDPModule, *_: object) -> None:
    group.unshard()


def is_sharded(model: nn.Module) -> bool:
    """Return whether a model is sharded over ranks."""
    return hasattr(model, "reshard")


def _as_dtensor(tensor: Tensor) -> DTensor | None:
    """Return a tensor as a DTensor if it is sharded, or None."""
    return cast("DTensor", tensor) if hasattr(tensor, "placements") else None


def to_local(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a tensor, which shares its memory. An unsharded tensor is returned unchanged."""
    sharded = _as_dtensor(tensor)
    return tensor if sharded is None else sharded.to_local()


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a tensor from its shards; this is a collective operation. An unsharded tensor is returned unchanged."""
    sharded = _as_dtensor(tensor)
    return tensor if sharded is None else sharded.full_tensor()


def gather_tensors(tensors: Mapping[str, Tensor], world: World) -> Tensors:
    """Gather tensors one after the other onto the CPU of rank 0; other ranks return an empty dict.

    Unsharded tensors stay on their device.
    """
    gathered: Tensors = {}
    with world.collective():
        for name, tensor in tensors.items():
            full = full_tensor(tensor)
            if world.is_rank0:
                gathered[name] = full if full is tensor else full.cpu()
    return gathered


def shard_like(full: Tensor, parameter: Tensor) -> Tensor:
    """Shard a full tensor like the parameter to which it belongs. Scalars are not sharded."""
    sharded = _as_dtensor(parameter)
    if sharded is None or not full.dim():
        return full
    from torch.distributed.tensor import distribute_tensor

    full = full.to(sharded.device)
    return distribute_tensor(full, sharded.device_mesh, sharded.placements, src_data_rank=None)
