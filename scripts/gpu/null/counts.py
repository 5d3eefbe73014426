"""The counters of the stubs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch


def _runtime() -> ctypes.CDLL:
    try:
        runtime = ctypes.CDLL("libcudart.so.13")
        runtime.nullgpu_launches.restype = ctypes.c_long
    except (OSError, AttributeError):
        sys.exit("needs a CUDA build of PyTorch whose CUDA libraries are stubs that count; see scripts/gpu/null")
    torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN is no stub and asks for a real GPU
    return runtime


_RUNTIME = _runtime()


def reset() -> None:
    """Set all counters to 0."""
    _RUNTIME.nullgpu_reset()


def launches() -> int:
    """Return the number of kernels launched since `reset`, each of a CUDA graph at its capture only."""
    return int(_RUNTIME.nullgpu_launches())


def counts() -> Counter[str]:
    """Return everything that has happened since `reset`, by name: `K …` are kernels, `SYNC …` waits of the host."""
    with tempfile.NamedTemporaryFile() as file:
        _RUNTIME.nullgpu_dump(file.name.encode())
        rows = [line.split("\t", 1) for line in Path(file.name).read_text(encoding="utf-8").splitlines()]
    names = [name.removeprefix("K ") for _, name in rows]
    plain = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    found: Counter[str] = Counter()
    for (n, name), shown in zip(rows, plain.splitlines(), strict=True):
        found[f"K {shown}" if name.startswith("K ") else name] += int(n)
    return found
