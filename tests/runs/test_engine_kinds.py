"""Tests that CTranslate2 and the native engine agree for every kind of model."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from cases import cases
from engines import GREEDY, check_equal, ids
from export_run import LINES, both

pytestmark = pytest.mark.usefixtures("no_coverage")

KINDS: list[dict[str, object]] = [
    {"norm": norm, "activation": activation, "positions": positions, "tie_embeddings": tie, "joint": joint}
    for norm, activation, positions, (tie, joint) in product(
        ("pre", "post"),
        ("relu", "gelu"),
        ("sinusoidal", "learned"),
        (("all", True), ("target", True), ("none", True), ("target", False), ("none", False)),
    )
] + [{"activation": "silu"}]


@pytest.mark.parametrize("kind", cases(KINDS, always=KINDS[::3]), ids=lambda kind: "-".join(map(str, kind.values())))
def test_engine_output_equals_native_for_every_model_kind(kind: dict[str, object], tmp_path: Path) -> None:
    found = check_equal(both(tmp_path, **kind), LINES, **GREEDY)  # type: ignore[arg-type]
    assert len({tuple(of_line[0]) for of_line in ids(found)}) > 6  # the model does look at its source
