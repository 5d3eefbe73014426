"""An exponential moving average of the weights, in float32, beside the model that learns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.runs.checkpoint import Tensors
from nmt.training.parallel.shard import local


class Ema:
    """The average of a model's weights, by name; divided among processes where the model is."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors: Tensors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int, has_learned: Tensor) -> None:
        """Take in the weights after update number `step`, unless it changed nothing: `has_learned` is 1. or 0.

        Young averages forget faster, so that the first weights do not stay in them for long.
        """
        share = (1 - min(self.decay, (1 + step) / (10 + step))) * has_learned
        own = [local(tensor) for tensor in self.tensors.values()]
        change = torch._foreach_sub([local(parameter) for parameter in model.parameters()], own)
        torch._foreach_mul_(change, share)
        torch._foreach_add_(own, change)
