"""A model that outgrows a device: weights, gradients and moments are divided among the processes (`fully_shard`).

A layer's weights are together only while it is at work. All processes must therefore run forward and backward equally
often. What is saved and validated is the whole model, which process 0 alone puts together.

PyTorch's modules for this take half a second to import, which a run that divides nothing need not wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from nmt.model.transformer import Transformer
from nmt.runs.checkpoint import Tensors
from nmt.training.parallel.world import World

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def shard(model: Transformer, device: torch.device, world: World) -> None:
    """Divide a model, which need not be on the device yet, among all processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = world.mesh = init_device_mesh(device.type, (world.size,))
    # The decoder makes keys and values of the memory before its layers run: together from forward to end of backward,
    # as is what belongs to no layer: embeddings and the output weight.
    attentions = [layer.cross_attention for layer in model.decoder.layers if layer.cross_attention is not None]
    together = fully_shard(list[nn.Module](attentions), mesh=mesh, reshard_after_forward=False)[0]
    for layer in (*model.encoder.layers, *model.decoder.layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):  # gradients are summed: the loss is already divided by all tokens
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    model.register_forward_pre_hook(lambda *_: together.unshard())  # one is enough, they are one group


def is_sharded(model: nn.Module) -> bool:
    """Whether `shard` has divided this model."""
    return hasattr(model, "reshard")


def _divided(tensor: Tensor) -> DTensor | None:
    """The tensor, if it is divided."""
    return cast("DTensor", tensor) if hasattr(tensor, "placements") else None


def local(tensor: Tensor) -> Tensor:
    """This process's part of a tensor, sharing its memory; all of one that is not divided."""
    divided = _divided(tensor)
    return tensor if divided is None else divided.to_local()


def whole(tensor: Tensor) -> Tensor:
    """A tensor put together from its parts: all processes call this at once. One that is not divided stays as it is."""
    divided = _divided(tensor)
    return tensor if divided is None else divided.full_tensor()


def all_whole(tensors: Mapping[str, Tensor], world: World) -> Tensors:
    """All of them, one after the other; in the memory of the processor of process 0, and nothing elsewhere."""
    found: Tensors = {}
    with world.agreeing():
        for name, tensor in tensors.items():
            full = whole(tensor)
            if world.is_first:
                found[name] = full if full is tensor else full.cpu()
    return found


def like(full: Tensor, parameter: Tensor) -> Tensor:
    """This process's part of a whole tensor, divided as the parameter it belongs to is; single numbers are not."""
    divided = _divided(parameter)
    if divided is None or not full.dim():
        return full
    from torch.distributed.tensor import distribute_tensor

    full = full.to(divided.device)
    return distribute_tensor(full, divided.device_mesh, divided.placements, src_data_rank=None)
