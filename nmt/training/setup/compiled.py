"""The layout of batches and the compiled model: what makes a GPU fast, chosen from `training.layout` and `.compile`.

Compiled is the model alone. Its many small operations are what fusing saves time on. The loss is a few large products
and softmaxes with a gradient of its own, whose number of rows differs from batch to batch.

PyTorch's compiler takes seconds to import, which a run without it need not wait for.
"""

from __future__ import annotations

import importlib.util
import os
import shutil

import torch
from torch import Tensor

from nmt.config import Config
from nmt.console import say
from nmt.errors import ConfigError, NmtError
from nmt.model.masks import Layout
from nmt.model.transformer import Transformer
from nmt.model.varlen import packing_obstacle
from nmt.training.objective import Forward

BACKEND = "inductor"


def pick_layout(config: Config, device: torch.device, precision: str) -> str:
    """`auto` -> padded or packed; any other name as it is. Raises ConfigError where packed is asked for in vain."""
    setting, model = config.training.layout, config.model
    if setting == "padded" or (setting == "auto" and device.type == "cpu"):
        return "padded"
    reason = packing_obstacle(device, precision, model.d_model // model.n_heads, model.attention_dropout)
    if setting == "packed" and reason is not None:
        raise ConfigError([f"training.layout: packed is not possible: {reason}; take auto or padded"])
    return "packed" if reason is None else "padded"


def pick_compile(config: Config, device: torch.device, is_divided: bool) -> bool:
    """Whether to compile. Raises ConfigError where that is asked for in vain."""
    setting = config.training.compile
    if setting == "off" or (setting == "auto" and device.type == "cpu"):
        return False
    reason = "a model that is divided (parallel: fsdp) is not compiled" if is_divided else _no_compiler(device)
    if setting == "on" and reason is not None:
        raise ConfigError([f"training.compile: on is not possible: {reason}; take auto or off"])
    return reason is None


def _no_compiler(device: torch.device) -> str | None:
    """What the compiler lacks here; None if nothing."""
    if device.type == "cpu":
        compilers, needed_for = (os.environ.get("CXX", "g++"), "clang++"), "a C++ compiler"
    else:
        if importlib.util.find_spec("triton") is None:
            return "it needs the package triton"
        if torch.cuda.get_device_capability(device) < (7, 0):
            return "it needs a GPU of compute capability 7.0 or later"
        compilers, needed_for = (os.environ.get("CC", "gcc"), "clang"), "a C compiler"
    return None if any(map(shutil.which, compilers)) else f"it needs {needed_for}, and there is no {compilers[0]}"


def compiled(model: Transformer, mode: str | None = None) -> Forward:
    """The model's forward pass, compiled at its first call for batches of any size; `mode` as of `torch.compile`.

    What cannot be compiled raises NmtError at that call. Should it later have to be compiled again and again, the model
    itself takes over, which is said.
    """
    import torch.fx.experimental._config as shapes
    import torch.nn.attention.varlen  # what is compiled need not import it then
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    shapes.use_duck_shape = False  # sizes that are equal at first need not stay so
    run: Forward = torch.compile(model, dynamic=True, fullgraph=True, backend=BACKEND, mode=mode)
    has_run = False

    def forward(*batch: Tensor | Layout | None) -> Tensor:
        nonlocal run, has_run
        try:
            hidden = run(*batch)
        except (TorchDynamoException, FailOnRecompileLimitHit) as error:
            reason = " ".join(f"{error}".split("\n\n")[0].split())
            if not has_run:
                raise NmtError(f"compiling the model failed: {reason}; training.compile: off trains without") from error
            say(f"compiling the model once more failed: {reason}; from here on it runs as it is, which is slower")
            run = model
            hidden = run(*batch)
        has_run = True
        return hidden

    return forward
