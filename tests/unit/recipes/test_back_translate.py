"""Tests of `nmt back-translate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Command
from nmt import Translator
from nmt.config.load import dump_config, load_config
from nmt.data.manifest import read_manifest
from nmt.data.sources import TrainFiles
from nmt.layout import DataDir
from nmt.recipes.back_translate import UNFINISHED, LineRules
from recipe_folder import dropped, interrupt_after, lines_of


def write_mono(folder: Path) -> list[str]:
    """Write text in the source language of the run, with lines of every kind that is counted."""
    lines = lines_of(folder / "text" / "train.aa")[:40]
    lines[3], lines[17] = "", " \u00a0"
    lines[5] = lines_of(folder / "text" / "dev.aa")[2]
    lines[6] = f" {lines_of(folder / 'text' / 'test.aa')[1]}"
    lines[20] = "ba " * 400
    lines[33] = "ba\x0clo"
    Path("mono.aa").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines


def test_synthetic_lines_are_aligned_and_counted(folder: Path, nmt: Command) -> None:
    lines = write_mono(folder)
    back = ("back-translate", "--reverse", folder / "run", "--mono", "mono.aa", "--output", "out", "--how", "greedy")
    done = nmt(*back, "--upsample", "3")
    assert done.status == 0, done.err
    synthetic = lines_of(Path("out/synthetic.bb"))
    skipped = (3, 5, 6, 17, 20, 33)
    translator = Translator.load(folder / "run")
    search = translator.config.search.model_copy(update={"beam": 1})
    for i, (best, *_) in enumerate(translator.translate_lines(lines, search)):
        assert synthetic[i] == ("" if i in skipped or not best.finished else best.text)

    counts = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    n_lines, n_pairs = counts.pop("lines"), counts.pop("pairs")
    assert n_lines == len(lines) == n_pairs + sum(counts.values())
    not_translated = {reason: n for reason, n in counts.items() if reason.startswith("not translated")}
    assert not_translated == {
        "not translated: blank": 2, "not translated: in a dev or test set": 2,
        "not translated: too long (characters)": 1, "not translated: control character": 1,
    }  # fmt: skip

    config = load_config("out/config.yaml")
    assert config.data.direction == "bb-aa"
    assert config.data.train[0].files == {lang: str(folder / "text" / f"train.{lang}") for lang in ("aa", "bb")}
    assert config.data.train[1].files == {"bb": "out/synthetic.bb", "aa": "mono.aa"}
    result = nmt("prepare", "--config", "out/config.yaml", "--tokenizer-from", folder / "run")
    assert result.status == 0, result.err
    sources = read_manifest(DataDir(Path("out/prepared"))).sources
    assert sources is not None
    kept = sources["train.1"].kept
    n_texts = len(lines_of(Path("out/prepared/train.aa")))
    assert n_texts == 3 * sources["train.0"].kept + kept
    by_reason = dropped(Path("out/prepared"))
    assert by_reason.pop("empty") == 6 + counts.get(UNFINISHED, 0)
    assert kept == n_pairs - sum(by_reason.values()) > 20


def test_set_of_root_and_direction_reaches_authentic_corpora(folder: Path, nmt: Command) -> None:
    write_mono(folder)
    config = load_config(folder / "run" / "config.yaml", ["data.root=elsewhere"])
    Path("mine.yaml").write_text(dump_config(config), encoding="utf-8")
    settings = (f"data.root={folder / 'text'}", "data.direction=bb-aa", "training.seed=7")
    changes = [word for setting in settings for word in ("--set", setting)]
    done = nmt(
        "back-translate", "--reverse", folder / "run", "--mono", "mono.aa", "--output", "out", "--config", "mine.yaml",
        "--how", "greedy", *changes,
    )  # fmt: skip
    assert done.status == 0, done.err
    following = load_config("out/config.yaml")
    assert following.data.train[0].files == {lang: str(folder / "text" / f"train.{lang}") for lang in ("aa", "bb")}
    assert following.data.root == "."
    assert following.data.direction == "bb-aa" and following.training.seed == 7


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a dog", None),
        (" ", "not translated: blank"),
        ("\u200b", "not translated: blank"),
        ("x" * 1001, "not translated: too long (characters)"),
        (" a test ", "not translated: in a dev or test set"),
    ],
)
def test_skip_reason_depends_on_line(line: str, reason: str | None) -> None:
    assert LineRules(load_config("sample.yaml").data, ["a test\t"]).skip_reason(line) == reason


def test_resumed_recipe_equals_uninterrupted_one(folder: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mono(folder)
    back = ("back-translate", "--reverse", folder / "run", "--mono", "mono.aa", "--output")
    assert nmt(*back, "whole").status == 0
    whole = {path.name: path.read_bytes() for path in Path("whole").iterdir() if path.suffix != ".yaml"}
    with monkeypatch.context() as patch:
        firsts = interrupt_after(2, patch)
        assert nmt(*back, "parts").status == 130 and firsts == [0, 16]
    assert sorted(path.name for path in Path("parts").iterdir()) == ["chunks", "lock", "settings.json"]
    with monkeypatch.context() as patch:
        firsts = interrupt_after(9, patch)
        assert nmt(*back, "parts").status == 0
        assert firsts == [32], "finished chunks are not translated again"
    parts = {path.name: path.read_bytes() for path in Path("parts").iterdir() if path.suffix != ".yaml"}
    assert {name for name in whole if whole[name] != parts.get(name)} <= {"lock"} and parts.keys() == whole.keys()

    monkeypatch.setattr(Translator, "load", lambda *_: pytest.fail("nothing is to be translated"))
    done = nmt(*back, "parts")
    assert done.status == 0 and "parts/synthetic.bb: all 40 lines are already translated" in done.err
    assert f"{json.loads(whole['report.json'])['pairs']:>12,}  pairs\n" in done.out


def test_mismatched_input_is_rejected_before_writing(folder: Path, nmt: Command) -> None:
    def message(*words: object) -> str:
        done = nmt("back-translate", *words)
        assert done.status == 2 and done.err.count("\n") == 1
        return done.err

    write_mono(folder)
    run = folder / "run"
    back = ("--reverse", run, "--mono", "mono.aa", "--output")
    assert nmt("back-translate", *back, "out", "--how", "greedy").status == 0
    assert "search.sample was False, is True" in message(*back, "out")
    config = load_config(run / "config.yaml", ["data.direction=bb-aa"])
    more = {"training": TrainFiles(files={lang: str(folder / "text" / f"train.{lang}") for lang in ("aa", "bb")})}
    changed = config.model_copy(update={"data": config.data.model_copy(update={"test": more})})
    Path("more.yaml").write_text(dump_config(changed), encoding="utf-8")
    another_test_set = message(*back, "out", "--how", "greedy", "--config", "more.yaml")
    assert "dev_and_test_lines was" in another_test_set, "its lines may have been translated"
    with Path("mono.aa").open("a", encoding="utf-8") as file:
        file.write("more\n")
    assert "started with other settings: text was" in message(*back, "out", "--how", "greedy")
    assert "which this recipe did not write" in message(*back, folder)
    assert "translates aa-bb; set data.direction to bb-aa" in message(*back, "new", "--config", run / "config.yaml")
    assert "nmt: --set: data.direction is aa-bb" in message(*back, "new", "--set", "data.direction=aa-bb")
    Path("latin").write_bytes(b"ba\nb\xe4\n")
    assert "not UTF-8 at line 2" in message("--reverse", run, "--mono", "latin", "--output", "new")
    assert not Path("new").exists(), "all of these are found before anything is written"
