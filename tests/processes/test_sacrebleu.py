"""Scores compared with the sacrebleu command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.evaluate.metrics import METRICS, corpus_score

HYPS = ["The cat sits on the mat .", "He doesn't know it.", "", "Two dogs run in the Park"]
REFS = ["The cat sat on the mat.", "He does not know it.", "An empty line", "Two dogs run in the park"]
SACREBLEU = [sys.executable, "-W", "ignore", "-m", "sacrebleu"]


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
    command = [*SACREBLEU, str(ref), "-i", str(hyp), "-m", *METRICS, "-w", "10", *case]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for metric, theirs in zip(METRICS, told, strict=True):
        ours = corpus_score(metric, HYPS, REFS, tgt_lang="en", lowercase=lowercase)
        assert ours.value == pytest.approx(theirs["score"], abs=1e-9)
        assert ours.signature == f"{theirs['name']}|{theirs['signature']}"


def test_scores_with_several_references_equal_sacrebleu_command(files: tuple[Path, Path], tmp_path: Path) -> None:
    others = ["A cat sits on a mat .", "He doesn't know.", "", "Two dogs run in the Park"]
    other = tmp_path / "other"
    other.write_text("".join(f"{line}\n" for line in others), encoding="utf-8")
    hyp, ref = files
    command = [*SACREBLEU, str(ref), str(other), "-i", str(hyp), "-m", *METRICS, "-w", "10", "--ter-case-sensitive"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for metric, theirs in zip(METRICS, told, strict=True):
        ours = corpus_score(metric, HYPS, list(zip(REFS, others, strict=True)), tgt_lang="en")
        assert ours.value == pytest.approx(theirs["score"], abs=1e-9)
        assert ours.signature == f"{theirs['name']}|{theirs['signature']}"
        assert ours.value != corpus_score(metric, HYPS, REFS).value
