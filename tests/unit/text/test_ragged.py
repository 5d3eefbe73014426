"""Indices of items of different lengths."""

from __future__ import annotations

import numpy as np

from nmt.text.blocks import ranges


def test_ranges_of_any_length_are_concatenated() -> None:
    assert ranges(np.array([7, 3, 0]), np.array([2, 0, 3])).tolist() == [7, 8, 0, 1, 2]
    assert ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
    assert ranges(0, np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
