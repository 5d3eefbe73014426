"""What denoising masks: how much, which pieces stay, and that it depends on nothing but the place in the run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import TrainingConfig
from nmt.data.batching import Pairs, unpadded
from nmt.data.corpus import Joined, Lines
from nmt.data.noise import Noise, infill
from nmt.text.tokenizer import MASK, N_SPECIAL

SETTINGS = TrainingConfig(objective="denoising")


def lines(n: int, length: int = 12) -> Lines:
    rng = np.random.default_rng(n)
    return Lines.of([rng.integers(N_SPECIAL, 300, rng.integers(1, length)) for _ in range(n)])


def test_by_hand() -> None:
    ids = np.arange(100, 110)
    noised = infill(ids, 0.5, 2.0, np.random.default_rng(3)).tolist()
    kept = [i for i in noised if i != MASK]
    assert len(kept) == 5 and kept == sorted(kept)
    # where no mask stands, nothing is missing
    for one, other in pairwise(noised):
        assert MASK in (one, other) or other == one + 1


@given(
    st.lists(st.integers(N_SPECIAL, 400), max_size=40), st.floats(0.01, 0.99), st.floats(1.0, 8.0), st.integers(0, 99)
)
def test_no_line_becomes_longer_and_the_rest_is_in_order(ids: list[int], share: float, span: float, seed: int) -> None:
    noised = infill(np.array(ids, np.int64), share, span, np.random.default_rng(seed)).tolist()
    kept = [i for i in noised if i != MASK]
    assert len(noised) <= len(ids)
    assert abs(len(ids) - len(kept) - share * len(ids)) < 1
    rest = iter(ids)
    assert all(i in rest for i in kept), "a subsequence"


@pytest.mark.parametrize(("share", "span"), [(0.35, 3.5), (0.5, 6.0)])
def test_the_mean_share_and_span(share: float, span: float) -> None:
    rng, ids = np.random.default_rng(1), np.arange(N_SPECIAL, N_SPECIAL + 41)
    noised = [infill(ids, share, span, rng) for _ in range(2500)]
    n_masked = sum(len(ids) - int((line != MASK).sum()) for line in noised)
    n_spans = sum(int((line == MASK).sum()) for line in noised)
    assert n_masked / (2500 * len(ids)) == pytest.approx(share, abs=0.002)
    # the last span of a line is cut short
    assert 0.75 * span < n_masked / n_spans < span


def test_it_depends_on_seed_epoch_and_row_alone() -> None:
    side = lines(50)
    pairs, noise = Pairs.of_sides(side, side), Noise(SETTINGS, 1)
    rows = np.arange(50)
    whole = unpadded(noise.modified(pairs, rows, 1).batch(rows).src)
    part = noise.modified(pairs, np.arange(30, 20, -1), 1)
    assert [ids.tolist() for ids in unpadded(part.batch(np.arange(10)).src)] == [
        ids.tolist() for ids in reversed(whole[21:31])
    ]
    other_seed = Noise(SETTINGS, 9)
    for changed in (
        noise.modified(pairs, rows, 2),
        other_seed.modified(pairs, rows, 1),
    ):
        found = unpadded(changed.batch(rows).src)
        assert sum(a.tolist() != b.tolist() for a, b in zip(found, whole, strict=True)) > 25


def test_the_target_is_the_line_itself() -> None:
    side = lines(20)
    pairs, rows = Pairs.of_sides(side, side), np.array([7, 3, 19])
    modified = Noise(SETTINGS, 1).modified(pairs, rows, 0)
    assert modified.batch(np.arange(3)).tgt_out.tolist() == pairs.batch(rows).tgt_out.tolist()
    assert modified.corpus_rows(np.arange(3)).tolist() == rows.tolist()
    assert (modified.batch(np.arange(3)).src == MASK).any()


def test_joined_sides_are_as_one() -> None:
    parts = [lines(n) for n in (3, 1, 5)]
    joined = Joined(*parts)
    ids = [part.gather(np.array([row]), 0)[0, :n].tolist() for part in parts for row, n in enumerate(part.n_ids())]
    assert len(joined) == 9 and joined.n_ids().tolist() == [len(line) for line in ids]
    rows = np.array([8, 0, 3, 4, 2, 3])
    gathered = joined.gather(rows, 1)
    for row, line in zip(rows, gathered.tolist(), strict=True):
        assert line[: len(ids[row]) + 1] == [*ids[row], 1] and not any(line[len(ids[row]) + 1 :])
    assert gathered.shape[1] == 1 + max(len(ids[row]) for row in rows)
