"""Tests of the commands that a recipe runs."""

from __future__ import annotations

import sys
from unittest.mock import Mock

import pytest

from nmt.recipes import directory as commands


@pytest.mark.parametrize(
    ("status", "message"), [(0, ""), (2, ""), (75, "nmt: stopped; run the same command again to continue\n")]
)
def test_stopped_recipe_prints_resume_command(
    status: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for = Mock(return_value=status)
    monkeypatch.setattr(commands, "wait_for", wait_for)
    assert commands.run_nmt(["train", "--resume"]) == status
    wait_for.assert_called_once_with([sys.executable, "-m", "nmt", "train", "--resume"])
    assert capsys.readouterr().err == message
