"""The script that measures how much damage `nmt filter` finds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from scripts.experiments import filtering
from scripts.experiments.filtering import table
from scripts.measure.damage import KINDS, Made


def test_precision_and_recall_by_hand() -> None:
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


def test_text_is_written_without_the_pairs_at_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {language: [f"{language} {n} ä." for n in range(60)] for language in ("de", "en")}
    for language, text in lines.items():
        (tmp_path / f"train.{language}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    written = tmp_path / "written"
    arguments = [str(tmp_path), "--write", str(written), "--skip", "10", "--pairs", "40"]
    monkeypatch.setattr(sys, "argv", ["filtering", *arguments])
    assert filtering.main() == 0
    kinds = (written / "kinds").read_text().splitlines()
    assert len(kinds) == 40
    assert "good" in kinds and set(kinds) - {"good"} <= set(KINDS)
    undamaged = set()
    for language, text in lines.items():
        original, damaged = (
            (written / f"{name}.{language}").read_text(encoding="utf-8").split("\n")[:-1]
            for name in ("original", "damaged")
        )
        assert original == text[10:50]
        undamaged.add(tuple(one == other for one, other in zip(original, damaged, strict=True)))
    assert [all(same) for same in zip(*undamaged, strict=True)] == [kind == "good" for kind in kinds]


def test_needs_something_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ([], ["--run", "runs/one"]):
        monkeypatch.setattr(sys, "argv", ["filtering", str(tmp_path), *arguments])
        with pytest.raises(SystemExit, match="2"):
            filtering.main()
