"""Student's t distribution against published tables."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.evaluate.significance import quantile, two_sided_p

# t of two-sided 95 % and 99 %
TABLE = {
    1: (12.706, 63.657), 2: (4.303, 9.925), 3: (3.182, 5.841), 4: (2.776, 4.604), 5: (2.571, 4.032),
    8: (2.306, 3.355), 10: (2.228, 3.169), 30: (2.042, 2.750), 120: (1.980, 2.617), math.inf: (1.960, 2.576),
}  # fmt: skip


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_match_tables(freedom: float):
    for confidence, t in zip((0.95, 0.99), TABLE[freedom], strict=True):
        assert quantile(confidence, freedom) == pytest.approx(t, abs=6e-4)
        assert two_sided_p(quantile(confidence, freedom), freedom) == pytest.approx(1 - confidence, rel=1e-9)


def test_closed_forms():
    for t in (1e-6, 0.3, 1, 7, 1e4):
        assert two_sided_p(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-12)
        assert two_sided_p(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)
    assert two_sided_p(0, 3.5) == 1


def test_many_degrees_of_freedom_approach_normal():
    for t in (0.1, 1.5, 3, 5):
        assert two_sided_p(t, 9.9e6) == pytest.approx(two_sided_p(t, 1.1e7), rel=1e-4)
        assert two_sided_p(t, math.inf) == pytest.approx(math.erfc(t / math.sqrt(2)))


@given(st.floats(1, 1e6), st.floats(0, 50), st.floats(0.01, 5))
def test_p_is_symmetric_and_monotonic(freedom: float, t: float, more: float):
    p = two_sided_p(t, freedom)
    assert 0 <= p <= 1
    assert two_sided_p(-t, freedom) == p
    assert two_sided_p(t + more, freedom) <= p + 1e-12
    assert two_sided_p(t, freedom + more) <= p + 1e-9
