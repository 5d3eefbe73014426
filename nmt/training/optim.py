"""The optimizer, the learning rate schedules, and the moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from nmt.runs.checkpoint import Tensors
from nmt.training.parallel import to_local
from nmt.training.settings import DECAYS, TrainingConfig


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
        case "constant":
            return config.peak_lr
        case name:
            return config.peak_lr * DECAYS[name](done)


def make_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler:
    """Return the loss scaler for fp16, which does nothing with other number formats."""
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    scaler.scale(torch.zeros((), device=device))  # initialises it, since a rank may have nothing to scale
    return scaler


class Adam(torch.optim.Adam):
    """PyTorch's Adam without the decorators that import PyTorch's compiler, because that import takes a second."""

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class Muon(Adam):
    """Muon (Jordan et al., 2024) for the groups of matrices that have `blocks`, and Adam for all others.

    The momentum of a matrix is replaced by the nearest orthogonal matrix, approximately, scaled such that its elements
    are as large as in Adam's updates (Liu et al., 2025, arXiv:2502.16982), so that both learn with the same
    learning rate. A matrix of several projections is made of as many `blocks` of rows, each orthogonal by itself.
    """

    dtype = torch.float32
    """The number format of the products."""
    found_inf: Tensor | None = None
    """1.0 if the next update must change nothing; see `train_step`."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Make an update."""
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor, Tensor]]] = {}
        for group in self.param_groups:
            learning = [weight for weight in group["params"] if "blocks" in group and weight.grad is not None]
            for weight in learning:
                state = self.state[weight]
                if not state:  # Adam's `__setstate__` needs a step
                    state |= {"momentum": torch.zeros_like(weight), "step": torch.zeros(())}
                tensors = weight, weight.grad, state["momentum"]
                blocks = (x.view(group["blocks"], -1, x.size(1)) for x in tensors)
                for block in zip(*blocks, strict=True):
                    by_shape.setdefault(block[0].shape, []).append(block)
                weight.grad = None  # not one of Adam's
        first = self.param_groups[0]
        learns = first["params"][0].new_ones(()) if self.found_inf is None else 1 - self.found_inf
        lr = first["lr"] * learns
        for shape, tensors_of_shape in by_shape.items():
            weights, grads, momenta = map(list, zip(*tensors_of_shape, strict=True))
            grad = torch.stack(grads).masked_fill_(learns == 0, 0)
            momentum = torch.stack(momenta).lerp_(grad, (1 - MOMENTUM) * learns)
            torch._foreach_copy_(momenta, momentum.unbind())
            change = orthogonal(grad.lerp_(momentum, MOMENTUM), self.dtype)
            torch._foreach_mul_(weights, 1 - lr * first["weight_decay"])
            torch._foreach_sub_(weights, (change * (lr * 0.2 * math.sqrt(max(shape)))).unbind())
        super().step()


MOMENTUM = 0.95
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""The polynomial a x + b x^3 + c x^5 that, applied five times, brings singular values from 0.01 to 1 near 1."""


def orthogonal(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the matrices (N, R, C) with all singular values near 1, computed in `dtype` (Newton-Schulz iteration)."""
    is_tall = x.size(-2) > x.size(-1)
    result = (x.mT if is_tall else x).to(dtype)
    result = result / (result.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(5):
        gram = result @ result.mT
        result = torch.baddbmm(result, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), result, beta=a)
    return (result.mT if is_tall else result).to(x.dtype)


def make_optimizer(
    model: nn.Module, config: TrainingConfig, precision: str = "float32", undecayed: Collection[str] = ()
) -> torch.optim.Optimizer:
    """Return an optimizer of all parameters that are not frozen; weight decay applies to matrices that are not named in
    `undecayed`.

    With bf16 as `precision`, Muon's matrix products are in bf16, otherwise in float32.
    """
    blocks: list[dict[str, Any]] = [{"params": [], "weight_decay": config.weight_decay, "blocks": n} for n in (1, 3)]
    matrices: dict[str, Any] = {"params": [], "weight_decay": config.weight_decay}
    vectors: dict[str, Any] = {"params": [], "weight_decay": 0.0}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.dim() <= 1 or name in undecayed:
            group = vectors
        elif config.optimizer == "muon" and ".layers." in name:
            group = blocks[name.endswith("in_weight")]  # projections of query, key and value
        else:
            group = matrices
        group["params"].append(parameter)
    beta1, beta2 = config.betas
    kind = Muon if any(group["params"] for group in blocks) else Adam
    optimizer = kind(
        [group for group in (*blocks, matrices, vectors) if group["params"]],
        lr=0.0,
        betas=(beta1, beta2),
        eps=config.eps,
        fused=True,
        decoupled_weight_decay=config.optimizer != "adam",
    )
    if isinstance(optimizer, Muon) and precision == "bf16":
        optimizer.dtype = torch.bfloat16
    return optimizer


class Ema:
    """The exponential moving average of the weights of a model, by name; sharded if the model is."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors: Tensors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self, parameters: Sequence[nn.Parameter], step: int, has_learned: Tensor) -> None:
        """Update the average after update `step`; `has_learned` is 1.0, or 0.0 if the update was skipped.

        The decay is at most (1 + step) / (10 + step), so that the initial weights are soon forgotten.
        """
        share = (1 - min(self.decay, (1 + step) / (10 + step))) * has_learned
        averages = [to_local(tensor) for tensor in self.tensors.values()]
        change = torch._foreach_sub([to_local(parameter) for parameter in parameters], averages)
        torch._foreach_mul_(change, share)
        torch._foreach_add_(averages, change)
