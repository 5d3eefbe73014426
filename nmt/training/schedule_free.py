"""Schedule-free AdamW (Defazio et al., 2024), which averages the weights instead of lowering the learning rate.

z takes the steps, and x is the average of all z, each weighted by the square of the highest learning rate so far. The
gradient is taken between them, at y = (1 - beta1) * z + beta1 * x, which the model holds; x is saved, validated and
translated with. Converting between y and x in place would round, so x is computed as a copy, and y is saved as well.

Updates that are not finite are skipped. On a CPU this is decided before the update. On a GPU that would synchronise, so
the update is made and then undone on the device, chunk by chunk to save memory. The counters, which are Python numbers,
are restored at the next update; the host may wait there for the last gradient, so it is at most one update ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import unwrap
from types import EllipsisType, SimpleNamespace
from typing import Any

import torch
from schedulefree import AdamWScheduleFree
from torch import Tensor

from nmt.training.parallel.shard import to_local

Group = dict[str, Any]
"""Parameters and settings of a group of an optimizer."""
StateDict = dict[str, Any]
GROUP_COUNTERS = ("k", "weight_sum", "lr_max")  # of the package, besides the tensors of each parameter
SYNCHRONOUS = {"cpu"}  # devices whose values can be read without waiting
CHUNK = 2**22
"""Elements of parameters that are updated, and undone, together."""


class _Counters:
    """The counters of all groups before an update, and whether that was skipped, copied asynchronously to the CPU."""

    def __init__(self, before: list[Group], found_inf: Tensor) -> None:
        self.before = before
        self._found_inf, self._arrived = found_inf.to("cpu", non_blocking=True), None
        if found_inf.device.type == "cuda":
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()

    def was_skipped(self) -> bool:
        """Whether the update was skipped."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return bool(self._found_inf)


class ScheduleFree(AdamWScheduleFree):  # type: ignore[misc]  # the package is without types
    """The optimizer of the package `schedulefree`, with updates skipped where `found_inf` is set."""

    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)  # as in `nmt.training.optim.Adam`
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)

    def __init__(self, groups: Iterable[Group], betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, lr=0.0, betas=betas, eps=eps)
        for group in self.param_groups:
            group["train_mode"] = True  # always: the parameters are y; train() would create a state
        self.grad_scale: Tensor | None = None
        self.found_inf: Tensor | None = None
        self._last: _Counters | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one update of y and z, or none if `found_inf` is not 0."""
        for parameter in self._parameters():  # first, so that there is a state to save even if no update is finite
            if parameter not in self.state:
                self.state[parameter] = {"z": parameter.clone(), "exp_avg_sq": torch.zeros_like(parameter)}
        self._settle()
        found_inf = self.found_inf
        if found_inf is None or found_inf.device.type in SYNCHRONOUS:
            return None if found_inf is not None and found_inf else self._update(closure)
        self._last = _Counters([{key: group[key] for key in GROUP_COUNTERS} for group in self.param_groups], found_inf)
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            self._update_unless(found_inf != 0, group)
        return loss

    def _update(self, closure: Callable[[], float] | None) -> float | None:
        loss: float | None = super().step(closure)
        return loss

    def _update_unless(self, is_bad: Tensor, group: Group) -> None:
        """Update the parameters of a group chunk by chunk, undo each chunk if it is bad, and update the counters."""
        after = group
        # at least one chunk, if without parameters, for the counters: a rank may have no shard of any parameter
        for chunk in list(_chunks([p for p in group["params"] if p.grad is not None])) or [[]]:
            state: dict[Tensor, dict[str, Tensor]] = {}
            for parameter, rows in chunk:
                piece = to_local(parameter).detach()[rows]
                piece.grad = to_local(parameter.grad)[rows]  # type: ignore[arg-type]
                state[piece] = {name: to_local(value)[rows] for name, value in self.state[parameter].items()}
            tensors = [tensor for piece, values in state.items() for tensor in (piece, *values.values())]
            before = torch._foreach_mul(tensors, 1.0) if tensors else []
            after = {**group, "params": list(state)}
            unwrap(AdamWScheduleFree.step)(SimpleNamespace(param_groups=[after], state=state))
            for old, new in zip(before, tensors, strict=True):
                torch.where(is_bad, old, new, out=new)
        group.update({**after, "params": group["params"]})

    def _settle(self) -> None:
        """Restore the counters from before the last update if that was skipped."""
        if self._last is not None and self._last.was_skipped():
            for group, counters in zip(self.param_groups, self._last.before, strict=True):
                group.update(counters)
        self._last = None

    @torch.no_grad()
    def averages(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return x for each of these weights that has a state; the others, such as frozen ones, as they are."""
        weight = 1 - 1 / self.defaults["betas"][0]
        return {name: y.lerp(self.state[y]["z"], weight) if y in self.state else y for name, y in weights.items()}

    def state_dict(self) -> StateDict:
        """Return the state by parameter, y included; the counters of a group are with its first parameter."""
        self._settle()
        saved = super().state_dict()
        state = {n: {**values, "y": self._parameters()[n]} for n, values in saved["state"].items()}
        for group in saved["param_groups"]:
            counters = {key: torch.tensor(group[key], dtype=torch.float64) for key in GROUP_COUNTERS}
            state.get(group["params"][0], {}).update(counters)
        return {**saved, "state": state}

    @torch.no_grad()
    def load_state_dict(self, saved: StateDict) -> None:
        """Restore from `state_dict`, the parameters included."""
        self._last = None
        state = {n: dict(values) for n, values in saved["state"].items()}
        for n, parameter in enumerate(self._parameters()):
            parameter.copy_(state[n].pop("y"))
        groups = []
        for group in saved["param_groups"]:
            first = state[group["params"][0]]
            counters = {key: type(group[key])(first.pop(key)) for key in GROUP_COUNTERS}
            groups.append({**group, **counters})
        super().load_state_dict({"state": state, "param_groups": groups})

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]


def _chunks(parameters: list[Tensor]) -> Iterator[list[tuple[Tensor, slice | EllipsisType]]]:
    """Split this rank's parameters by rows into chunks of about CHUNK elements: (parameter, slice of its rows)."""
    chunk: list[tuple[Tensor, slice | EllipsisType]] = []
    size = 0
    for parameter in parameters:
        shard = to_local(parameter)
        n_rows = len(shard) if shard.dim() else 1
        step = max(1, CHUNK * n_rows // max(1, shard.numel()))
        for start in range(0, n_rows, step):
            rows = slice(start, start + step) if shard.dim() else ...
            chunk.append((parameter, rows))
            size += min(step, n_rows - start) * shard.numel() // n_rows
            if size >= CHUNK:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk
