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


@pytest.fixture
def mono(folder: Path) -> list[str]:
    """Write text in the source language of the run, with lines of every kind that is counted."""
    lines = lines_of(folder / "text" / "train.aa")[:40]
    lines[3], lines[17], lines[20], lines[33] = "", " \u00a0", "ba " * 400, "ba\x0clo"
    lines[5] = lines_of(folder / "text" / "dev.aa")[2]
    lines[6] = f" {lines_of(folder / 'text' / 'test.aa')[1]}"
    Path("mono.aa").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines


@pytest.fixture
def back(mono: list[str], folder: Path) -> tuple[object, ...]:  # noqa: ARG001
    """Return the command without the directory that it writes."""
    return ("back-translate", "--reverse", folder / "run", "--mono", "mono.aa", "--output")


def test_synthetic_lines_are_aligned_and_counted(
    folder: Path, mono: list[str], back: tuple[object, ...], nmt: Command
) -> None:
    done = nmt(*back, "out", "--how", "greedy", "--upsample", "3")
    assert done.status == 0, done.err
    skipped, translator = (3, 5, 6, 17, 20, 33), Translator.load(folder / "run")
    best = [best for best, *_ in translator.translate_lines(mono, translator.search_settings({"beam": 1}))]
    expected = ["" if i in skipped or not each.finished else each.text for i, each in enumerate(best)]
    assert lines_of(Path("out/synthetic.bb")) == expected

    counts = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    n_lines, n_pairs = counts.pop("lines"), counts.pop("pairs")
    assert n_lines == len(mono) == n_pairs + sum(counts.values())
    n_unfinished = counts.pop(UNFINISHED, 0)
    assert counts == {
        "not translated: blank line": 2, "not translated: in a dev or test set": 2,
        "not translated: too long (characters)": 1, "not translated: control character": 1,
    }  # fmt: skip

    data = load_config("out/config.yaml").data
    assert data.direction == "bb-aa"
    assert data.train[0].files == {lang: str(folder / "text" / f"train.{lang}") for lang in ("aa", "bb")}
    assert data.train[1].files == {"bb": "out/synthetic.bb", "aa": "mono.aa"}
    result = nmt("prepare", "--config", "out/config.yaml", "--tokenizer-from", folder / "run")
    assert result.status == 0, result.err
    sources = read_manifest(DataDir(Path("out/prepared"))).sources
    assert sources is not None
    kept, by_reason = sources["train.1"].kept, dropped(Path("out/prepared"))
    assert len(lines_of(Path("out/prepared/train.aa"))) == 3 * sources["train.0"].kept + kept
    assert by_reason.pop("empty") == 6 + n_unfinished
    assert kept == n_pairs - sum(by_reason.values()) > 20


def test_set_of_root_and_direction_reaches_authentic_corpora(
    folder: Path, back: tuple[object, ...], nmt: Command
) -> None:
    config = load_config(folder / "run" / "config.yaml", ["data.root=elsewhere"])
    Path("mine.yaml").write_text(dump_config(config), encoding="utf-8")
    settings = (f"data.root={folder / 'text'}", "data.direction=bb-aa", "training.seed=7")
    changes = [word for setting in settings for word in ("--set", setting)]
    done = nmt(*back, "out", "--config", "mine.yaml", "--how", "greedy", *changes)
    assert done.status == 0, done.err
    following = load_config("out/config.yaml")
    assert following.data.train[0].files == {lang: str(folder / "text" / f"train.{lang}") for lang in ("aa", "bb")}
    assert (following.data.root, following.data.direction, following.training.seed) == (".", "bb-aa", 7)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a dog", None),
        (" ", "not translated: blank line"),
        ("\u200b", "not translated: blank line"),
        ("x" * 1001, "not translated: too long (characters)"),
        (" a test ", "not translated: in a dev or test set"),
    ],
)
def test_skip_reason_depends_on_line(line: str, reason: str | None) -> None:
    assert LineRules(load_config("sample.yaml").data, ["a test\t"]).skip_reason(line) == reason


def test_resumed_recipe_equals_uninterrupted_one(
    back: tuple[object, ...], nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nmt(*back, "whole").status == 0
    for n, status, numbers in ((2, 130, [0, 16]), (9, 0, [32])):
        with monkeypatch.context() as patch:
            firsts = interrupt_after(n, patch)
            assert nmt(*back, "parts").status == status
            assert firsts == numbers, "finished chunks are not translated again"
        if status:
            assert sorted(path.name for path in Path("parts").iterdir()) == ["chunks", "lock", "settings.json"]
    whole, parts = (
        {path.name: path.read_bytes() for path in Path(name).iterdir() if path.name not in ("config.yaml", "lock")}
        for name in ("whole", "parts")
    )
    assert parts == whole

    monkeypatch.setattr(Translator, "load", lambda *_: pytest.fail("nothing is to be translated"))
    done = nmt(*back, "parts")
    assert done.status == 0 and "parts/synthetic.bb: all 40 lines are already translated" in done.err
    assert f"{json.loads(whole['report.json'])['pairs']:>12,}  pairs\n" in done.out


def test_mismatched_input_is_rejected_before_writing(folder: Path, back: tuple[object, ...], nmt: Command) -> None:
    def message(*words: object) -> str:
        done = nmt(*back, *words)
        assert done.status == 2 and done.err.count("\n") == 1
        return done.err

    greedy = ("out", "--how", "greedy")
    assert nmt(*back, *greedy).status == 0
    assert "search.sample was False, is True" in message("out")
    path = folder / "run" / "config.yaml"
    config = load_config(path, ["data.direction=bb-aa"])
    config.data.test["training"] = TrainFiles(
        files={lang: str(folder / "text" / f"train.{lang}") for lang in ("aa", "bb")}
    )
    Path("more.yaml").write_text(dump_config(config), encoding="utf-8")
    assert "dev_and_test_lines was" in message(*greedy, "--config", "more.yaml"), "its lines may have been translated"
    with Path("mono.aa").open("a", encoding="utf-8") as file:
        file.write("more\n")
    assert "started with other settings: text was" in message(*greedy)
    assert "which this recipe did not write" in message(folder)
    assert "translates aa-bb; set data.direction to bb-aa" in message("new", "--config", path)
    assert "nmt: --set: data.direction is aa-bb" in message("new", "--set", "data.direction=aa-bb")
    Path("mono.aa").write_bytes(b"ba\nb\xe4\n")
    assert "not UTF-8 at line 2" in message("new")
    assert not Path("new").exists(), "all of these are found before anything is written"
