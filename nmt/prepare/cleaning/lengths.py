"""Histograms of the lengths of pairs, in logarithmic bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

CHARS = [*range(1, 8), *(2**k * quarters // 4 for k in range(3, 12) for quarters in range(4, 8)), 4096]
"""Where each bin but the first begins, in characters: bin i is for lengths in [CHARS[i - 1], CHARS[i]); bin 0 is for
sides without text."""
RATIOS = [round(2 ** (k / 8), 3) for k in range(-24, 25)]
"""The same for the ratio of the second side's length to that of the first; bin 0 is for those below 1/8."""
_BLOCK = 1 << 13  # pairs that are counted together, which is several times as fast as one by one


def _zeros(n_edges: int) -> list[int]:
    return [0] * (n_edges + 1)


@dataclass
class Lengths:
    """Histograms of the lengths of pairs. Those of the parts of a corpus add up."""

    src: list[int] = field(default_factory=lambda: _zeros(len(CHARS)))
    """Pairs by the length of the first side, see CHARS."""
    tgt: list[int] = field(default_factory=lambda: _zeros(len(CHARS)))
    ratio: list[int] = field(default_factory=lambda: _zeros(len(RATIOS)))
    """Pairs with text on both sides, see RATIOS."""

    def __post_init__(self) -> None:
        self._waiting: list[int] = []

    def count(self, src: int, tgt: int) -> None:
        """Count a pair by the lengths of its sides in characters, at most 2^31; `flush` completes the histograms."""
        self._waiting.append(src << 32 | tgt)
        if len(self._waiting) == _BLOCK:
            self.flush()

    def flush(self) -> None:
        """Bring the histograms up to date with all pairs counted."""
        packed = np.array(self._waiting, np.int64)
        self._waiting.clear()
        self._count(packed >> 32, packed & 0xFFFFFFFF)

    def count_all(self, src: Sequence[str], tgt: Sequence[str]) -> None:
        """Count pairs, by the lengths of these sides."""
        self._count(*(np.fromiter(map(len, side), np.int64, len(side)) for side in (src, tgt)))

    def _count(self, src: npt.NDArray[np.int64], tgt: npt.NDArray[np.int64]) -> None:
        both = (src > 0) & (tgt > 0)
        self.src = _added(self.src, CHARS, src)
        self.tgt = _added(self.tgt, CHARS, tgt)
        self.ratio = _added(self.ratio, RATIOS, tgt[both] / src[both])

    def add(self, other: Lengths) -> None:
        """Add the histograms of other pairs."""
        self.flush()
        other.flush()
        for own, more in ((self.src, other.src), (self.tgt, other.tgt), (self.ratio, other.ratio)):
            own[:] = [a + b for a, b in zip(own, more, strict=True)]


def _added(
    histogram: list[int], edges: list[int] | list[float], values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
) -> list[int]:
    bins = np.searchsorted(edges, values, "right")
    counts: list[int] = (np.bincount(bins, minlength=len(histogram)) + histogram).tolist()
    return counts
