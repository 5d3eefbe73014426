"""PyTorch's data parallel training: each rank learns from its share of an update, and gradients are summed over ranks.

`training.parallel: ddp` wraps model and loss in DistributedDataParallel, which exchanges gradients during the last
backward pass of an update. Every rank makes that pass exactly once, so the ranks may have different numbers of
micro-batches before it.

`training.parallel: fsdp` shards weights, gradients and moments over the ranks. A layer's weights are gathered only
while it runs, so all ranks must run forward and backward equally often. What is saved and validated is the full model,
which only rank 0 gathers.

PyTorch's modules for sharding take half a second to import, so they are imported only where a model is sharded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.model.transformer import Model
from nmt.runs.checkpoint import Tensors
from nmt.training.parallel.world import World

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

EXCHANGE_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
"""Number formats of `training.exchange_precision`."""


def replicate(objective: nn.Module, exchange: torch.dtype) -> DistributedDataParallel:
    """Wrap model and loss, of which each rank has a copy; gradients are averaged in format `exchange`."""
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
    """Shard a model, which need not be on the device yet, over all ranks; gradients are summed in format `exchange`."""
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
    """Whether `shard` has sharded this model."""
    return hasattr(model, "reshard")


def _as_dtensor(tensor: Tensor) -> DTensor | None:
    """Return the tensor if it is sharded, else None."""
    return cast("DTensor", tensor) if hasattr(tensor, "placements") else None


def to_local(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a tensor, sharing its memory; an unsharded tensor itself."""
    sharded = _as_dtensor(tensor)
    return tensor if sharded is None else sharded.to_local()


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a tensor from its shards, a collective operation; an unsharded tensor is returned as it is."""
    sharded = _as_dtensor(tensor)
    return tensor if sharded is None else sharded.full_tensor()


def gather_tensors(tensors: Mapping[str, Tensor], world: World) -> Tensors:
    """Gather tensors one after the other onto the CPU of rank 0; other ranks return an empty dict.

    Those that are not sharded stay where they are.
    """
    gathered: Tensors = {}
    with world.collective():
        for name, tensor in tensors.items():
            full = full_tensor(tensor)
            if world.is_rank0:
                gathered[name] = full if full is tensor else full.cpu()
    return gathered


def shard_like(full: Tensor, parameter: Tensor) -> Tensor:
    """Shard a full tensor as the parameter that it belongs to; a scalar stays whole."""
    sharded = _as_dtensor(parameter)
    if sharded is None or not full.dim():
        return full
    from torch.distributed.tensor import distribute_tensor

    full = full.to(sharded.device)
    return distribute_tensor(full, sharded.device_mesh, sharded.placements, src_data_rank=None)
