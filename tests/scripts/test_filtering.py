"""The script that measures how much damage `nmt filter` finds."""

from __future__ import annotations

import numpy as np

from scripts.experiments.filtering import table
from scripts.measure.damage import Made


def test_table_counts_dropped_pairs_by_kind() -> None:
    kinds = ["good", "good", "good", "good", "swapped", "swapped", "copied", "copied"]
    made = [Made(kind, ("a", "b"), ("a", "b")) for kind in kinds]
    scores = np.array([0.9, 0.8, 0.7, 0.05, 0.1, 0.2, 0.01, 0.6])
    assert list(table(made, scores, [1.0, 0.5])) == [
        "| kept | pairs | median score | 100% | 50% |",
        "|---|---|---|---|---|",
        "| swapped | 2 | 0.15 | 0.0% | 100.0% |",
        "| copied | 2 | 0.305 | 0.0% | 50.0% |",
        "| good pairs lost | 4 | 0.75 | 0.0% | 25.0% |",
        "| recall of damaged pairs | 4 | | 0.0% | 75.0% |",
        "| precision | | | - | 75.0% |",
    ]
