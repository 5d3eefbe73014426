"""The device on which a model runs: its memory, its threads, and the precision of its matrix products.

Weights, softmax and norms stay float32 in any precision.
"""

from __future__ import annotations

import copy
import gc
import math
import os
import platform
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from nmt.errors import ConfigError
from nmt.model.attention import MultiHeadAttention
from nmt.model.transformer import Model

M = TypeVar("M", bound=Model)

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CUDNN_ATTENTION = False
"""Whether cuDNN's attention may be used. PyTorch prefers it on some GPUs, but unlike other kernels it makes a plan for
every new shape, and almost every batch of text has a new shape. `make gpu-check` measures both."""


def visible_gpus() -> list[str]:
    """Return the identifiers of the visible GPUs, in the form used by CUDA_VISIBLE_DEVICES."""
    n = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if not names:
        return [*map(str, range(n))]
    return names.split(",")[:n]


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
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
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


def pick_precision(name: str, device: torch.device) -> str:
    """Resolve `auto` to the fastest safe precision of `device`: float32, bf16 or fp16. Return other names unchanged.

    On a CPU, bf16 is from four times faster to forty times slower than float32, and the model name does not tell, so
    matrix products are timed for about a tenth of a second.
    """
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    use_float32_library(pick_float32_library("float32", device))
    with threads(1):
        return "bf16" if _seconds(torch.bfloat16) * 1.3 < _seconds(torch.float32) else "float32"


def pick_float32_library(precision: str, device: torch.device) -> str:
    """Return the library for float32 matrix products on a CPU: `mkl` (PyTorch's default), or `onednn` if that is
    faster.

    MKL uses AVX-512 only on Intel's CPUs; on others, oneDNN is twice as fast with the same accuracy.
    """
    if precision != "float32" or device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "mkl"
    seconds: dict[str, float] = {}
    error = {}
    with threads(1):
        for library in 3 * ["onednn", "mkl"]:  # interleaved, so that a temporary load affects both
            use_float32_library(library)
            seconds[library] = min(_seconds(torch.float32), seconds.get(library, math.inf))
            if library not in error:
                error[library] = _error()
    is_faster = seconds["onednn"] * 1.2 < seconds["mkl"]
    is_as_exact = error["onednn"] < 4 * error["mkl"]
    return "onednn" if is_faster and is_as_exact else "mkl"


def use_float32_library(library: str) -> None:
    """Use `library` for all further float32 matrix products."""
    # PyTorch enables oneDNN for float32 by allowing it bf16, which it uses only on CPUs with bf16 matrix units: that is
    # why `pick_float32_library` measures the error, too
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if library == "onednn" else "none"  # type: ignore[attr-defined]


def float32_library() -> str:
    """Return the library that multiplies float32 matrices."""
    is_bf16 = torch.backends.mkldnn.matmul.fp32_precision == "bf16"  # type: ignore[attr-defined]
    return "onednn" if is_bf16 else "mkl"


def row_step(device: torch.device) -> int:
    """Return the multiple to which the rows of matrix products should be padded; 0 if any number of rows is as fast.

    oneDNN compiles code for each new size of a product, which takes longer than the product itself, and caches the code
    of a few hundred sizes.
    """
    is_compiled = torch.is_autocast_enabled("cpu") or float32_library() == "onednn"
    return 256 if device.type == "cpu" and is_compiled else 0


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which matrix products run in `precision`."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=DTYPES[precision])


def for_inference(model: M, precision: str) -> M:
    """Return a copy of a model with the weights of its matrix products cast to `precision`.

    Autocast would cast them again in every step. All other weights, including embeddings, are shared with `model`.
    """
    if precision == "float32":
        return model
    twin = _twin(model, precision, learns=False)
    twin.output = _cast(model.output_weight, precision)
    return twin


def _twin(model: M, precision: str, learns: bool) -> M:
    shared: dict[int, object] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    for module in twin.modules():
        if isinstance(module, (nn.Linear, MultiHeadAttention)):
            for name, weight in [*module.named_parameters(recurse=False)]:
                setattr(module, name, _cast(weight, precision, learns and weight.requires_grad))
    return twin


def _cast(weight: Tensor, precision: str, learns: bool = False) -> nn.Parameter:
    return nn.Parameter(weight.detach().to(DTYPES[precision]), requires_grad=learns)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Compute on `n` CPU threads within this context."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def pick_threads(work: Callable[[], object], most: int) -> int:
    """Return the number of threads, 1 or `most`, with which `work` is faster. Runs it seven times."""
    seconds = dict.fromkeys((1, most), 0.0)
    work()  # kernels are compiled, and memory is allocated
    for n in 3 * [1, most]:  # interleaved, so that a temporary load affects both
        with threads(n):
            seconds[n] += timeit.timeit(work, number=1)
    return most if seconds[most] * 1.1 < seconds[1] else 1


def _seconds(dtype: torch.dtype) -> float:
    """Return the time of the fastest of several matrix products in seconds."""
    a, b = (matrix.to(dtype) for matrix in _matrices())
    times: list[float] = []
    deadline = time.perf_counter() + 0.02
    while len(times) < 3 or (time.perf_counter() < deadline and len(times) < 50):
        times.append(timeit.timeit(lambda: a @ b, number=1))
    return min(times)


def _error() -> float:
    """Return the largest absolute error of a float32 matrix product."""
    a, b = _matrices()
    return float((a @ b - a.double() @ b.double()).abs().max())


def _matrices() -> tuple[Tensor, Tensor]:
    return torch.randn(512, 256), torch.randn(256, 512)


class Halves:
    """A twin of a model that computes with half-precision copies of the weights of matrix products.

    The copies learn if the weights of the model do. All other weights are shared.
    """

    def __init__(self, model: Model, precision: str) -> None:
        self.twin = _twin(model, precision, learns=True)
        pairs = zip(model.parameters(), self.twin.parameters(), strict=True)
        self._pairs = [(weight, half) for weight, half in pairs if weight is not half]

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the weights of the model to the twin, and clear its gradients."""
        torch._foreach_copy_([half for _, half in self._pairs], [weight for weight, _ in self._pairs])
        for _, half in self._pairs:
            half.grad = None

    @torch.no_grad()
    def collect(self) -> None:
        """Add the gradients of the twin to the gradients of the model in float32, and clear them in the twin."""
        learned = [(weight, half) for weight, half in self._pairs if half.grad is not None]
        if not learned:  # all weights are frozen
            return
        grads = [torch.empty_like(weight) for weight, _ in learned]
        torch._foreach_copy_(grads, [cast(Tensor, half.grad) for _, half in learned])
        totals = []
        added = []
        for (weight, half), grad in zip(learned, grads, strict=True):
            half.grad = None
            if weight.grad is None:
                weight.grad = grad
            else:
                totals.append(weight.grad)
                added.append(grad)
        if totals:
            torch._foreach_add_(totals, added)
