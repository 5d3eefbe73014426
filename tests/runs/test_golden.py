"""What was once right must stay: the first losses of the sample run, a run of an older version, sacrebleu's score."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from nmt.evaluate.metrics import corpus_score
from nmt.translate.loading import Translator
from places import GOLDEN
from scripts.checks import golden as golden_files

pytestmark = pytest.mark.usefixtures("no_coverage")


def test_first_losses_equal_golden(tmp_path):
    """If a change is meant to change them: python -m scripts.checks.golden losses."""
    expected = json.loads((GOLDEN / "losses.json").read_text(encoding="utf-8"))
    assert golden_files.losses(tmp_path) == pytest.approx(expected, abs=2e-3)


def test_old_run_translates():
    golden = json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))
    found = [best.text for best, *_ in Translator.load(GOLDEN / "run").translate_lines(golden["source"])]
    assert found == golden["translation"]
    assert len(set(found)) == len(found)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values in nested lists and mappings, with their paths."""
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, f"{path}/{key}")
    else:
        yield path, value


def test_runs_data_and_exports_of_an_older_version_work_as_before(tmp_path, monkeypatch):
    """If a change is meant to change them: python -m scripts.checks.golden kinds, by the older version."""
    shutil.copytree(GOLDEN / "kinds", tmp_path / "kinds")
    monkeypatch.chdir(tmp_path / "kinds")
    expected = dict(leaves(json.loads((GOLDEN / "kinds" / "outcomes.json").read_text(encoding="utf-8"))))
    found = dict(leaves(golden_files.outcomes()))
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        assert found[path] == (pytest.approx(value, abs=2e-3) if isinstance(value, float) else value), path


def test_bleu_and_signature_equal_sacrebleu_command(tmp_path):
    golden = json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))
    refs = [line[::-1] for line in golden["source"]]
    for name, lines in (("hyp", golden["translation"]), ("ref", refs)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-w", "6"]
    theirs = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout)
    ours = corpus_score("bleu", golden["translation"], refs)
    assert ours.value == pytest.approx(theirs["score"], abs=1e-6)
    assert ours.signature == f"BLEU|{theirs['signature']}"
