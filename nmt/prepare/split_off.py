"""Split a development set off the training text, by a hash of each pair.

The choice does not depend on the order of the pairs. As the text grows, a share keeps all its pairs; a number of lines
takes those with the smallest hashes, so a pair is replaced only by a new one whose hash is smaller.
"""

from __future__ import annotations

import heapq

from nmt.errors import DataError
from nmt.prepare.cleaning.grouping import pair_hash
from nmt.prepare.pairs import SentencePair

MOST_LINES = 100_000
"""Maximum size of a development set that is split off, which is held in memory."""

_LARGEST_PART = 10  # a number of lines is at most a tenth of the pairs


class Draw:
    """Selects pairs from a stream."""

    def __init__(self, amount: int | float) -> None:
        """`amount`: a number of pairs (int), or a share of all (float)."""
        self._amount = amount
        self._bound = int(amount * 2**64) if isinstance(amount, float) else 2**64
        self._chosen: list[tuple[int, int, SentencePair]] = []  # a heap, the largest hash first
        self.n_offered = 0

    def offer(self, pair: SentencePair) -> None:
        """Consider a pair. Raises DataError if a share exceeds MOST_LINES pairs."""
        self.n_offered += 1
        value = int.from_bytes(pair_hash(pair.src, pair.tgt)[:8], "big")
        if value >= self._bound:
            return
        entry = (-value, -self.n_offered, pair)
        if isinstance(self._amount, float):
            self._chosen.append(entry)
            if len(self._chosen) > MOST_LINES:
                raise DataError(
                    f"data.valid: a share of {self._amount:g} is more than {MOST_LINES:,} pairs of this text, which "
                    "no development set needs; take a smaller share or a number of lines"
                )
        elif len(self._chosen) < self._amount:
            heapq.heappush(self._chosen, entry)
        else:
            heapq.heappushpop(self._chosen, entry)

    def chosen(self) -> list[SentencePair]:
        """Return the development set, in the order of the text. Raises DataError if it is empty."""
        entries = sorted(self._chosen, reverse=True)
        if isinstance(self._amount, int):
            entries = entries[: max(1, self.n_offered // _LARGEST_PART)]
        if not entries:
            raise DataError(
                f"data.valid: none of {self.n_offered:,} pairs is in a share of {self._amount:g} of them; "
                "take a larger share or a number of lines"
            )
        return [pair for _, _, pair in sorted(entries, key=lambda entry: -entry[1])]
