"""An exponential moving average of the weights, in float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.runs.checkpoint import Tensors
from nmt.training.parallel.shard import to_local


class Ema:
    """The average of a model's weights, by name; sharded over ranks if the model is."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors: Tensors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int, has_learned: Tensor) -> None:
        """Update the average after update number `step`, unless that was skipped: `has_learned` is 1.0 or 0.0.

        The decay is at most (1 + step) / (10 + step), so that the initial weights are soon forgotten.
        """
        share = (1 - min(self.decay, (1 + step) / (10 + step))) * has_learned
        own = [to_local(tensor) for tensor in self.tensors.values()]
        change = torch._foreach_sub([to_local(parameter) for parameter in model.parameters()], own)
        torch._foreach_mul_(change, share)
        torch._foreach_add_(own, change)
