"""Partition of a pool of pairs into updates of similar lengths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Integers

Indices = npt.NDArray[np.int64]


def cut(src: Indices, tgt: Indices, n_parts: int) -> list[Indices]:
    """Partition pairs of these lengths (N,) into `n_parts` with about equally many target tokens and similar lengths.

    Returns the indices 0 … N - 1 of each part. Pairs are halved recursively by source or target length, whichever
    leaves less padding; sorting by one length and then the other would leave rare long sentences with very different
    lengths on the other side.
    """
    if n_parts == 1 or len(tgt) < 2:
        return [np.arange(len(tgt))]
    narrow_src, narrow_tgt = narrow(src), narrow(tgt)
    orders = np.lexsort((narrow_src, narrow_tgt)), np.lexsort((narrow_tgt, narrow_src))
    return list(_Cut(src, tgt).parts(orders, 0, n_parts))


class _Cut:
    """Halves pairs that are sorted both by target and by source length; the halves stay sorted both ways."""

    def __init__(self, src: Indices, tgt: Indices) -> None:
        self._src, self._tgt = src, tgt
        self._is_low = np.zeros(len(tgt), np.bool_)

    def parts(self, orders: tuple[Indices, Indices], by: int, n_parts: int) -> Iterator[Indices]:
        """Yield the parts of pairs given in both `orders`, each in the order of its last halving, at first `by`."""
        if n_parts == 1 or len(orders[by]) < 2:
            if len(orders[by]):
                yield orders[by]
            return
        (tgt_middle, tgt_padded), (src_middle, src_padded) = (self._middle(order, n_parts) for order in orders)
        by, middle = (1, src_middle) if src_padded < tgt_padded else (0, tgt_middle)
        low, high, other = orders[by][:middle], orders[by][middle:], orders[1 - by]
        self._is_low[low] = True
        is_low = self._is_low[other]
        self._is_low[low] = False
        for half, other_half, n in ((low, other[is_low], n_parts // 2), (high, other[~is_low], n_parts - n_parts // 2)):
            yield from self.parts((other_half, half) if by else (half, other_half), by, n)

    def _middle(self, pairs: Indices, n_parts: int) -> tuple[int, int]:
        """Return where to halve `pairs`, and the padded tokens of both halves as batches."""
        src, tgt = self._src[pairs], self._tgt[pairs]
        tokens = np.cumsum(tgt)
        middle = int(np.searchsorted(tokens, tokens[-1] * (n_parts // 2) // n_parts, side="right"))
        halves = slice(middle), slice(middle, None)
        return middle, sum(len(tgt[half]) * int(src[half].max(initial=0) + tgt[half].max(initial=0)) for half in halves)


def narrow(numbers: Integers) -> Integers:
    """Copy to the smallest unsigned integer type; numpy sorts two-byte integers many times faster."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))
