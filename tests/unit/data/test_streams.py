"""The stream of a corpus: every pair once in a pass, wherever it is cut."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.mixing import Run, Segments, Stream

sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)


def runs_of(sizes: list[int], first: int = 0) -> tuple[Run, ...]:
    """Runs one after the other."""
    starts = first + np.cumsum([0, *sizes])
    return tuple(Run(int(start), n) for start, n in zip(starts, sizes, strict=False))


def rows_of(stream: Stream, start: int, stop: int) -> list[int]:
    """The rows of a part of a stream, one by one."""
    return [
        row
        for firsts, ns in stream.take(start, stop)
        for a, n in zip(firsts, ns, strict=True)
        for row in range(a, a + n)
    ]


@given(sizes, st.integers(1, 9), st.lists(st.integers(0, 200), min_size=2, max_size=6))
def test_a_pass_has_every_pair_once_however_it_is_cut(sizes: list[int], block: int, cuts: list[int]) -> None:
    stream, n = Stream(runs_of(sizes, first=7), (3, 0), block), sum(sizes)
    cuts = sorted([0, *cuts, 5 * n])
    parts = [rows_of(stream, start, stop) for start, stop in itertools.pairwise(cuts) if stop <= 5 * n]
    rows = [row for part in parts for row in part]
    passes = [rows[start : start + n] for start in range(0, len(rows) - n + 1, n)]
    assert passes and all(sorted(one) == list(range(7, 7 + n)) for one in passes)


def test_passes_seeds_and_corpora_have_other_orders() -> None:
    runs = runs_of([30, 30])
    orders = [rows_of(Stream(runs, key, 1), start, start + 60) for key in ((1, 0), (2, 0), (1, 1)) for start in (0, 60)]
    assert len({tuple(order) for order in orders}) == 6


def test_the_rows_of_a_block_stay_together_and_its_place_is_drawn() -> None:
    stream = Stream(runs_of([20, 18]), (1, 0), 4)
    rows = rows_of(stream, 0, 38)
    blocks = [sorted(rows).index(row) for row in rows if row in (0, 4, 8, 12, 16, 20, 24, 28, 32, 36)]
    assert all(rows[rows.index(start) + 1] == start + 1 for start in (0, 4, 8, 12, 16, 20, 24, 28, 32, 36))
    assert blocks != sorted(blocks)
    assert {row < 20 for row in rows[:18]} in ({True}, {False})  # one shard after the other


def test_the_shards_of_each_pass_come_in_another_order() -> None:
    stream = Stream(runs_of([1] * 20), (1, 0))
    one, two = rows_of(stream, 0, 20), rows_of(stream, 20, 40)
    assert one != two and sorted(one) == sorted(two) and sorted(one) not in (one, two)


@given(sizes, st.integers(1, 9))
def test_segments_name_the_rows_of_a_window(sizes: list[int], block: int) -> None:
    stream, n = Stream(runs_of(sizes), (3, 0), block), sum(sizes)
    segments = Segments(list(stream.take(n // 3, n // 3 + 2 * n)), n)
    assert len(segments) == 2 * n
    order = np.random.default_rng(0).permutation(2 * n)
    expected = np.array(rows_of(stream, n // 3, n // 3 + 2 * n))
    assert segments.rows(order).tolist() == expected[order].tolist()
    assert len(Segments([], 5)) == 0
