"""Tests of complete recipes, including the commands that train."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from command import Command, run_command
from kept_run import quicken
from nmt.config.load import dump_config, load_config
from nmt.data.manifest import read_manifest
from nmt.layout import DataDir, RunDir
from nmt.prepare.prepare import prepare
from nmt.recipes import directory as commands
from nmt.runs.info import read_info
from nmt.runs.state import saved_steps
from nmt.text.vocabularies import Tokenizers
from nmt.translate.loading import Translator
from recipe_folder import lines_of, make_folder, small_chunks
from tiny_corpus import tiny_settings, tiny_text


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

    monkeypatch.setattr(commands, "run_nmt", run_nmt)
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


@pytest.fixture
def mine(folder: Path) -> list[str]:
    """Return the files of 200 pairs, by their names in the working directory."""
    tiny_text(Path("text"))
    shutil.copytree(folder / "run", "base")
    for language in ("aa", "bb"):
        Path("text", f"train.{language}").rename(f"mine.{language}")
    return ["mine.aa", "mine.bb"]


SHORT = ("--set", "training.max_steps=3", "--set", "training.save_every_steps=1", "--set", "search.beam=1")
ADAPT = ("adapt", "--from", "base", *SHORT)


def test_adapting_prepares_trains_and_compares(mine: list[str], nmt: Command, called: list[list[str]]) -> None:
    run = RunDir(Path("runs/mine"))
    done = nmt(*ADAPT, *mine, "--output", run.path)
    assert done.status == 0, done.err
    assert [words[0] for words in called] == ["prepare", "train", "compare"]
    assert [f"nmt {' '.join(words)}" in done.out for words in called] == [True] * 3
    assert called[2] == ["compare", "base", "runs/mine", "--data", "runs/mine/adapt/prepared", "--split", "mine"]
    assert done.out.splitlines()[-1].endswith("nmt translate --run runs/mine letter.docx")
    assert saved_steps(run)[-1] == 3 and read_info(run).initial.step == saved_steps(RunDir(Path("base")))[-1]
    splits = read_manifest(DataDir(run.adapt / "prepared")).splits
    assert (splits["valid"].pairs, splits["mine"].pairs) == (19, 18), "a tenth of the distinct pairs"
    assert len([*Translator.load(run.path).translate(["ba"])]) == 1


def test_adapting_continues_with_same_arguments_only(
    mine: list[str], nmt: Command, called: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDir(Path("runs/base-adapted"))
    run_nmt = commands.run_nmt

    def stop_early(arguments: Sequence[str]) -> int:
        if arguments[0] == "train":
            return int(run_command(*arguments, "--stop-at", 1).status or 0)
        return run_nmt(arguments)

    monkeypatch.setattr(commands, "run_nmt", stop_early)
    assert nmt(*ADAPT, *mine).status == 75
    assert saved_steps(run)[-1] == 1
    monkeypatch.setattr(commands, "run_nmt", run_nmt)
    called.clear()
    config = (run.adapt / "config.yaml").read_bytes()
    others = ["--minutes", "5"], ["--general", *mine], ["--beside", *mine], ["--set", "training.ema=0.5"]
    for other in others:
        done = nmt(*ADAPT, *mine, *other)
        assert done.status == 2 and "--output" in done.err, other
    assert called == [] and (run.adapt / "config.yaml").read_bytes() == config
    assert nmt(*ADAPT, *mine).status == 0
    assert saved_steps(run)[-1] == 3 and called[1][:2] == ["train", "--resume"]


def test_adapting_to_tmx_beside_other_text(mine: list[str], nmt: Command, called: list[list[str]]) -> None:
    units = []
    for aa, bb in zip(*(lines_of(Path(name)) for name in mine), strict=True):
        units.append(f'<tu><tuv xml:lang="aa-AA"><seg>{aa}</seg></tuv><tuv xml:lang="bb"><seg>{bb}</seg></tuv></tu>')
    Path("memory.tmx").write_text(f'<tmx version="1.4"><header/><body>{"".join(units)}</body></tmx>', encoding="utf-8")
    other = ["--general", "text/test.aa", "text/test.bb", "--beside", "text/dev.aa", "text/dev.bb"]
    done = nmt(*ADAPT, "memory.tmx", *other)
    assert done.status == 0, done.err
    assert [words[-1] for words in called if words[0] == "compare"] == ["mine", "general"]
    assert "general" in (RunDir(Path("runs/base-adapted")).log).read_text(encoding="utf-8"), "it is watched"
    splits = read_manifest(DataDir(Path("runs/base-adapted/adapt/prepared"))).splits
    assert (splits["mine"].pairs, splits["general"].pairs) == (18, 10)


def test_adapting_writes_again_what_was_not_trained(mine: list[str], nmt: Command, called: list[list[str]]) -> None:
    shutil.copy("mine.aa", "mine.bb")
    assert nmt(*ADAPT, *mine).status == 2, "both sides are identical"
    assert [words[0] for words in called] == ["prepare"]
    tiny_text(Path("text"))
    assert nmt(*ADAPT, "text/train.aa", "text/train.bb").status == 0
