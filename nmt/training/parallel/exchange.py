"""The sum of the gradients over ranks, exchanged while the backward pass still computes others.

Gradients are put into buckets in about the order in which the backward pass completes them. In the last backward pass
of a rank's share of an update, a bucket is on its way as soon as it and those before it are complete.

Ranks may have different numbers of micro-batches, or none, and one that runs out of memory repeats its share while the
others wait for it. Nothing can hang or be counted twice, since for every update each rank starts the all-reduce of each
bucket exactly once and in the same order, whatever it repeats:

- What a rank has sent, it has sent in its last backward pass, so that it was the gradient of its whole share. If that
  pass fails afterwards, those buckets are final, and the repetition sends only the others. Dropout draws other numbers
  in the repetition; thus some weights may have the gradient of one draw, and the others that of another.
- What was not sent in a backward pass is sent at the end, as zeros where a rank has learned nothing.

DistributedDataParallel has no way to go on after a backward pass that failed midway, and moves its buckets after the
first update, so that with three or more ranks a resumed run would sum in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import torch
from torch import Tensor, nn

from nmt.model.transformer import Model
from nmt.training.parallel.world import World

EXCHANGE_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
"""Number formats of `training.exchange_precision`."""
BUCKET_BYTES = 8 * 2**20
"""Bytes of float32 gradients that complete a bucket: few enough that the last one, whose exchange nothing overlaps, is
short; enough for the bandwidth of the network to count, not its latency."""


@dataclass(eq=False)
class _Bucket:
    """Gradients that are exchanged together."""

    parameters: list[nn.Parameter]
    n_missing: int = 0
    """How many of them the last backward pass has not completed yet."""
    wait: Callable[[], Tensor] | None = None
    """Wait for their sum over ranks, in a row; None before the exchange has started."""


class GradientExchange:
    """Sums the gradients of `parameters`, given in the order of their completion; nothing if there are none.

    `dtype` is the format in which they are exchanged and summed; what is left in `grad` is float32.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], world: World, dtype: torch.dtype = torch.float32) -> None:
        self._world, self._dtype = world, dtype
        self._buckets = [_Bucket(part) for part in _split([p for p in parameters if p.requires_grad])]
        self._is_last_pass = False
        if self._buckets:  # NCCL takes the memory that it needs now, not in a backward pass when there may be none left
            world.all_reduce(torch.zeros(1, device=self._buckets[0].parameters[0].device))
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                hook = partial(self._accumulated, bucket)
                parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    @contextmanager
    def last_pass(self) -> Iterator[None]:
        """Context of the last backward pass of this rank's share: its gradients are exchanged as it completes them."""
        for bucket in self._buckets:
            bucket.n_missing = len(bucket.parameters)
        self._is_last_pass = True
        try:
            yield
        finally:
            self._is_last_pass = False

    def finish(self) -> None:
        """Start what was not exchanged during the backward pass, wait for all, and leave the sums in `grad`."""
        self._start(self._waiting())
        for bucket in self._buckets:
            assert bucket.wait is not None, "started above"
            sums, bucket.wait = bucket.wait().float(), None
            sizes = [parameter.numel() for parameter in bucket.parameters]
            for parameter, part in zip(bucket.parameters, torch.split(sums, sizes), strict=True):
                parameter.grad = part.view_as(parameter)

    def _accumulated(self, bucket: _Bucket, parameter: Tensor) -> None:
        """Count a gradient that a backward pass has completed."""
        if bucket.wait is not None:  # sent before the repetition
            parameter.grad = None
        elif self._is_last_pass:
            bucket.n_missing -= 1
            self._start(takewhile(lambda bucket: not bucket.n_missing, self._waiting()))

    def _waiting(self) -> list[_Bucket]:
        return [bucket for bucket in self._buckets if bucket.wait is None]

    def _start(self, buckets: Iterable[_Bucket]) -> None:
        for bucket in buckets:
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket.parameters]
            bucket.wait = self._world.start_all_reduce(torch.cat([grad.reshape(-1).to(self._dtype) for grad in grads]))
            for parameter in bucket.parameters:
                parameter.grad = None


def _split(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Split parameters into buckets, in order."""
    part: list[nn.Parameter] = []
    for parameter in parameters:
        part.append(parameter)
        if 4 * sum(p.numel() for p in part) >= BUCKET_BYTES:
            yield part
            part = []
    if part:
        yield part


def completion_order(model: Model) -> list[nn.Parameter]:
    """Return the parameters about as a backward pass completes their gradients, the reverse of the forward pass."""

    def stage(named: tuple[str, nn.Parameter]) -> int:
        name = named[0]
        if name.startswith("encoder."):  # and the embeddings of both sides, if they are tied
            return 0
        if ".cross_attention.in_" in name:  # the memory is projected for all layers before the first one runs
            return 1
        return 3 if name == "output" else 2

    return [parameter for _, parameter in sorted(model.named_parameters(), key=stage)[::-1]]
