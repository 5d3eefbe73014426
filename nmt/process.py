"""What the process is set up with before PyTorch is imported."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from pathlib import Path

ENVIRONMENT = {
    # Threads that wait for each other spin for a moment only: by default they spin so long that training is ten times
    # slower when another program wants a core, and if they never do it is a quarter slower on a quiet machine.
    "GOMP_SPINCOUNT": "10000",
    # Compiled kernels are kept by shape, and a batch of text has almost always a new one: gigabytes that serve nobody.
    "LRU_CACHE_CAPACITY": "64",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    # Tensors from 2 MB lie in huge pages, which are mapped at once and not in 512 steps.
    "THP_MEM_ALLOC_ENABLE": "1",
    # The profiler tells of its own steps up to level 5.
    "KINETO_LOG_LEVEL": "6",
}
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library


def set_up() -> None:
    """Environment, memory and screen of a process that runs `nmt`. What the user has set in the environment stays."""
    set_environment()
    keep_freed_memory()
    keep_screen()


def set_environment() -> None:
    """What is read when PyTorch is imported, or, as the sizes of caches, when it calculates for the first time."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def keep_freed_memory() -> None:
    """Have malloc keep what is freed for the next tensor.

    By default it gives large tensors back, and the system clears every page anew for the next: a tenth of a training.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
    mallopt(M_TRIM_THRESHOLD, 1 << 30)


def keep_screen() -> None:
    """Have the numbers of standard input, output and error taken, and text written as UTF-8, whatever the locale."""
    # Were these numbers free, the next file that is opened would get one, and with it what libraries tell the screen.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:  # else print would take standard output, where translations go
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (to the end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
