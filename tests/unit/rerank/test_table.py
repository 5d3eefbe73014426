"""The choice by weights, by hand."""

from __future__ import annotations

import pytest

from nmt.recipes import rerank as module
from nmt.recipes.rerank import Candidate, Feature, NBest, Pairs, direct, make_table, rerank

CHANNEL = {"house": -3.0, "home": -1.0, "cat": -2.0, "": float("nan")}
LISTS = [
    NBest("Haus", (Candidate("house", -1.0), Candidate("home", -1.5))),
    NBest("", (Candidate("", 0.0),)),
    NBest("Katze", (Candidate("cat", -4.0), Candidate("", -4.5), Candidate("home", -5.0))),
]


def channel(pairs: Pairs) -> list[float]:
    return [CHANNEL[candidate.text] for _, candidate in pairs]


FEATURES = [direct(), Feature("channel", channel)]


@pytest.mark.parametrize(
    ("weights", "chosen"),
    [
        ((1.0, 0.0), [0, 0, 0]),
        ((1.0, 0.25), [0, 0, 0]),  # -1.75 and -1.75: the first
        ((1.0, 0.26), [1, 0, 0]),
        ((1.0, 1.0), [1, 0, 0]),  # -6.0, -6.5 (as bad as the worst), -6.0
        ((1.0, 1.01), [1, 0, 2]),
        ((0.0, -1.0), [0, 0, 0]),  # 2.0, 2.0, 1.0
        ((-1.0, 0.0), [1, 0, 2]),
    ],
)
def test_the_highest_weighted_sum_wins(weights: tuple[float, ...], chosen: list[int]) -> None:
    table = make_table(LISTS, FEATURES)
    assert table.values.shape == (2, 3, 3)
    assert table.texts[0] == ["house", "home", "home"]
    assert table.choose(weights).tolist() == chosen


def test_lines_come_in_their_order_however_many_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [("home", 1), ("", 0), ("home", 2)] * 3
    assert [*rerank(iter(LISTS * 3), FEATURES, (1.0, 2.0))] == expected
    for window in (1, 2, 9):
        monkeypatch.setattr(module, "WINDOW", window)
        assert [*rerank(LISTS * 3, FEATURES, (1.0, 2.0))] == expected
    assert [*rerank([], FEATURES, (1.0, 2.0))] == []
