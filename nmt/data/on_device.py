"""Copies of tensors to a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to `device` asynchronously, through pinned memory."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


class OnDevice:
    """Base class of batches, which are dataclasses of tensors that can be moved to a device."""

    def to(self, device: torch.device) -> Self:
        """Return the batch on `device`; tensors are copied to a GPU asynchronously, through pinned memory."""
        if device.type == "cpu":
            return self
        moved = {name: sent(x, device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)  # type: ignore[type-var]
