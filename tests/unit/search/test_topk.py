"""The largest few, found by columns and a few rows at a time, are those that `topk` finds."""

from __future__ import annotations

import pytest
import torch

from nmt.search.rules import largest


@pytest.mark.parametrize("k", [1, 2, 6, 31, 200])
@pytest.mark.parametrize("n", [300, 2047, 2048, 8000, 8003, 8015])
def test_they_are_those_of_topk(n: int, k: int) -> None:
    torch.manual_seed(n + k)
    x = torch.stack([torch.randperm(n) for _ in range(2 * 45)]).view(2, 45, n).float()
    x[0, :, : n // 2] = -float("inf")
    x[1, 0, -1] = 2.0 * n  # the last of those that fill no column
    values, ids = largest(x, k)
    torch.testing.assert_close(values, x.topk(k).values, rtol=0, atol=0)
    torch.testing.assert_close(x.gather(-1, ids), values, rtol=0, atol=0)
    assert all(len(set(row)) == k for row in ids.flatten(0, 1).tolist())


def test_the_first_of_equals_is_the_largest() -> None:
    assert largest(torch.zeros(2, 3, 5000), 1)[1].tolist() == [[[0]] * 3] * 2
