"""Scores compared with the sacrebleu command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.evaluate.metrics import METRIC_FACTS, MetricName, Reference, corpus_score

HYPS = ["The cat sits on the mat .", "He doesn't know it.", "", "Two dogs run in the Park"]
REFS = ["The cat sat on the mat.", "He does not know it.", "An empty line", "Two dogs run in the park"]
OTHERS = ["A cat sits on a mat .", "He doesn't know.", "", "Two dogs run in the Park"]
SACREBLEU = [sys.executable, "-W", "ignore", "-m", "sacrebleu"]
OPTIONS = {"chrf++": ("-m", "chrf", "--chrf-word-order", "2")}
"""Options that choose a metric, if its name does not."""


def of_command(metric: MetricName, *arguments: str | Path) -> tuple[float, str]:
    """Return the score and the signature that the command prints."""
    command = [*SACREBLEU, *arguments, *OPTIONS.get(metric, ("-m", metric)), "-w", "10"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told["score"], f"{told['name']}|{told['signature']}"


@pytest.mark.parametrize(
    ("lowercase", "references"),
    [(False, REFS), (True, REFS), (False, [*zip(REFS, OTHERS, strict=True)])],
    ids=["cased", "lowercase", "several references"],
)
def test_scores_and_signatures_equal_sacrebleu_command(
    tmp_path: Path, lowercase: bool, references: list[Reference]
) -> None:
    for name, lines in (("hyp", HYPS), ("ref", REFS), ("other", OTHERS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = [tmp_path / name for name in ("ref", "other")[: 1 + (references != REFS)]]
    case = ["-lc", "--chrf-lowercase"] if lowercase else ["--ter-case-sensitive"]
    for metric in METRIC_FACTS:
        ours = corpus_score(metric, HYPS, references, tgt_lang="en", lowercase=lowercase)
        score, signature = of_command(metric, *files, "-i", tmp_path / "hyp", *case)
        assert (ours.value, ours.signature) == (pytest.approx(score, abs=1e-9), signature)
        assert references == REFS or ours.value != corpus_score(metric, HYPS, REFS).value
