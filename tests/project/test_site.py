"""The documentation as a website."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT


@pytest.mark.exhaustive
def test_site_is_built_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    env = os.environ | {"SOURCE_URL": "https://example.org/nmt/blob/v1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "site" / "your-data" / "index.html").is_file()
    assert 'href="https://example.org/nmt/blob/v1/README.md"' in (tmp_path / "site" / "index.html").read_text("utf-8")
