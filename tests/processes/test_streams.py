"""`nmt translate` as a process: standard streams that are closed before it starts, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tiny_run import tiny_config, tiny_model, tiny_tokenizer, write_run

SCRIPT = Path(sys.executable).with_name("nmt")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer, config = tiny_tokenizer(), tiny_config()
    return write_run(tmp_path_factory.mktemp("runs") / "run", config, tokenizer, tiny_model(config, tokenizer))


@pytest.fixture(scope="module")
def command(run: Path) -> str:
    (run / "in").write_text("mali\n")
    return f"{SCRIPT} translate --run {run} --input {run / 'in'}"


@pytest.fixture(scope="module")
def whole(command: str) -> subprocess.CompletedProcess[bytes]:
    """What the command prints; its standard error lists the imported modules too."""
    return subprocess.run(["bash", "-c", f"PYTHONPROFILEIMPORTTIME=1 {command}"], capture_output=True, check=True)


def test_commands_run_with_closed_standard_streams(command: str, whole: subprocess.CompletedProcess[bytes]) -> None:
    assert whole.stdout.count(b"\n") == 1
    no_err = subprocess.run(["bash", "-c", f"{command} 2>&-"], capture_output=True, check=True)
    assert (no_err.stdout, no_err.stderr) == (whole.stdout, b"")
    no_out = subprocess.run(["bash", "-c", f"{SCRIPT} config >&-"], capture_output=True, check=False)
    assert (no_out.returncode, no_out.stdout, no_out.stderr) == (0, b"", b"")


def test_translation_does_not_import_compiler(whole: subprocess.CompletedProcess[bytes]) -> None:
    imported = {line.rpartition(b"|")[2].strip() for line in whole.stderr.splitlines()}
    assert b"torch" in imported and not {b"torch._dynamo", b"sympy"} & imported
