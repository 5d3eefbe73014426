"""The device that a model runs on, and its memory."""

from __future__ import annotations

import gc
import os
import platform
from pathlib import Path

import torch

from nmt.errors import ConfigError

CUDNN_ATTENTION = False
"""Whether cuDNN's attention may be used. PyTorch prefers it on some GPUs, but it plans again for every new shape, and
almost every batch of text has one; the flash and memory-efficient kernels do not. `make gpu-check` measures both."""


def visible_gpus() -> list[str]:
    """Return the names of the GPUs of this machine, as CUDA_VISIBLE_DEVICES has them."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return names[: torch.cuda.device_count()] if names != [""] else [str(i) for i in range(torch.cuda.device_count())]


def pick_device(name: str) -> torch.device:
    """Set up the device for `auto`, `cpu` or `cuda`; auto takes a GPU if there is one.

    Raises ConfigError if `cuda` is requested but not available.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(["training.device: cuda requested, but PyTorch finds no GPU; use auto or cpu"])
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(CUDNN_ATTENTION)
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """Return the model name of a GPU or CPU, as far as it is known."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


SIGNS = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: BaseException) -> bool:
    """Whether `error` means out of memory, on a GPU or a CPU."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def free_memory() -> None:
    """Release the memory of a failed attempt."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
