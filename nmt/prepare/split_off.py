"""Split a development set off the training text, by a hash of each pair.

The choice does not depend on the order of the pairs. As the text grows, a share keeps all its pairs; a number of lines
takes those with the smallest hashes, so a pair is replaced only by a new one whose hash is smaller.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.errors import DataError

MOST_LINES = 100_000
"""Maximum size of a development set that is split off, which is held in memory."""

_LARGEST_PART = 10  # a number of lines is at most a tenth of the pairs


class Draw:
    """Selects pairs by their hashes."""

    def __init__(self, amount: int | float) -> None:
        """`amount`: a number of pairs (int), or a share of all (float)."""
        self._amount = amount
        self._hashes = np.zeros(0, np.uint64)
        self._places = np.zeros((0, 2), np.int64)  # part, row
        self.n_offered = 0

    def offer(self, part: int, rows: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64]) -> None:
        """Consider rows (N,) of a part of the text; `hashes` (N,): the first eight bytes of those of the pairs.

        Raises DataError if a share exceeds MOST_LINES pairs.
        """
        self.n_offered += len(rows)
        if isinstance(self._amount, float):
            is_below = hashes < np.uint64(int(self._amount * 2**64))
            rows, hashes = rows[is_below], hashes[is_below]
        self._hashes = np.concatenate([self._hashes, hashes])
        self._places = np.concatenate([self._places, np.stack([np.full(len(rows), part, np.int64), rows], axis=1)])
        if isinstance(self._amount, int):
            self._keep(self._amount)
        elif len(self._hashes) > MOST_LINES:
            raise DataError(
                f"data.valid: a share of {self._amount:g} is more than {MOST_LINES:,} pairs of this text, which "
                "no development set needs; take a smaller share or a number of lines"
            )

    def _keep(self, n: int) -> None:
        """Keep the `n` smallest hashes; of equal ones, the first."""
        order = np.argsort(self._hashes, kind="stable")[:n]
        self._hashes, self._places = self._hashes[order], self._places[order]

    def chosen(self) -> dict[int, list[int]]:
        """Return the rows of the development set by part, in the order of the text. Raises DataError if it is empty."""
        if isinstance(self._amount, int):
            self._keep(max(1, self.n_offered // _LARGEST_PART))
        if not len(self._places):
            raise DataError(
                f"data.valid: none of {self.n_offered:,} pairs is in a share of {self._amount:g} of them; "
                "take a larger share or a number of lines"
            )
        rows: dict[int, list[int]] = {}
        for part, row in sorted(map(tuple, self._places.tolist())):
            rows.setdefault(part, []).append(row)
        return rows
