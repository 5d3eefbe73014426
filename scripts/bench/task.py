"""The task of every toolkit, whose numbers all configurations share."""

from __future__ import annotations

from typing import NamedTuple

SRC, TGT = "de", "en"
LAYERS = 3
"""Layers of the encoder, and of the decoder."""
WIDTH = 256
HEADS = 4
FFN = 1024
DROPOUT = 0.1
"""In every place where a toolkit has dropout: embeddings, residual, attention weights, activation."""
SMOOTHING = 0.1
VOCABULARY = 8000
"""Pieces of one vocabulary for both languages and the output layer, special ones included."""
MAX_PIECES = 256
MAX_OUTPUT = 100
"""Pieces of a translation, where the search decides."""
BETA1, BETA2 = 0.9, 0.98
LOG_EVERY = 100
NEVER = 10_000_000
"""Steps between validations."""
SEED = 42
THREADS = 2


class Plan(NamedTuple):
    """Length of a training. The schedule is that of "Attention Is All You Need" times a factor."""

    steps: int = NEVER
    """Until the end and the only checkpoint, which no measured training reaches."""
    batch_tokens: int = 4096
    """Target tokens of an optimizer step, each toolkit in its own way of counting."""
    warmup: int = 2000
    """Steps until the learning rate is highest."""
    factor: float = 1.0
    """Multiplies the learning rate."""

    @property
    def peak_lr(self) -> float:
        """The highest learning rate."""
        return self.factor * float((WIDTH * self.warmup) ** -0.5)


MEASURED = Plan()
"""The training that `train.py` measures, and stops before its end."""
