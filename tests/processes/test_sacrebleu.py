"""Scores compared with the sacrebleu command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.evaluate.metrics import METRIC_FACTS, MetricName, corpus_score

HYPS = ["The cat sits on the mat .", "He doesn't know it.", "", "Two dogs run in the Park"]
REFS = ["The cat sat on the mat.", "He does not know it.", "An empty line", "Two dogs run in the park"]
SACREBLEU = [sys.executable, "-W", "ignore", "-m", "sacrebleu"]
OPTIONS = {"chrf++": ("-m", "chrf", "--chrf-word-order", "2")}
"""Options that choose a metric, if its name does not."""


def of_command(metric: MetricName, *arguments: str | Path) -> tuple[float, str]:
    """Return the score and the signature that the command prints."""
    command = [*SACREBLEU, *arguments, *OPTIONS.get(metric, ("-m", metric)), "-w", "10"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told["score"], f"{told['name']}|{told['signature']}"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    hyp, ref = tmp_path / "hyp", tmp_path / "ref"
    hyp.write_text("".join(f"{line}\n" for line in HYPS), encoding="utf-8")
    ref.write_text("".join(f"{line}\n" for line in REFS), encoding="utf-8")
    return hyp, ref


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_and_signatures_equal_sacrebleu_command(files: tuple[Path, Path], lowercase: bool) -> None:
    hyp, ref = files
    case = ["-lc", "--chrf-lowercase"] if lowercase else ["--ter-case-sensitive"]
    for metric in METRIC_FACTS:
        ours = corpus_score(metric, HYPS, REFS, tgt_lang="en", lowercase=lowercase)
        score, signature = of_command(metric, ref, "-i", hyp, *case)
        assert ours.value == pytest.approx(score, abs=1e-9)
        assert ours.signature == signature


def test_scores_with_several_references_equal_sacrebleu_command(files: tuple[Path, Path], tmp_path: Path) -> None:
    others = ["A cat sits on a mat .", "He doesn't know.", "", "Two dogs run in the Park"]
    other = tmp_path / "other"
    other.write_text("".join(f"{line}\n" for line in others), encoding="utf-8")
    hyp, ref = files
    for metric in METRIC_FACTS:
        ours = corpus_score(metric, HYPS, list(zip(REFS, others, strict=True)), tgt_lang="en")
        score, signature = of_command(metric, ref, other, "-i", hyp, "--ter-case-sensitive")
        assert ours.value == pytest.approx(score, abs=1e-9)
        assert ours.signature == signature
        assert ours.value != corpus_score(metric, HYPS, REFS).value
