"""The outcome of one update: which pairs it learned from, and its statistics, still on the device."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nmt.data.updates import Update


@dataclass(frozen=True)
class UpdateStats:
    """Statistics of an update, summed over its micro-batches and, once reduced, over ranks.

    All but `packed` are scalar views of it, so one all-reduce and one copy off the device carry them all. Change them
    in place (`add_`, `fill_`): assigning a Python number to an element would copy from the CPU and wait for the device.
    """

    packed: Tensor
    """(9,) float64: all of the below, in this order."""
    loss: Tensor
    """What is minimised: cross-entropy with label smoothing, plus weighted divergence (nats)."""
    nll: Tensor
    """Negative log-likelihood (nats)."""
    n_correct: Tensor
    """Target tokens predicted right."""
    padded_tokens: Tensor
    """Tokens of both sides, padding counted."""
    n_out_of_memory: Tensor
    """How often a rank ran out of memory and repeated its share."""
    divergence: Tensor
    """Divergence between two passes, unweighted (nats)."""
    class_nll: Tensor
    """Negative log-likelihood of the classes of sequences, if they have some (nats)."""
    n_class_correct: Tensor
    """Sequences whose class was predicted right."""
    gradient_norm: Tensor
    """L2 norm of the gradient before clipping; set once the gradients are reduced, so it is no sum."""

    @classmethod
    def unpack(cls, packed: Tensor) -> UpdateStats:
        """Name the elements of `packed`."""
        return cls(packed, *packed.unbind())

    @classmethod
    def zeros(cls, device: torch.device) -> UpdateStats:
        """Return statistics of nothing yet."""
        return cls.unpack(torch.zeros(len(fields(cls)) - 1, dtype=torch.float64, device=device))

    @property
    def sums(self) -> Tensor:
        """(8,) view of `packed`: what is summed over ranks, all but `gradient_norm`."""
        return self.packed[:-1]

    def cpu(self) -> UpdateStats:
        """Return a copy on the CPU, which from a GPU arrives asynchronously."""
        return self.unpack(self.packed.to("cpu", non_blocking=True))


@dataclass(frozen=True)
class Outcome:
    """An update that was made, number `step` of the run, in `epoch`; `n_tokens` counts real tokens of both sides.

    The rows of `update` are those among all training pairs.
    """

    update: Update
    step: int
    epoch: int
    n_tokens: int
    stats: UpdateStats
