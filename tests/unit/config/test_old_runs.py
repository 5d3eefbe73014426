"""Runs that were written before 0.2.0, with a setting that no longer exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import Command
from nmt.config.load import check_config, dump_config
from nmt.layout import RunDir
from nmt.runs.info import RunInfo, write_info

TREE = {"data": {"direction": "aa-bb", "train": [{"files": {"aa": "a", "bb": "b"}}]}}


@pytest.fixture
def older(tmp_path: Path) -> RunDir:
    run = RunDir(tmp_path / "older")
    run.path.mkdir()
    text = dump_config(check_config(TREE, "x")).replace("  stages: []\n", "  stages: [{share: 0.5}, {share: 0.5}]\n")
    run.config.write_text(text, encoding="utf-8")
    write_info(run, RunInfo(format=1, data_dir="", corpus="", tokenizer="", precision="float32"))
    return run


@pytest.mark.parametrize(
    "command", ["translate --run {}", "evaluate --run {}", "export --run {} --output o", "train --resume --run {}"]
)
def test_commands_refuse_older_run_in_one_line_that_names_version(older: RunDir, command: str, nmt: Command) -> None:
    done = nmt(*command.format(older.path).split())
    assert done.status and done.err == (
        f"nmt: {older.config}: written before 0.2.0, with training.stages.0.share, and cannot be read any more; use "
        "the version that wrote it, or train again\n"
    )


def test_list_of_runs_shows_why_older_run_cannot_be_read(older: RunDir, nmt: Command) -> None:
    assert "written before 0.2.0" in nmt("runs", older.path.parent).out
