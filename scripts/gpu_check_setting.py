"""What `gpu_check.py` measures: sizes, ways to train, synthetic pairs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmt.model.precision import autocast
from nmt.model.transformer import Transformer
from nmt.tokenizer import N_SPECIAL
from nmt.training.objective import Forward, cross_entropy


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    model: dict[str, int]
    vocabulary: int
    update_tokens: tuple[int, ...]
    n_pairs: int
    seconds: float
    """Of each measurement of speed."""
    n_sentences: int
    matrix: int
    """Rows and columns of the matrix product whose speed is the peak."""
    training: tuple[str, ...]
    """Overrides of the configuration of the training."""


IWSLT = {"d_model": 512, "n_heads": 4, "d_ff": 1024, "encoder_layers": 6, "decoder_layers": 6}
TINY = {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}
FULL = Sizes(IWSLT, 10_000, (4096, 8192, 16384, 32768), 60_000, 3.0, 1024, 8192, ("training.max_minutes=3",))
SMALL = Sizes(TINY, 300, (256, 512), 2000, 0.2, 8, 128, (
    "tokenizer.vocab_size=400", "model.d_model=32", "model.d_ff=64", "model.encoder_layers=1", "training.max_steps=4",
    "model.decoder_layers=1", "training.update_tokens=200", "training.warmup_steps=2", "search.beam=1",
    "training.average_last=1", "search.max_length_ratio=0",
))  # fmt: skip


@dataclass(frozen=True)
class Mode:
    """One way to train: a layout of batches, compiled or not, and with what `mode` of torch.compile."""

    name: str
    layout: str
    is_compiled: bool = False
    graphs: str | None = None


MODES = (
    Mode("padded", "padded"),
    Mode("packed", "packed"),
    Mode("packed, compiled", "packed", True),
    Mode("padded, compiled", "padded", True),
    Mode("packed, CUDA graphs", "packed", True, "reduce-overhead"),
)


class Synthetic:
    """A split of random ids whose lengths are like those of IWSLT: about 25 pieces, some much longer."""

    def __init__(self, n_pairs: int, vocabulary: int) -> None:
        rng = np.random.default_rng(1)
        src = np.clip(rng.gamma(2.0, 12.0, n_pairs), 1, 170)
        sides = {"src": src, "tgt": np.clip(src * rng.normal(0.98, 0.15, n_pairs), 1, 170)}
        self._lengths = {side: lengths.astype(np.int32) for side, lengths in sides.items()}
        self._ids = {side: rng.integers(N_SPECIAL, vocabulary, int(n.sum())) for side, n in self._lengths.items()}

    def lengths(self, side: str) -> Any:
        """See `Split`."""
        return self._lengths[side]

    def ids(self, side: str) -> Any:
        """See `Split`."""
        return self._ids[side]

    def ends(self, side: str) -> Any:
        """See `Split`."""
        return np.cumsum(self._lengths[side], dtype=np.int64)


def learned(
    model: Transformer, batch: Any, precision: str, device: torch.device, forward: Forward | None = None
) -> tuple[Tensor, Tensor]:
    """The loss per token and the gradient, in the memory of the processor."""
    model.zero_grad(set_to_none=True)
    with autocast(precision, device):
        sums = cross_entropy(model, batch, 0.1, forward)
    (sums.loss / sums.n_tokens).backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return (sums.loss.detach() / sums.n_tokens).cpu(), torch.cat(grads).cpu()


def flop_per_token(model: Transformer) -> float:
    """Of a target token in training, with as many source tokens: twice the weights it meets, three times over (forward,
    and two products backward); what attention adds between tokens is about a hundredth."""
    n_weights = sum(p.numel() for name, p in model.named_parameters() if "embedding" not in name)
    return 6.0 * (n_weights + model.output_weight.numel())


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after so many seconds."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"took longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
