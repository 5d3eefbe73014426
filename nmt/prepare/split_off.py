"""A development set split off the training text: which pairs, decided by a hash of each pair's own text.

So it does not matter where a pair stands or what stands beside it. As the text grows, the pairs of a share stay for
ever; of a number of lines, those with the smallest hashes, a pair gives way only to a new one whose hash is smaller.
"""

from __future__ import annotations

import heapq

from nmt.errors import DataError
from nmt.prepare.clean import pair_hash
from nmt.prepare.pairs import SentencePair

MOST_LINES = 100_000
"""Of a development set that is split off: it is held in memory."""

_LARGEST_PART = 10  # a number of lines is at most one part of so many


class Draw:
    """Is offered every pair and keeps those that are chosen."""

    def __init__(self, amount: int | float) -> None:
        """`amount`: a number of pairs, or a share of all."""
        self._amount = amount
        self._bound = int(amount * 2**64) if isinstance(amount, float) else 2**64
        self._chosen: list[tuple[int, int, SentencePair]] = []  # a heap, the largest hash first
        self.n_offered = 0

    def offer(self, pair: SentencePair) -> None:
        """Choose this pair, or not. Raises DataError where a share is more than MOST_LINES pairs."""
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
        """The development set, in the order of the text. Raises DataError if there is none."""
        found = sorted(self._chosen, reverse=True)
        if isinstance(self._amount, int):
            found = found[: max(1, self.n_offered // _LARGEST_PART)]
        if not found:
            raise DataError(
                f"data.valid: none of {self.n_offered:,} pairs is in a share of {self._amount:g} of them; "
                "take a larger share or a number of lines"
            )
        return [pair for _, _, pair in sorted(found, key=lambda entry: -entry[1])]
