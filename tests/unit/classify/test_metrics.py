"""Scores of classes, against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.evaluate.metrics import class_scores

LABELS = np.array([0, 0, 0, 1, 1, 2])
PROBABILITIES = np.array([
    [0.9, 0.1, 0.0, 0.0],
    [0.6, 0.4, 0.0, 0.0],
    [0.2, 0.7, 0.1, 0.0],  # wrong
    [0.1, 0.9, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0],
    [0.5, 0.3, 0.2, 0.0],  # wrong
])  # fmt: skip


def test_metrics_by_hand() -> None:
    scores = class_scores(PROBABILITIES, LABELS)
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.confusion.tolist() == [[2, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    # F1 = 2 right / (of the class + predicted): 2·2/(3+3), 2·2/(2+3), 0; the fourth class has no part
    assert scores.macro_f1 == pytest.approx((4 / 6 + 4 / 5 + 0) / 3)
    # bins of 1/15: two texts of 0.9 in one, all others on their own; 1.0 is right with certainty
    gaps = (2 - 1.8, 1 - 0.6, 0.7 - 0, 1 - 1.0, 0.5 - 0)
    assert scores.calibration_error == pytest.approx(sum(gaps) / 6)


def test_calibrated_classifier_has_zero_calibration_error() -> None:
    probabilities = np.tile([0.75, 0.25], (4, 1))
    assert class_scores(probabilities, np.array([0, 0, 0, 1])).calibration_error == pytest.approx(0)
    assert class_scores(probabilities, np.array([1, 1, 1, 0])).calibration_error == pytest.approx(0.5)
