"""Schedule-free AdamW (Defazio et al., 2024), which averages the weights where others lower the learning rate.

z takes the steps, and x is the average of all z, each weighted by the square of the highest learning rate so far. The
gradient is taken between them, at y = (1 - beta1) * z + beta1 * x, which the model holds; x is saved, validated and
translated with. To go back and forth between y and x in place would round: x is made as a copy, and y is saved too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import unwrap
from typing import Any

import torch
from schedulefree import AdamWScheduleFree
from torch import Tensor

OF_A_GROUP = ("k", "weight_sum", "lr_max")  # what the package counts, besides the tensors of each parameter


class ScheduleFree(AdamWScheduleFree):  # type: ignore[misc]  # the package is without types
    """The optimizer of the package `schedulefree`, which leaves out an update where `found_inf` is set."""

    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)  # as in `nmt.training.optim.Adam`
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, lr=0.0, betas=betas, eps=eps)
        for group in self.param_groups:
            group["train_mode"] = True  # for good, the parameters are always y; train() would begin a state
        self.grad_scale: Tensor | None = None
        self.found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of y and z, or none if `found_inf` is not 0."""
        for parameter in self._parameters():  # here, so that there is something to save even if no update was finite
            if parameter not in self.state:
                self.state[parameter] = {"z": parameter.clone(), "exp_avg_sq": torch.zeros_like(parameter)}
        if self.found_inf is not None and self.found_inf:
            return None
        loss: float | None = super().step(closure)
        return loss

    @torch.no_grad()
    def averages(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """x of every one of these weights that has learned; the others, as those that are frozen, stay as they are."""
        weight = 1 - 1 / self.defaults["betas"][0]
        return {name: y.lerp(self.state[y]["z"], weight) if y in self.state else y for name, y in weights.items()}

    def state_dict(self) -> dict[str, Any]:
        """The state by parameter, y included; what belongs to a group is with its first parameter."""
        saved = super().state_dict()
        state = {n: {**values, "y": self._parameters()[n]} for n, values in saved["state"].items()}
        for group in saved["param_groups"]:
            counts = {key: torch.tensor(group[key], dtype=torch.float64) for key in OF_A_GROUP}
            state.get(group["params"][0], {}).update(counts)
        return {**saved, "state": state}

    @torch.no_grad()
    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The reverse of `state_dict`: it sets the parameters, too."""
        state = {n: dict(values) for n, values in saved["state"].items()}
        for n, parameter in enumerate(self._parameters()):
            parameter.copy_(state[n].pop("y"))
        groups = []
        for group in saved["param_groups"]:
            first = state[group["params"][0]]
            counts = {key: type(group[key])(first.pop(key)) for key in OF_A_GROUP}
            groups.append({**group, **counts})
        super().load_state_dict({"state": state, "param_groups": groups})

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]
