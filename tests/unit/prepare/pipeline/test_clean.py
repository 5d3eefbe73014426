"""The search for equal hashes, against a comparison of all pairs in memory."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.prepare.pipeline.clean import duplicates, write_keys

# few different halves, so that keys share one of them, or both
_HALF = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])
_SCORE = st.sampled_from([math.nan, -math.inf, -1.0, 0.5, math.inf])
_ROW = st.tuples(_HALF, _HALF, _SCORE, st.booleans())
_PARTS = st.lists(st.tuples(st.booleans(), st.lists(_ROW, max_size=8)), max_size=4)

_Part = tuple[bool, list[tuple[int, int, float, bool]]]


def expected(parts: list[_Part]) -> dict[int, list[int]]:
    """Return the rows to drop, by part."""
    groups = defaultdict[tuple[int, int], list[tuple[tuple[int, float], int, int]]](list)
    for number, (has_scores, rows) in enumerate(parts):
        for row, (high, low, score, is_gone) in enumerate(rows):
            if not is_gone:
                rank = (0, -score) if has_scores and not math.isnan(score) else (1, 0.0)
                groups[high, low].append((rank, number, row))
    dropped = defaultdict[int, list[int]](list)
    for group in groups.values():
        for _, number, row in sorted(group)[1:]:
            dropped[number].append(row)
    return {number: sorted(rows) for number, rows in dropped.items()}


def found(folder: Path, parts: list[_Part], n_buckets: int) -> tuple[dict[int, list[int]], int]:
    """Return the rows to drop, by part, and the number of compared keys."""
    for number, (has_scores, rows) in enumerate(parts):
        keys = np.array([row[:2] for row in rows], np.uint64).reshape(-1, 2)
        write_keys(folder / str(number), keys, np.array([row[2] for row in rows], np.float32) if has_scores else None)
    folders = [folder / str(number) for number in range(len(parts))]
    gone = {number: np.flatnonzero([row[3] for row in rows]) for number, (_, rows) in enumerate(parts)}
    gone = {number: rows for number, rows in gone.items() if len(rows)}
    dropped, total = defaultdict[int, list[int]](list), 0
    for bucket in range(n_buckets):
        drops, n = duplicates(folders, bucket, n_buckets, gone)
        total += n
        for number, drop in drops.items():
            assert drop.tolist() == sorted(drop.tolist())
            dropped[number] += drop.tolist()
    return {number: sorted(rows) for number, rows in dropped.items()}, total


@settings(max_examples=60)
@given(_PARTS, st.integers(1, 3))
def test_duplicates_match_pairwise_comparison(parts: list[_Part], n_buckets: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        drops, total = found(Path(folder), parts, n_buckets)
    assert drops == expected(parts)
    assert total == sum(not row[3] for _, rows in parts for row in rows)


def test_group_keeps_first_best_pair(tmp_path: Path) -> None:
    parts = [
        (True, [(7, 7, 0.5, False), (7, 7, 1.0, False)]),
        (False, [(7, 7, 0.0, False)]),
        (True, [(7, 7, 1.0, False)]),
    ]
    assert found(tmp_path, parts, 1) == ({0: [0], 1: [0], 2: [0]}, 4)


@pytest.mark.parametrize("n", [0, 1, 2**17])
def test_duplicates_are_found_among_many_keys(n: int, tmp_path: Path) -> None:
    keys = np.random.default_rng(1).integers(0, 2**64, (n, 2), np.uint64)
    for number in range(2):
        write_keys(tmp_path / str(number), keys[::-1] if number else keys, None)
    results = [duplicates([tmp_path / "0", tmp_path / "1"], bucket, 5, {}) for bucket in range(5)]
    assert sum(total for _, total in results) == 2 * n
    assert [part for drops, _ in results for part in drops] == [1] * (min(n, 5))
    assert sum(len(drops[1]) for drops, _ in results if drops) == n
