"""The layout of batches and the compiled model, chosen by `training.layout` and `training.compile`.

Only the model is compiled, since fusing speeds up its many small operations. The loss is a few large products and
softmaxes with a gradient of its own, whose number of rows differs from batch to batch.

PyTorch's compiler takes seconds to import, so it is imported only where a model is compiled.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import replace

import torch
from torch import Tensor

from nmt.config import Config
from nmt.console import say
from nmt.errors import ConfigError, NmtError
from nmt.model.attention import packing_obstacle
from nmt.model.masks import Layout, Padded
from nmt.model.transformer import Model
from nmt.training.objective import Forward

BACKEND = "inductor"


def pick_layout(config: Config, device: torch.device, precision: str) -> str:
    """Return padded or packed. Raises ConfigError if packed is requested but not available."""
    setting, model = config.training.layout, config.model
    if setting == "padded" or (setting == "auto" and device.type == "cpu"):
        return "padded"
    reason = packing_obstacle(device, precision, model.d_model // model.n_heads, model.attention_dropout)
    if config.joins_sides:
        reason = "its kernel cannot show a decoder all of the source (model.kind: decoder)"
    if setting == "packed" and reason is not None:
        raise ConfigError([f"training.layout: packed is not possible: {reason}; use auto or padded"])
    return "packed" if reason is None else "padded"


def pick_compile(config: Config, device: torch.device, is_sharded: bool) -> bool:
    """Whether to compile the model. Raises ConfigError if that is requested but not available."""
    setting = config.training.compile
    if setting == "off" or (setting == "auto" and device.type == "cpu"):
        return False
    reason = "a sharded model (parallel: fsdp) is not compiled" if is_sharded else _no_compiler(device)
    if setting == "on" and reason is not None:
        raise ConfigError([f"training.compile: on is not possible: {reason}; use auto or off"])
    return reason is None


def _no_compiler(device: torch.device) -> str | None:
    """Return the reason why models cannot be compiled here; None if they can."""
    if device.type == "cpu":
        compilers, needed_for = (os.environ.get("CXX", "g++"), "clang++"), "a C++ compiler"
    else:
        if importlib.util.find_spec("triton") is None:
            return "it needs the package triton"
        if torch.cuda.get_device_capability(device) < (7, 0):
            return "it needs a GPU of compute capability 7.0 or later"
        compilers, needed_for = (os.environ.get("CC", "gcc"), "clang"), "a C compiler"
    return None if any(map(shutil.which, compilers)) else f"it needs {needed_for}, and there is no {compilers[0]}"


def compiled(model: Model, mode: str | None = None, cuts: bool = False) -> Forward:
    """Return the model's forward pass, compiled once for all batch sizes, at its first call; `mode`: of torch.compile.

    With `cuts`, passes without cut tokens (see `Embedding`) share the graph of those with. The first call raises
    NmtError if the model cannot be compiled. If a later recompilation fails, or there are too many, the model runs
    uncompiled from then on, with a message.
    """
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor
    import torch.fx.experimental._config as shapes
    import torch.nn.attention.varlen  # not while compiling
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    dynamo.optimize_ddp = False  # the graph stays whole; split in buckets it has not been tried with dynamic sizes
    shapes.use_duck_shape = False  # sizes that happen to be equal at first may differ later
    # else it fuses reductions in the backward pass of layer norm for large batches only (d_model * tokens >= 5 * 2^20),
    # and compiles once for those and once for smaller ones
    inductor.triton.mix_order_reduction_non_strict_mode = True
    run: Forward = torch.compile(model, dynamic=True, fullgraph=True, backend=BACKEND, mode=mode)
    has_run = False

    def forward(
        src: Tensor,
        src_layout: Layout,
        tgt_in: Tensor,
        tgt_layout: Layout,
        src_kept: Tensor | None = None,
        tgt_kept: Tensor | None = None,
    ) -> Tensor:
        nonlocal run, has_run
        if cuts and src_kept is None:
            src_kept, tgt_kept = (torch.ones_like(ids, dtype=torch.bool) for ids in (src, tgt_in))
        batch: tuple[Tensor | Layout | None, ...] = (src, src_layout, tgt_in, tgt_layout, src_kept, tgt_kept)
        is_single = isinstance(src_layout, Padded) and len(src) == 1
        if is_single:  # sizes of 1 would be compiled separately
            batch = tuple(map(_twice, batch))
        try:
            hidden = run(*batch)
        except (TorchDynamoException, FailOnRecompileLimitHit) as error:
            reason = " ".join(f"{error}".split("\n\n")[0].split())
            if not has_run:
                raise NmtError(f"compiling the model failed: {reason}; training.compile: off trains without") from error
            say(f"recompiling the model failed: {reason}; from here on it runs uncompiled, which is slower")
            run = model
            hidden = run(*batch)
        has_run = True
        return hidden[:1] if is_single else hidden

    return forward


def _twice(part: Tensor | Layout | None) -> Tensor | Layout | None:
    """Return a tensor of a padded batch of one sentence with the sentence repeated."""
    if isinstance(part, Padded):
        return replace(part, mask=part.mask.repeat(2, 1))
    return part.repeat(2, 1) if isinstance(part, Tensor) else None
