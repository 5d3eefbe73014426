"""Tests of the directory of a recipe, and of the commands that it runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from nmt.console import say_once
from nmt.errors import CheckpointError
from nmt.files.write import Lock
from nmt.layout import RunDir
from nmt.recipes import directory
from nmt.recipes.directory import RecipeDir
from nmt.recipes.teachers import RunTeacher, run_config
from nmt.runs.info import Selected, write_selected
from nmt.runs.model import ModelRef, open_saved
from nmt.search.settings import SearchConfig
from places import GOLDEN
from recipe_folder import lines_of


def test_run_that_still_trains_is_not_used_by_recipes_and_else_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir(tmp_path / "run")
    shutil.copytree(GOLDEN / "run", run.path)
    write_selected(run, Selected(best_step=400))

    def note(model: Path | ModelRef = run.path) -> str:
        open_saved(model)
        return capsys.readouterr().err

    assert note() == "", "it was stopped"
    lock = Lock(run.lock, "trains")
    with pytest.raises(CheckpointError, match=f"^{run.path}: is still training"):
        run_config(run.path)
    assert note() == f"nmt: {run.path}: still training; using the best checkpoint so far, step 400\n"
    assert note() == note(ModelRef((run.path,), "last")) == "", "said once"
    say_once.cache_clear()
    write_selected(run, Selected(best_step=400, finished_step=400))  # its model card is written
    assert note() == ""
    lock.release()
    assert run_config(run.path).data.direction == "aa-bb"


def test_text_is_read_lazily_while_translating() -> None:
    n_read = 0

    def rows() -> Iterator[str]:
        nonlocal n_read
        for number in range(100):
            n_read += 1
            yield str(number)

    def translate(chunk: Sequence[str], first: int, _: object) -> list[str]:
        assert n_read == min(first + 16, 100) and chunk[0] == str(first)
        return [f"t{line}" for line in chunk]

    recipe = RecipeDir(Path("out"), {}, RunTeacher(ModelRef(), SearchConfig()))
    recipe.write("all", rows(), 100, translate, lambda path: {"lines": len(lines_of(path))})
    assert lines_of(Path("out/all")) == [f"t{number}" for number in range(100)]


@pytest.mark.parametrize(
    ("status", "message"), [(0, ""), (2, ""), (75, "nmt: stopped; run the same command again to continue\n")]
)
def test_stopped_recipe_prints_resume_command(
    status: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for = Mock(return_value=status)
    monkeypatch.setattr(directory, "wait_for", wait_for)
    assert directory.run_nmt(["train", "--resume"]) == status
    wait_for.assert_called_once_with([sys.executable, "-m", "nmt", "train", "--resume"])
    assert capsys.readouterr().err == message
