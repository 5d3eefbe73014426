"""The part of `check.py` that compares losses and gradients between GPU and CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from nmt.data.batching import Packing
from nmt.data.rows import RowPacking
from nmt.model.device import Halves, autocast
from nmt.model.transformer import Transformer
from nmt.training import loss as loss_module
from nmt.training.loss import token_loss
from scripts.gpu.setting import PLAIN, RDROP, SIMCUT, Check, Found

LIMITS = {"float32": (1e-4, 1e-3), "bf16": (5e-3, 5e-2), "fp16": (5e-3, 5e-2)}
"""Largest relative differences of the loss and of the gradient from those of a CPU in float32."""
FP16_SCALE = 1024.0


def agreement(check: Check) -> Found:
    """Loss and gradient of a batch, by both layouts and all objectives, against a CPU's in float32."""
    sizes = [f"model.{name}={value}" for name, value in check.sizes.small_model.items()]
    makers: dict[str, RowPacking | Packing] = {"rows": RowPacking(check.pairs), "packed": Packing(check.pairs)}
    for layout, maker in makers.items():
        batch = maker.batch(np.arange(check.sizes.n_compared))
        for name, changes in {"plain": PLAIN, "SimCut": SIMCUT, "R-Drop": RDROP}.items():
            config = check.config(*sizes, *changes)
            plain = {field: 0.0 for field in type(config.model).model_fields if "dropout" in field}
            torch.manual_seed(1)
            model = Transformer(config.model.model_copy(update=plain), check.sizes.vocabulary, check.sizes.vocabulary)
            expected = learned(model, batch, config.training, "float32", torch.device("cpu"))
            model = model.to(check.device)
            for precision in LIMITS:
                found: dict[str, Any] = {"way": f"{name}, {layout}, {precision}"}
                if (
                    layout == "packed"
                    and (why := check.packing_obstacle(precision, check.sizes.small_model)) is not None
                ):
                    yield {**found, "left_out": why}
                    continue
                here = learned(model, batch.to(check.device), config.training, precision, check.device)
                yield {**found, **apart(here, expected, LIMITS[precision])}


Learned = tuple[Tensor, dict[str, Tensor]]


def learned(model: Transformer, batch: Any, settings: Any, precision: str, device: torch.device) -> Learned:
    """The loss per token and the gradient of each parameter, on the CPU."""
    model.zero_grad(set_to_none=True)
    scale = FP16_SCALE if precision == "fp16" else 1.0
    halves = None if precision == "float32" else Halves(model, precision)
    with drawn_alike(settings.consistency), autocast(precision, device):
        sums = token_loss(model, batch, settings, None if halves is None else halves.twin)
    (sums.loss * scale / sums.n_tokens).backward()  # type: ignore[no-untyped-call]
    if halves is not None:
        halves.collect()
    grads = {name: p.grad.cpu() / scale for name, p in model.named_parameters() if p.grad is not None}
    return (sums.loss.detach() / sums.n_tokens).cpu(), grads


def drawn_alike(consistency: str) -> AbstractContextManager[object]:
    """A context in which what is cut is drawn alike on all devices, and the second pass of R-Drop, for want of dropout
    that is, is that of SimCut."""

    def kept(batch: Any, *_: object) -> list[Tensor]:
        rng = np.random.default_rng(1)
        sides = (batch.src, batch.tgt_in)
        return [torch.from_numpy(rng.random(ids.shape) > 0.1).to(ids.device) for ids in sides]

    plain = loss_module._states
    n_passes = 0

    def states(batch: Any, forward: Callable[..., Tensor], *cut: Tensor) -> Tensor:
        nonlocal n_passes
        n_passes += 1
        return plain(batch, forward, *(cut or (kept(batch, 0) if n_passes == 2 else ())))

    if consistency == "none":
        return nullcontext()
    return mock.patch.multiple(loss_module, _states=states, _kept=kept)


def apart(found: Learned, expected: Learned, limits: tuple[float, float]) -> dict[str, Any]:
    """Return the relative differences, and the parameter with the largest."""
    loss = float((found[0] - expected[0]).abs() / expected[0].abs())
    one, other = (torch.cat([grad.flatten() for grad in each[1].values()]) for each in (found, expected))
    gradient = float((one - other).norm() / other.norm())
    by_name = {
        name: float((found[1][name] - grad).norm() / grad.norm())
        for name, grad in expected[1].items()
        if grad.norm() > 0.01 * other.norm()
    }
    worst = max(by_name, key=lambda name: by_name[name])
    return {
        "loss": float(f"{loss:.2g}"),
        "gradient": float(f"{gradient:.2g}"),
        "worst": {worst: float(f"{by_name[worst]:.2g}")},
        "ok": found[1].keys() == expected[1].keys() and loss <= limits[0] and gradient <= limits[1],
    }
