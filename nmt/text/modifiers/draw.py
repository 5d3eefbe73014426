"""Drawing from random numbers. Only `Random.random` is the same in all versions of Python, so that all else uses it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def below(rng: Random, n: int) -> int:
    """Return an integer from 0 to n - 1."""
    return int(rng.random() * n)


def pick(rng: Random, items: Sequence[T]) -> T:
    """Return one of the items."""
    return items[below(rng, len(items))]


def some(rng: Random, items: Sequence[T], share: float) -> list[T]:
    """Return at least one of the items, in order: one for certain, and each other with probability `share`."""
    certain = below(rng, len(items))
    return [item for i, item in enumerate(items) if rng.random() < share or i == certain]
