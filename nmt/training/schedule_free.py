"""Schedule-free AdamW (Defazio et al., 2024), which averages the weights where others lower the learning rate.

z takes the steps, and x is the average of all z, each weighted by the square of the highest learning rate so far. The
gradient is taken between them, at y = (1 - beta1) * z + beta1 * x, which the model holds; x is saved, validated and
translated with. To go back and forth between y and x in place would round: x is made as a copy, and y is saved too.

An update that is not finite is left out. A CPU knows that before the update. On a GPU the update is made and taken back
there, part by part, so that copies of a part are all the memory that this takes, since to ask would be to wait. The
counts, which are Python numbers, are taken back at the next update. Were the GPU then still at the gradient of the last
one, the host would wait for that: it is never ahead by more than one update, which the GPU has meanwhile to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import unwrap
from types import SimpleNamespace
from typing import Any

import torch
from schedulefree import AdamWScheduleFree
from torch import Tensor

from nmt.training.parallel.shard import to_local

OF_A_GROUP = ("k", "weight_sum", "lr_max")  # what the package counts, besides the tensors of each parameter
LOOKS = {"cpu"}  # devices whose numbers can be looked at without waiting
PART = 2**22
"""Numbers of parameters that are updated and taken back together."""


class _Counts:
    """The counts of all groups before an update, and whether it was left out, on its way from the device."""

    def __init__(self, before: list[dict[str, Any]], found_inf: Tensor) -> None:
        self.before = before
        self._found, self._arrived = found_inf.to("cpu", non_blocking=True), None
        if found_inf.device.type == "cuda":
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()

    def were_for_nothing(self) -> bool:
        """Whether the update was left out."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return bool(self._found)


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
        self._last: _Counts | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of y and z, or none if `found_inf` is not 0."""
        for parameter in self._parameters():  # here, so that there is something to save even if no update was finite
            if parameter not in self.state:
                self.state[parameter] = {"z": parameter.clone(), "exp_avg_sq": torch.zeros_like(parameter)}
        self._settle()
        found = self.found_inf
        if found is None or found.device.type in LOOKS:
            return None if found is not None and found else self._update(closure)
        self._last = _Counts([{key: group[key] for key in OF_A_GROUP} for group in self.param_groups], found)
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            self._update_unless(found != 0, group)
        return loss

    def _update(self, closure: Callable[[], float] | None) -> float | None:
        loss: float | None = super().step(closure)
        return loss

    def _update_unless(self, is_bad: Tensor, group: dict[str, Any]) -> None:
        """Update the parameters of a group part by part, and take each back if it is bad; the group's counts go on."""
        after = group
        # one part at least, without parameters, for the counts: a process may have no share of any
        for part in list(_parts([p for p in group["params"] if p.grad is not None])) or [[]]:
            state: dict[Tensor, dict[str, Tensor]] = {}
            for parameter, rows in part:
                piece = to_local(parameter).detach()[rows]
                piece.grad = to_local(parameter.grad)[rows]  # type: ignore[arg-type]
                state[piece] = {name: to_local(value)[rows] for name, value in self.state[parameter].items()}
            tensors = [each for piece, values in state.items() for each in (piece, *values.values())]
            before = torch._foreach_mul(tensors, 1.0) if tensors else []
            after = {**group, "params": list(state)}
            unwrap(AdamWScheduleFree.step)(SimpleNamespace(param_groups=[after], state=state))
            for old, new in zip(before, tensors, strict=True):
                torch.where(is_bad, old, new, out=new)
        group.update({**after, "params": group["params"]})

    def _settle(self) -> None:
        """Take back the counts of the last update if that was left out."""
        if self._last is not None and self._last.were_for_nothing():
            for group, counts in zip(self.param_groups, self._last.before, strict=True):
                group.update(counts)
        self._last = None

    @torch.no_grad()
    def averages(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """x of every one of these weights that has learned; the others, as those that are frozen, stay as they are."""
        weight = 1 - 1 / self.defaults["betas"][0]
        return {name: y.lerp(self.state[y]["z"], weight) if y in self.state else y for name, y in weights.items()}

    def state_dict(self) -> dict[str, Any]:
        """The state by parameter, y included; what belongs to a group is with its first parameter."""
        self._settle()
        saved = super().state_dict()
        state = {n: {**values, "y": self._parameters()[n]} for n, values in saved["state"].items()}
        for group in saved["param_groups"]:
            counts = {key: torch.tensor(group[key], dtype=torch.float64) for key in OF_A_GROUP}
            state.get(group["params"][0], {}).update(counts)
        return {**saved, "state": state}

    @torch.no_grad()
    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The reverse of `state_dict`: it sets the parameters, too."""
        self._last = None
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


def _parts(parameters: list[Tensor]) -> Iterator[list[tuple[Tensor, Any]]]:
    """The parameters of this process by rows, in parts of about PART numbers: each parameter with which of its rows."""
    part: list[tuple[Tensor, Any]] = []
    size = 0
    for parameter in parameters:
        here = to_local(parameter)
        n_rows = len(here) if here.dim() else 1
        step = max(1, PART * n_rows // max(1, here.numel()))
        for start in range(0, n_rows, step):
            rows = slice(start, start + step) if here.dim() else ...
            part.append((parameter, rows))
            size += min(step, n_rows - start) * here.numel() // n_rows
            if size >= PART:
                yield part
                part, size = [], 0
    if part:
        yield part
