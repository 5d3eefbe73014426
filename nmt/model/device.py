"""The device that a model runs on, and its memory."""

from __future__ import annotations

import gc
import platform
from pathlib import Path

import torch

from nmt.errors import ConfigError

CUDNN_ATTENTION = False
"""Whether a GPU may take cuDNN's attention. PyTorch prefers it on some, but it plans anew for every shape, and a batch
of text has almost always a new one; the flash and memory-efficient kernels do not. `make gpu-check` measures both."""


def pick_device(name: str) -> torch.device:
    """`auto`, `cpu` or `cuda` -> a device, set up; auto takes a GPU if there is one.

    Raises ConfigError without a GPU.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(["training.device: cuda was asked for, but this PyTorch sees no GPU; take auto or cpu"])
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(CUDNN_ATTENTION)
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """The make of a GPU or of a processor, as far as it is known."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


SIGNS = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory did not suffice, on a GPU or a CPU."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def free_memory() -> None:
    """Give back what a failed attempt has left behind."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
