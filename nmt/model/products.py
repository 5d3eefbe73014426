"""Matrix products of a trained model, prepared once for many calls.

Legend: K inputs, N outputs of a product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.transformer import ACTIVATIONS, Activation

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

Product = Callable[[Tensor], Tensor]
"""x (..., K) in any dtype -> x @ weight.T + bias, (..., N) in a dtype of the product's choice."""

FEW = 2**20
"""On a CPU, up to this number of multiplications float32 is faster than bf16: nothing is cast or looked up."""

MAX_UNPADDED = 8
"""Up to this number of rows, padding takes longer than the product."""


def product(weight: Tensor, bias: Tensor | None, precision: str, activation: Activation | None = None) -> Product:
    """Return the product with `weight` (N, K) float32, followed by an activation; precision: float32, bf16 or fp16."""
    dtype = DTYPES[precision]
    if dtype == torch.bfloat16 and weight.device.type == "cpu" and packs():
        return _Packed(weight, bias, activation)
    return _Plain(weight.to(dtype), None if bias is None else bias.to(dtype), activation)


class _Plain:
    """PyTorch's linear layer."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation | None) -> None:
        self._weight, self._bias, self._activation = weight, bias, activation

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x.to(self._weight.dtype), self._weight, self._bias)
        return y if self._activation is None else self._activation.function(y)


class _Packed:
    """A product in bf16 on a CPU, whose weight lies in memory as oneDNN's kernels read it.

    `F.linear` rearranges the weight in each call, which takes as long as a product with some 64 rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation | None) -> None:
        self._few = _Plain(weight, bias, activation)
        self._few_inputs = FEW // len(weight)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(torch.bfloat16), None)
        self._bias = None if bias is None else bias.to(torch.bfloat16)
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        if x.numel() <= self._few_inputs:
            return self._few(x)
        rows = x.reshape(-1, x.size(-1))
        if (size := padded_size(len(rows))) == len(rows):
            padded = rows.to(torch.bfloat16)
        else:
            padded = torch.empty(size, x.size(-1), dtype=torch.bfloat16)  # whose last rows are left as they are
            padded[: len(rows)] = rows
        output = _pointwise(padded, self._packed, self._bias, self._activation)
        return output[: len(rows)].view(*x.shape[:-1], -1)


def padded_size(n_rows: int) -> int:
    """Return the number of rows, at least `n_rows`, that are multiplied: a multiple of 16 with at most 3 binary digits.

    oneDNN compiles code for each size, which takes as long as many products. The hypotheses of a single sentence are
    not padded: their number stays the same.
    """
    if n_rows <= MAX_UNPADDED:
        return n_rows
    step = max(16, 1 << max(0, (n_rows - 1).bit_length() - 3))
    return -(-n_rows // step) * step


def _pointwise(x: Tensor, packed: Tensor, bias: Tensor | None, activation: Activation | None) -> Tensor:
    output: Tensor = torch.ops.mkldnn._linear_pointwise(
        x, packed, bias, "none" if activation is None else activation.onednn, [], "none"
    )
    return output


@cache
def packs() -> bool:
    """Return whether PyTorch has the operators of `_Packed`, which are not documented, and this CPU runs them."""
    weight, x = torch.eye(64), torch.linspace(-1, 1, 2 * 64).view(2, 64)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(torch.bfloat16), None)
        found = _pointwise(x.to(torch.bfloat16), packed, None, ACTIVATIONS["relu"])
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(found.float(), x.relu(), atol=0.01)
