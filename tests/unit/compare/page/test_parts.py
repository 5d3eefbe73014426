"""Parts of the test set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comparisons import comparison
from nmt.evaluate.compare.view import Part, by_length, make_view, part_scores
from nmt.evaluate.metrics import corpus_score


@settings(max_examples=50)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_parts_by_length_partition_lines(lengths: list[int]) -> None:
    parts = by_length(lengths)
    assert sorted(row for part in parts for row in part.rows.tolist()) == [*range(len(lengths))]
    highest = -1
    for part in parts:
        own = [lengths[row] for row in part.rows]
        assert min(own) > highest, "parts do not overlap"
        highest = max(own)
        assert part.name == (f"{min(own)}–{max(own)}" if min(own) < max(own) else f"{min(own)}")
    assert len(parts) <= 6


def test_part_score_equals_score_of_its_lines() -> None:
    view = make_view(comparison())
    rows = np.arange(3, 60, 5)
    (score,) = part_scores(view, view.by_line, [Part("some", rows)])
    references = [view.references[row] for row in rows]
    expected = [
        corpus_score("chrf", [system.translations[row] for row in rows], references).value for system in view.systems
    ]
    assert score.values == pytest.approx(expected) and score.n_lines == 12
    assert score.differences[0] is None and score.differences[1] is not None
    value, interval = score.differences[1]
    assert (
        value == pytest.approx(expected[1] - expected[0])
        and interval is not None
        and interval.low < value < interval.high
    )


def test_small_part_has_no_interval() -> None:
    view = make_view(comparison())
    (score,) = part_scores(view, view.by_line, [Part("few", np.arange(9))])
    assert [difference and difference[1] for difference in score.differences] == [None, None, None]
