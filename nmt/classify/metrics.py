"""Scores of predicted classes.

Legend: N texts, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Probabilities = npt.NDArray[np.floating[Any]]
Classes = npt.NDArray[np.int64]

BINS = 15
"""Of the expected calibration error."""


@dataclass(frozen=True)
class ClassScores:
    """Scores of a text; all but the matrix are between 0 and 1."""

    accuracy: float
    """Share of texts whose most probable class is the right one."""
    macro_f1: float
    """Mean over the classes of the harmonic mean of precision and recall."""
    calibration_error: float
    """Expected calibration error: how far the probability of the predicted class is from the share of right
    predictions, in 15 bins of equal width, the mean weighted by their numbers of texts (Guo et al., 2017)."""
    confusion: Classes
    """(C, C) Number of texts of a class (row) that were predicted as another (column)."""


def class_scores(probabilities: Probabilities, labels: Classes) -> ClassScores:
    """Return the scores of probabilities (N, C) of texts with classes `labels` (N,).

    A class that neither occurs nor is predicted has no part in the mean F1.
    """
    n_classes = probabilities.shape[1]
    predicted, confidence = probabilities.argmax(1), probabilities.max(1).astype(np.float64)
    confusion = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    right, of_class, of_prediction = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    occurs = of_class + of_prediction > 0
    f1 = 2 * right[occurs] / (of_class + of_prediction)[occurs]
    bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)  # a bin is open below
    is_right = (predicted == labels).astype(np.float64)
    gaps = np.bincount(bins, is_right - confidence, BINS)  # the difference of the means, times the number of texts
    return ClassScores(
        accuracy=float(is_right.mean()),
        macro_f1=float(f1.mean()),
        calibration_error=float(np.abs(gaps).sum() / len(labels)),
        confusion=confusion,
    )
