"""What must not take a second does not import torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tiny_corpus
from logged_run import make_run, train, valid
from tiny_corpus import tiny_text


def test_runs_are_listed_without_torch(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", [train(100), valid(100, 3.0)], steps=[100])
    code = """
import sys
from nmt.cli import main
try:
    main(["runs"])
except SystemExit as end:
    assert end.code == 0, end.code
print("heavy:", sorted({"torch", "numpy", "matplotlib", "safetensors", "sacrebleu"} & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("heavy: []\n")


def test_text_is_prepared_without_torch(tmp_path: Path) -> None:
    """Unless a classifier cleans it."""
    tiny_text(tmp_path)
    code = """
import sys
from pathlib import Path
from nmt.prepare.prepare import prepare
from tiny_corpus import tiny_settings
prepare(tiny_settings(Path(), data={"clean": {"misaligned": 0.03}}), Path("data"))
print("torch" in sys.modules)
"""
    path = {"PYTHONPATH": str(Path(tiny_corpus.__file__).parent)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | path, capture_output=True, text=True, check=True
    )
    assert ran.stdout.endswith("\nFalse\n")


@pytest.mark.parametrize("module", ["nmt.evaluate.compare.page", "nmt.figures.curves", "nmt.recipes.bidirectional"])
def test_module_is_imported_without_torch(module: str) -> None:
    code = f"import sys, {module}; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_files_of_translations_are_compared_without_torch(tmp_path: Path) -> None:
    for name in ("one", "other", "reference"):
        (tmp_path / name).write_text(f"a b c\n{name}\n")
    code = """
import sys
from nmt.cli import main
try:
    main("compare --hyp one other --ref reference".split())
except SystemExit as end:
    assert end.code == 0, end.code
print("torch" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("\nFalse\n")
