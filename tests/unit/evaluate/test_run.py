"""Scores that are recorded in a run."""

from __future__ import annotations

from pathlib import Path

from nmt.data.corpus import Corpus
from nmt.evaluate.metrics import METRICS
from nmt.evaluate.report import Subject, evaluate
from nmt.evaluate.run import record_scores
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_scores
from nmt.runs.model import Origin


def test_recorded_scores_identify_weights_and_text(tiny_data: Path, tmp_path: Path) -> None:
    corpus, origin = Corpus.open(DataDir(tiny_data)), Origin(tmp_path, 30, "average", "the best", (10, 20, 30))
    subjects = [Subject(split=split, search="beam 5", precision="bf16") for split in ("test", "valid")]
    reports = [evaluate(["a b c d"], ["a b c d"], subject, lowercase=True) for subject in subjects]
    recorded = [record_scores(report, origin, corpus) for report in reports]
    assert read_scores(RunDir(tmp_path)) == recorded
    first, second = recorded
    expected = {
        "step": 30, "weights": "average", "averaged": [10, 20, 30], "ensemble": [], "split": "test", "lines": 1,
        "search": "beam 5", "precision": "bf16", "notes": ["lowercased: not comparable with cased scores"],
        "data": str(tiny_data), "corpus": corpus.fingerprint,
    }  # fmt: skip
    assert first.model_dump(include={*expected}) == expected
    assert [score.metric for score in first.scores] == [*METRICS] and first.text != second.text
