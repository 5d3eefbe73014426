"""Text infilling: number and length of masked spans, and reproducibility."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.batching import Pairs, unpadded
from nmt.data.lines import Lines
from nmt.text.ids import MASK, N_SPECIAL
from nmt.training.facts import DenoisingConfig
from nmt.training.objectives.denoising import infill, infilled

RNG = np.random.default_rng(50)
SIDE = Lines.of([RNG.integers(N_SPECIAL, 300, RNG.integers(1, 12)) for _ in range(50)])
PAIRS = Pairs(SIDE, SIDE)


def noised(rows: np.ndarray, seed: int = 1, epoch: int = 1) -> Pairs:
    return infilled(DenoisingConfig(), seed, PAIRS, rows, epoch)


@given(
    st.lists(st.integers(N_SPECIAL, 400), max_size=40), st.floats(0.01, 0.99), st.floats(1.0, 8.0), st.integers(0, 99)
)
def test_infilling_keeps_order_of_rest_and_never_lengthens(
    ids: list[int], share: float, span: float, seed: int
) -> None:
    found = infill(np.array(ids, np.int64), share, span, np.random.default_rng(seed)).tolist()
    kept = [i for i in found if i != MASK]
    assert len(found) <= len(ids)
    assert abs(len(ids) - len(kept) - share * len(ids)) < 1
    rest = iter(ids)
    assert all(i in rest for i in kept), "a subsequence"


@pytest.mark.parametrize(("share", "span"), [(0.35, 3.5), (0.5, 6.0)])
def test_infilling_has_requested_mean_share_and_span(share: float, span: float) -> None:
    rng, ids = np.random.default_rng(1), np.arange(N_SPECIAL, N_SPECIAL + 41)
    lines = [infill(ids, share, span, rng) for _ in range(2500)]
    n_masked = sum(len(ids) - int((line != MASK).sum()) for line in lines)
    n_spans = sum(int((line == MASK).sum()) for line in lines)
    assert n_masked / (2500 * len(ids)) == pytest.approx(share, abs=0.002)
    # the last span of a line is cut short
    assert 0.75 * span < n_masked / n_spans < span
    # where no mask stands, nothing is missing
    assert all(MASK in pair or pair[1] == pair[0] + 1 for line in lines for pair in pairwise(line.tolist()))


def test_infilling_depends_on_seed_epoch_and_row_only() -> None:
    rows = np.arange(50)
    ids = partial(lambda pairs, n: [line.tolist() for line in unpadded(pairs.batch(np.arange(n)).src)])
    whole, part = ids(noised(rows), 50), noised(np.arange(30, 20, -1))
    assert ids(part, 10) == whole[30:20:-1]
    for changed in (noised(rows, epoch=2), noised(rows, seed=9)):
        assert sum(a != b for a, b in zip(ids(changed, 50), whole, strict=True)) > 25
    assert part.batch(np.arange(10)).tgt_out.tolist() == PAIRS.batch(np.arange(30, 20, -1)).tgt_out.tolist()
    assert part.corpus_rows(np.arange(10)).tolist() == list(range(30, 20, -1))
