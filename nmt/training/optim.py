"""The optimizer, the learning rate schedules, and the moving average of the weights."""

from __future__ import annotations

import math
from inspect import unwrap

import torch
from torch import Tensor, nn

from nmt.config import TrainingConfig
from nmt.runs.checkpoint import Tensors
from nmt.training.parallel import to_local


def learning_rate(step: int, config: TrainingConfig, d_model: int, cooldown: tuple[int, int] | None = None) -> float:
    """Return the learning rate of update `step`, counted from 1.

    noam is equation 3 of Vaswani et al. (2017) times `factor`; the other schedules rise linearly to `peak_lr` at
    `warmup_steps`. Between the first and last step of `cooldown`, the rate falls linearly. Linear, cosine and the
    cool-down reach 0 one update after the last one, so that the last update still learns.
    """
    rate = _scheduled(step, config, d_model)
    if cooldown is None:
        return rate
    start, end = cooldown
    return rate * min(1.0, max(0.0, (end + 1 - step) / (end + 1 - start)))


def _scheduled(step: int, config: TrainingConfig, d_model: int) -> float:
    warmup = config.warmup_steps
    if config.schedule == "noam":
        return config.factor / math.sqrt(d_model) * min(1 / math.sqrt(step), step * math.pow(warmup, -1.5))
    if step <= warmup:
        return config.peak_lr * step / warmup
    done = min(1.0, (step - warmup) / (config.max_steps + 1 - warmup))
    match config.schedule:
        case "inverse_sqrt":
            return config.peak_lr * math.sqrt(warmup / step)
        case "linear":
            return config.peak_lr * (1.0 - done)
        case "cosine":
            return config.peak_lr * 0.5 * (1.0 + math.cos(math.pi * done))
        case "constant":
            return config.peak_lr


def make_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler:
    """Return the loss scaler for fp16, which does nothing with other number formats."""
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    scaler.scale(torch.zeros((), device=device))  # initialises it, since a rank may have nothing to scale
    return scaler


class Adam(torch.optim.Adam):
    """PyTorch's Adam without the decorators that import PyTorch's compiler, because that import takes a second."""

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return an optimizer of all parameters that are not frozen; weight decay applies to matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    beta1, beta2 = config.betas
    is_decoupled = config.optimizer == "adamw"
    return Adam(groups, lr=0.0, betas=(beta1, beta2), eps=config.eps, fused=True, decoupled_weight_decay=is_decoupled)


class Ema:
    """The exponential moving average of the weights of a model, by name; sharded if the model is."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters = list(model.parameters())
        self.tensors: Tensors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, step: int, has_learned: Tensor) -> None:
        """Update the average after update `step`; `has_learned` is 1.0, or 0.0 if the update was skipped.

        The decay is at most (1 + step) / (10 + step), so that the initial weights are soon forgotten.
        """
        share = (1 - min(self.decay, (1 + step) / (10 + step))) * has_learned
        own = [to_local(tensor) for tensor in self.tensors.values()]
        change = torch._foreach_sub([to_local(parameter) for parameter in self._parameters], own)
        torch._foreach_mul_(change, share)
        torch._foreach_add_(own, change)
