"""The documentation as a website."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT


@pytest.mark.exhaustive
def test_site_is_built_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "site" / "your-data" / "index.html").is_file()
