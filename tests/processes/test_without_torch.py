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

COMMAND = """
from nmt.cli import main
try:
    main({!r}.split())
except SystemExit as end:
    assert end.code == 0, end.code
"""
PREPARE = """
from pathlib import Path
from nmt.prepare.prepare import prepare
from tiny_corpus import tiny_settings
prepare(tiny_settings(Path(), data={"clean": {"misaligned": 0.03}}), Path("data"))
"""
"""Text is prepared without torch unless a classifier cleans it."""
MODULES = ["nmt.evaluate.compare.page", "nmt.figures.curves", "nmt.recipes.bidirectional"]
LISTS = ["torch", "numpy", "matplotlib", "safetensors", "sacrebleu"]


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        pytest.param(COMMAND.format("runs"), LISTS, id="runs"),
        pytest.param(COMMAND.format("compare --hyp one other --ref reference"), ["torch"], id="compare"),
        pytest.param(PREPARE, ["torch"], id="prepare"),
        *(pytest.param(f"import {module}", ["torch"], id=module) for module in MODULES),
    ],
)
def test_torch_is_not_imported(code: str, heavy: list[str], tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", [train(100), valid(100, 3.0)], steps=[100])
    tiny_text(tmp_path)
    for name in ("one", "other", "reference"):
        (tmp_path / name).write_text(f"a b c\n{name}\n")
    environment = os.environ | {"PYTHONPATH": str(Path(tiny_corpus.__file__).parent)}
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint('heavy:', {{*{heavy}}} & {{*sys.modules}})"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("heavy: set()\n")
