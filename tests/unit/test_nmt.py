"""What happens where nmt cannot run."""

import re
import runpy

import pytest

from places import ROOT


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(SystemExit) as refused:
        runpy.run_path(str(ROOT / "nmt" / "__init__.py"))
    assert refused.value.code == 2 and re.fullmatch("nmt: .*WSL.*\n", capsys.readouterr().err)
