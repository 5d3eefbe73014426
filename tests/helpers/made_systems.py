"""A made test set, and translations of it that are more or less wrong."""

from __future__ import annotations

import random

from tiny_run import words

VOCABULARY = words(40)


def reference(n: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(VOCABULARY, k=rng.randint(3, 12))) for _ in range(n)]


def with_errors(lines: list[str], rate: float, seed: int) -> list[str]:
    """Return the lines with a share of their words replaced."""
    rng = random.Random(seed)
    return [
        " ".join(rng.choice(VOCABULARY) if rng.random() < rate else word for word in line.split()) for line in lines
    ]
