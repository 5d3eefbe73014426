"""The device on which a model runs, and its memory."""

from __future__ import annotations

import gc
import os
import platform
from pathlib import Path

import torch

from nmt.errors import ConfigError

CUDNN_ATTENTION = False
"""Whether cuDNN's attention may be used. PyTorch prefers it on some GPUs, but unlike other kernels it makes a plan for
every new shape, and almost every batch of text has a new shape. `make gpu-check` measures both."""


def visible_gpus() -> list[str]:
    """Return the identifiers of the visible GPUs, in the form used by CUDA_VISIBLE_DEVICES."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return names[: torch.cuda.device_count()] if names != [""] else [str(i) for i in range(torch.cuda.device_count())]


def pick_device(name: str) -> torch.device:
    """Return and set up the device `auto`, `cpu` or `cuda`; auto is a GPU if there is one.

    Raises ConfigError if `cuda` is requested but not available.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("training.device: cuda is requested, but PyTorch finds no GPU; use auto or cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(CUDNN_ATTENTION)
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """Return the model name of a GPU or CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


SIGNS = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a GPU or CPU is out of memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def free_memory() -> None:
    """Release the memory of unused tensors, for a repeated attempt."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
