"""Random numbers that are a function of a key and a counter, so that each can be drawn independently."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.text.ids import Numbers

Hashes = npt.NDArray[np.uint64]

MODIFIERS = 2
DENOISING = 3
TAGS = 3
MASKING = 4
"""Keys of independent random numbers; BPE-dropout has 0 and 1. No run has both denoising and tags."""


def key_of(*numbers: int) -> Hashes:
    """Return a key (1,) that depends on all given numbers."""
    return np.random.SeedSequence(numbers).generate_state(1, np.uint64).astype(np.uint64)


def hashed(keys: Hashes, counters: Numbers) -> Hashes:
    """Return random numbers (N,) for keys (N,) or (1,) and counters (N,) by SplitMix64 (Steele et al., 2014)."""
    return mixed(keys + counters.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def mixed(x: Hashes) -> Hashes:
    """Return numbers whose bits each depend on all bits of a number of `x`, by the output function of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fractions(numbers: Hashes) -> npt.NDArray[np.float64]:
    """Convert random numbers to fractions, uniform in [0, 1)."""
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53
