"""Tests of the corpora in the config that a recipe writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from command import Command
from folders import TRAIN, Folder, files
from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.data.sources import Source
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.recipes.directory import rooted
from nmt.translate.loading import Translator
from recipe_folder import Parrot, dropped, lines_of, make_split
from tiny_run import licensed


@pytest.fixture
def split(folder: Path, tmp_path: Path) -> Path:
    """Return the folder that `make_split` creates."""
    return make_split(tmp_path, folder / "run")


@pytest.mark.parametrize("command", ["distil", "back-translate", "back-translate --config"])
def test_split_off_development_set_is_excluded_from_training_text(
    command: str, split: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, made = DataDir(split), DataDir(Path("out/prepared"))
    assert dropped(split)["shared"] >= 5
    monkeypatch.setattr(Translator, "load", lambda *_: Parrot(data, "bb"))
    config = licensed(load_config("run/config.yaml"))
    config.data.test["test"] = config.data.test["test"].model_copy(update={"license": "CC0"})
    Path("run/config.yaml").write_text(dump_config(config), encoding="utf-8")
    change = ["data.direction=bb-aa", "data.dir=split"]
    Path("mine.yaml").write_text(dump_config(load_config("run/config.yaml", change)), encoding="utf-8")
    Path("mono.aa").write_text("".join(f"{line} bo\n" for line in lines_of(data.text("train", "aa"))), "utf-8")
    options = {
        "distil": "--teacher run --data split --with-originals",
        "back-translate": "--reverse run --mono mono.aa --upsample 3",
        "back-translate --config": "--reverse run --mono mono.aa --upsample 3 --config mine.yaml",
    }
    done = nmt(command.split()[0], *options[command].split(), "--output", "out")
    assert done.status == 0, done.err
    following = load_config("out/config.yaml")
    if command == "distil":  # --data may name another text than the teacher's
        assert (following.data.valid.license, following.data.test["test"].license) == (None, "CC0")
    prepare(following, made.path, Path("run"), echo=lambda _: None)
    for language in ("aa", "bb"):
        for name in ("valid", "own"):
            held_out = lines_of(made.text(name, language))
            assert held_out == lines_of(data.text(name, language)) and 1 <= len(held_out) <= 5
            assert not set(held_out) & set(lines_of(made.text("train", language)))
    # all other pairs are there, as often as asked for
    pairs, authentic = (
        list(zip(*(lines_of(each.text("train", language)) for language in ("aa", "bb")), strict=True))
        for each in (made, data)
    )
    assert {pairs.count(pair) for pair in authentic} == ({1} if command == "distil" else {6})
    assert len(set(pairs)) > len(set(authentic))


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("back-translate --reverse run --mono mono.aa --upsample 3", "train.N.repeat differs between the corpora"),
        ("distil --teacher run", "its text has data.train.N.repeat above 1"),
    ],
)
@pytest.mark.usefixtures("split")
def test_different_repeats_are_rejected(command: str, problem: str, nmt: Command) -> None:
    config = load_config("run/config.yaml")
    config.data.train.append(config.data.train[0].model_copy(update={"repeat": 7, "test": None}))
    Path("run/config.yaml").write_text(dump_config(config), "utf-8")
    Path("mono.aa").write_text("ba\n", encoding="utf-8")
    done = nmt(*command.split(), "--output", "out")
    assert done.status == 2 and problem in done.err and not Path("out").exists()


# --- settings that mix the training corpora ----------------------------------------------------------


def change_run(folder: Path, *changes: str) -> None:
    """Write `run`, the run of `folder` with other settings."""
    shutil.copytree(folder / "run", "run")
    Path("run/config.yaml").write_text(dump_config(load_config("run/config.yaml", changes)), encoding="utf-8")


@pytest.fixture
def recipe(folder: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """Return a function that runs a recipe with `run`, without its weights, and loads the config that it writes."""
    monkeypatch.setattr(Translator, "load", lambda *_: Parrot(DataDir(folder / "data"), "bb"))
    Path("mono.aa").write_text("ba\n", encoding="utf-8")
    options = {"distil": ["--teacher", "run"], "back-translate": ["--reverse", "run", "--mono", "mono.aa"]}

    def run(command: str, *words: str) -> Config:
        done = nmt(command, *options[command], "--output", "out", *words)
        assert done.status == 0, done.err
        return load_config("out/config.yaml")

    return run


OWN = "data.train.0.name=own"
ONLY_OWN = "training.stages=[{weights: {own: 1}}]"
OWN_LAST = "training.stages=[{steps: 1}, {weights: {own: 1}}]"


@pytest.mark.parametrize(
    "changes", [(OWN, ONLY_OWN), ("data.temperature=5",), (OWN, "data.train.0.weight=2", OWN_LAST)]
)
def test_student_has_no_mixture_of_replaced_corpora(
    changes: Sequence[str], folder: Path, recipe: Callable[..., Config]
) -> None:
    change_run(folder, *changes)
    config = recipe("distil", "--with-originals")
    assert [source.weight for source in config.data.train] == [None, None]
    assert config.data.temperature is None and config.training.stages == []
    wanted = "training.stages=[{weights: {originals: 1, distilled: 2}}]"
    stages = recipe("distil", "--with-originals", "--set", wanted).training.stages
    assert [stage.weights for stage in stages] == [{"originals": 1, "distilled": 2}]


def test_back_translations_have_weight_if_authentic_corpora_have(folder: Path, recipe: Callable[..., Config]) -> None:
    change_run(folder, "data.train.0.weight=3")
    train = recipe("back-translate", "--upsample", "2").data.train
    assert [(source.weight, source.repeat) for source in train] == [(6, 1), (3, 1)]
    train = recipe("back-translate", "--set", "data.train.1.weight=4").data.train
    assert [source.weight for source in train] == [3, 4]


def test_stages_that_lack_back_translations_are_left_out(folder: Path, recipe: Callable[..., Config]) -> None:
    change_run(folder, OWN, ONLY_OWN)
    assert recipe("back-translate").training.stages == []
    assert len(recipe("back-translate", "--set", ONLY_OWN).training.stages) == 1, "the user asks for them"


def test_stages_that_use_back_translations_are_kept(folder: Path, recipe: Callable[..., Config]) -> None:
    change_run(folder, OWN, OWN_LAST)
    assert [stage.weights for stage in recipe("back-translate").training.stages] == [None, {"own": 1}]


# --- other settings of the teacher --------------------------------------------------------------------


def test_student_of_monolingual_text_has_data_settings_of_teacher(folder: Path, recipe: Callable[..., Config]) -> None:
    change_run(
        folder, "data.max_chars=777", "data.max_pieces=90", "data.fuzzy_threshold=0.5",
        "data.clean.max_words=80", "data.mono={aa: [{files: {aa: mono.aa}}]}",
        "model.positions=learned", "model.max_positions=128",
    )  # fmt: skip
    data = recipe("distil", "--mono", "mono.aa").data
    assert (data.max_chars, data.max_pieces, data.fuzzy_threshold, data.clean.max_words) == (777, 90, 0.5, 80)
    assert (data.direction, data.valid, data.test, data.mono) == ("aa-bb", 1, {}, {})
    assert [source.label for source in data.train] == ["distilled"]
    given = recipe("distil", "--mono", "mono.aa", "--student", "tiny", "--set", "data.max_pieces=70")
    assert given.data.max_pieces == 70 and given.data.max_chars == 777
    assert given.tokenizer.vocab_size == 8000, "its own"


@pytest.mark.parametrize("words", [("distil",), ("distil", "--mono", "mono.aa"), ("back-translate",)])
def test_block_lists_are_found_in_root(words: Sequence[str], folder: Path, recipe: Callable[..., Config]) -> None:
    change_run(folder, "data.clean.block_lists={aa: dev.aa}", "data.train.0.clean={block_lists: {aa: test.aa}}")
    data = recipe(*words).data
    assert data.root == "." and data.clean.block_lists == {"aa": str(folder / "text" / "dev.aa")}
    own = [source.clean.block_lists for source in data.train if source.clean]
    assert own == ([{"aa": str(folder / "text" / "test.aa")}] if words[0] == "back-translate" else [])


@pytest.mark.parametrize(("options", "watched"), [((), ["test"]), (("--mono", "mono.aa"), [])])
def test_student_watches_only_its_own_test_sets(
    options: Sequence[str], watched: list[str], folder: Path, recipe: Callable[..., Config]
) -> None:
    change_run(folder, "training.watch=[test]")
    assert recipe("distil", *options).training.watch == watched


def test_sharded_text_is_read_by_shard(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    place.write(more=[(f"{src} Ja.", f"{tgt} Yes.") for src, tgt in TRAIN[:40]])
    changes: dict[str, Any] = {
        "data__valid": 10,
        "data__train": [{**files("train"), "license": "CC0"}, {**files("more"), "repeat": 3}],
    }
    place.prepare(sizes=Sizes(shard_pairs=100), **changes)
    config = rooted(place.config(**changes), place.data)
    shards = place.corpus().manifest.splits["train"].shards or []
    assert [source.files for source in config.data.train] == [
        {language: str(place.data / f"{shard.name}.{language}") for language in ("de", "en")} for shard in shards
    ]
    assert [source.repeat for source in config.data.train] == [1, 1, 3]
    assert [source.license for source in config.data.train] == ["CC0", "CC0", None]
    assert isinstance(config.data.valid, Source) and config.data.valid.license == "CC0, not stated"
    again = {source.label for source in config.data.train}
    assert again == {shard.name for shard in shards}
