"""Scores of parts of the test set."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from comparisons import comparison
from nmt.evaluate.compare.page import by_length, make_view, part_cells
from nmt.evaluate.metrics import corpus_score


@settings(max_examples=50)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_parts_by_length_partition_lines(lengths: list[int]) -> None:
    parts = by_length(lengths)
    assert sorted(row for rows in parts.values() for row in rows.tolist()) == [*range(len(lengths))]
    highest = -1
    for name, rows in parts.items():
        own = [lengths[row] for row in rows]
        assert min(own) > highest, "parts do not overlap"
        highest = max(own)
        assert name == (f"{min(own)}–{max(own)}" if min(own) < max(own) else f"{min(own)}")
    assert len(parts) <= 6


def test_score_of_part_equals_score_of_its_lines() -> None:
    view = make_view(comparison())
    rows = np.arange(3, 60, 5)
    cells = [*part_cells(view, rows)]
    references = [view.references[row] for row in rows]
    a, b, c = (corpus_score("chrf", [lines[row] for row in rows], references).value for lines in view.translations)
    assert cells[:3] == [f"{a:.2f}", f"{b:.2f}", f"<b>{b - a:+.2f}</b>"] and cells[4] == f"{c:.2f}"
    low, high = map(float, cells[3].split(" to "))
    assert low < b - a < high


def test_small_part_has_no_interval() -> None:
    assert [*part_cells(make_view(comparison()), np.arange(9))][3::3] == ["–", "–"]
