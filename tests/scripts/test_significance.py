"""The script that tests the tests of `nmt compare`, on made systems."""

from __future__ import annotations

import pytest
from sacrebleu.significance import PairedTest

from made_systems import reference, with_errors
from nmt.evaluate.metrics import count_lines, make_scorer
from scripts.measure import significance

CORRECT = reference(60)


def systems(n: int, rate: float = 0.3):
    return count_lines("chrf", [with_errors(CORRECT, rate, seed) for seed in range(n)], CORRECT)


def test_exchanging_lines_preserves_sum_of_counts() -> None:
    first, second = systems(2)
    for (one,), (other,) in significance.exchanged([first, second], 5):
        assert (one.counts + other.counts == first.counts + second.counts).all()
        assert one.score() not in (first.score(), second.score())


def test_paired_bootstrap_agrees_with_sacrebleu() -> None:
    texts = [with_errors(CORRECT, rate, 1) for rate in (0.3, 0.33)]
    refs = [(line,) for line in CORRECT]
    named = [(str(i), text) for i, text in enumerate(texts)]
    _, result = PairedTest(named, {"chrf": make_scorer("chrf", refs)}, None, "bs", 1000)()
    first, second = count_lines("chrf", texts, CORRECT)
    assert significance.by_paired_bs([first], [second]) == pytest.approx(result["chrF2"][1].p_value, abs=0.06)


def test_group_tests_distinguish_worse_from_equal_systems() -> None:
    equal, worse = systems(6), systems(3, rate=0.6)
    for name, test in significance.GROUP_TESTS:
        assert test(equal[:3], worse) < 0.01, name
        assert test(equal[:3], equal[3:]) > 0.02, name
