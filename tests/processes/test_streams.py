"""Standard streams that are closed before `nmt` starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tiny_run import tiny_config, tiny_model, tiny_tokenizer, write_run

SCRIPT = Path(sys.executable).with_name("nmt")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    tokenizer, config = tiny_tokenizer(), tiny_config()
    return write_run(tmp_path / "run", config, tokenizer, tiny_model(config, tokenizer))


def test_commands_run_with_closed_standard_streams(run: Path) -> None:
    (run / "in").write_text("mali\n")
    command = f"{SCRIPT} translate --run {run} --input {run / 'in'}"
    whole = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert whole.stdout.count(b"\n") == 1
    no_err = subprocess.run(["bash", "-c", f"{command} 2>&-"], capture_output=True, check=True)
    assert (no_err.stdout, no_err.stderr) == (whole.stdout, b"")
    no_out = subprocess.run(["bash", "-c", f"{SCRIPT} config >&-"], capture_output=True, check=False)
    assert (no_out.returncode, no_out.stdout, no_out.stderr) == (0, b"", b"")
