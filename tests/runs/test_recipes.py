"""Tests of complete recipes, including the commands that train."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from command import Command, run_command
from kept_run import quicken
from nmt.config.load import dump_config, load_config
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.recipes import bidirectional
from nmt.recipes import directory as commands
from nmt.runs.info import read_info
from nmt.runs.state import saved_steps
from nmt.text.vocabularies import Tokenizers
from recipe_folder import make_folder, small_chunks
from tiny_corpus import tiny_settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `make_folder` creates."""
    return make_folder(tmp_path_factory.mktemp("recipes"))


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Run the commands of a recipe in this process and a separate working directory."""
    quicken(monkeypatch)
    small_chunks(monkeypatch)
    words = list[list[str]]()

    def run_nmt(arguments: Sequence[str]) -> int:
        words.append(list(arguments))
        done = run_command(*arguments)
        assert done.status in (0, 2), done.err
        return int(done.status)

    for module in (commands, bidirectional):
        monkeypatch.setattr(module, "run_nmt", run_nmt)
    return words


def test_recipe_runs_following_commands(folder: Path, nmt: Command, called: list[list[str]]) -> None:
    short = ["max_steps=2", "warmup_steps=1", "validate_every_steps=2", "save_every_steps=1"]
    settings = [word for setting in short for word in ("--set", f"training.{setting}")]
    again = ("distil", "--teacher", folder / "run", "--output", "out", "--beam", "1", *settings)
    done = nmt(*again)
    assert done.status == 0 and called == []
    printed = [line.split()[1:] for line in done.out.splitlines() if line.startswith("nmt ")]
    assert nmt(*again, "--train").status == 0
    assert called == printed and [words[0] for words in called] == ["prepare", "train", "evaluate"]
    assert nmt(*again, "--train").status == 0, "a finished run is not trained again"
    assert called[4] == ["train", "--resume", "--config", "out/config.yaml", "--run", "runs/distilled-out-aa-bb"]
    assert nmt(*again, "--set", "model.d_ff=24", "--train").status == 2, "another model is another run"


def test_run_in_one_direction_starts_from_both(folder: Path, nmt: Command, called: list[list[str]]) -> None:
    config = tiny_settings(folder / "text", data={"dir": "split", "valid": 1000}, search={"beam": 1}, training={
        "average_last": 1, "update_tokens": 60, "precision": "float32",
    })  # fmt: skip
    prepare(config, Path("split"), folder / "run", echo=lambda _: None)
    Path("small.yaml").write_text(dump_config(config), encoding="utf-8")
    again = ("bidirectional", "--config", "small.yaml", "--one", "2", "--both")
    done = nmt(*again, "3")
    assert done.status == 0, done.err
    both, one = (RunDir(Path(f"runs/small-both{end}")) for end in ("", "-aa-bb"))
    assert saved_steps(both)[-1] == 3 and saved_steps(one)[-1] == 2
    assert read_info(one).initial.step == 3
    configs = [load_config(run.config).data for run in (both, one)]
    assert [config.directions for config in configs] == [["aa-bb", "bb-aa"], ["aa-bb"]]
    assert Tokenizers.load(one.tokenizer, ["aa", "bb"]).tags == Tokenizers.load(both.tokenizer, ["aa", "bb"]).tags

    done = nmt(*again, "3")
    assert done.status == 0 and len(called) == 2, "nothing is left to do"
    assert done.err.splitlines() == [f"nmt: {run.path}: already finished" for run in (both, one)]
    assert nmt(*again, "4").status == 0 and called[2][1] == "--resume", "a raised limit resumes the training"
    assert saved_steps(both)[-1] == 4 and len(called) == 3
    other = config.model_copy(update={"model": config.model.model_copy(update={"d_ff": 24})})
    Path("small.yaml").write_text(dump_config(other), encoding="utf-8")
    assert nmt(*again, "4").status == 2 and called[3][1] == "--resume", "another model is another run"
