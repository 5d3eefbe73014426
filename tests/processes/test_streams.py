"""`nmt translate` as a process: standard streams that are closed before it starts, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from command import Command
from tiny_run import tiny_config, tiny_model, tiny_tokenizer, write_run

SCRIPT = Path(sys.executable).with_name("nmt")
LISTING = """
import atexit, sys
from pathlib import Path
from nmt.__main__ import main

atexit.register(lambda: Path("modules").write_text("\\n".join(sys.modules)))
main()
"""
"""`nmt`, which lists the imported modules at its end."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tokenizer, config = tmp_path_factory.mktemp("runs"), tiny_tokenizer(), tiny_config()
    write_run(folder / "run", config, tokenizer, tiny_model(config, tokenizer))
    (folder / "in").write_text("mali\n")
    return folder


@pytest.fixture(scope="module")
def no_err(folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A translation without standard error."""
    command = ["bash", "-c", 'exec "$@" 2>&-', "-", sys.executable, "-c", LISTING]
    return subprocess.run(
        [*command, "translate", "--run", "run", "--input", "in"], cwd=folder, capture_output=True, check=True
    )


def test_commands_run_with_closed_standard_streams(
    no_err: subprocess.CompletedProcess[bytes], folder: Path, nmt: Command
) -> None:
    whole = nmt("translate", "--run", folder / "run", "--input", folder / "in")
    assert (no_err.stdout.decode(), no_err.stderr) == (whole.out, b"") and whole.out.count("\n") == 1
    no_out = subprocess.run(["bash", "-c", f"{SCRIPT} config >&-"], capture_output=True, check=False)
    assert (no_out.returncode, no_out.stdout, no_out.stderr) == (0, b"", b"")


@pytest.mark.usefixtures("no_err")
def test_translation_does_not_import_compiler(folder: Path) -> None:
    imported = {*(folder / "modules").read_text().splitlines()}
    assert "torch" in imported and not {"torch._dynamo", "sympy"} & imported
