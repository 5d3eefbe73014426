"""Tests of the configuration that `nmt adapt` writes, and of what it refuses, without training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from command import Command
from nmt.config import Config
from nmt.config.load import changed_config, load_config
from nmt.recipes import directory
from tiny_run import tiny_config, write_tiny_run

FAILED = 1


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that are to be run, of which the first fails."""
    words = list[list[str]]()

    def run_nmt(arguments: Sequence[str]) -> int:
        words.append([*arguments])
        return FAILED

    monkeypatch.setattr(directory, "run_nmt", run_nmt)
    return words


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run from German to English."""
    return write_tiny_run(tmp_path_factory.mktemp("adapted") / "base")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with several directions."""
    config = tiny_config()
    text = {"train": [{"path": "all.tmx"}], "valid": 10, "test": {}, "directions": ["de-en", "en-de", "fr-en"]}
    config = changed_config(config, [(f"data.{name}", value) for name, value in text.items()])
    return write_tiny_run(tmp_path_factory.mktemp("adapted") / "several", config)


def written(nmt: Command, *words: object) -> Config:
    """Return the configuration that is written with these arguments, whose files are created."""
    for word in map(str, words):
        if Path(word).suffix and "=" not in word and not Path(word).exists():
            Path(word).touch()
    done = nmt("adapt", *words, "--output", "out")
    assert done.status == FAILED, done.err
    return load_config("out/adapt/config.yaml")


def test_config_has_settings_of_adapt_yaml(nmt: Command, base: Path, called: list[list[str]]) -> None:
    config = written(nmt, "--from", base, "mine.de.gz", "mine.en.gz", "--minutes", "5", "--set", "training.ema=0.9")
    assert called == [["prepare", "--config", "out/adapt/config.yaml", "--tokenizer-from", str(base)]]
    shipped = load_config("adapt.yaml")
    (corpus,) = config.data.train
    assert corpus == shipped.data.train[0].model_copy(
        update={"files": {"de": "mine.de.gz", "en": "mine.en.gz"}, "weight": None}
    )
    changes = {
        "init_from": str(base), "run_dir": "out", "max_minutes": 5, "ema": 0.9, "validate_every_steps": 100,
        "patience": None,
    }  # fmt: skip
    assert config.training == shipped.training.model_copy(update=changes)
    assert config.model.model_fields_set == {"kind", "embedding_dropout", "residual_dropout"}
    assert not config.tokenizer.model_fields_set, "the tokenizer is that of the run"


def test_other_text_is_weighted_and_watched(nmt: Command, base: Path) -> None:
    other = ["--beside", "corpus.de", "corpus.en", "--general", "news.tsv"]
    config = written(nmt, "--from", base, "memory.tmx", *other)
    mine, beside = config.data.train
    assert (mine.weight, beside.weight) == (1, 2) and (beside.valid, beside.test) == (None, None)
    assert mine.path == "memory.tmx" and beside.files == {"de": "corpus.de", "en": "corpus.en"}
    assert config.data.test["general"].path == "news.tsv" and config.training.watch == ["general"]


@pytest.mark.parametrize(
    ("words", "directions"),
    [
        (["a.de", "a.en"], ["de-en", "en-de"]),
        (["a.en", "a.fr"], ["fr-en"]),
        (["a.en", "a.fr", "--beside", "b.en", "b.de"], ["de-en", "en-de", "fr-en"]),
        (["all.tmx"], ["de-en", "en-de", "fr-en"]),
        (["a.de", "a.en", "--set", "data.directions=[de-en]"], ["de-en"]),
        (["a.gsw", "a.en", "--like", "gsw=de"], ["en-gsw", "gsw-en"]),
    ],
)
def test_known_directions_of_text_are_learned(
    nmt: Command, several: Path, words: list[str], directions: list[str]
) -> None:
    config = written(nmt, "--from", several, *words)
    assert sorted(config.data.directions) == directions


@pytest.mark.parametrize(
    ("words", "offending"),
    [
        (["mine.de", "mine.de"], "mine.de mine.de"),
        (["mine.de", "mine.cs"], "mine.cs"),
        (["memory.tmx"], "memory.tmx"),
        (["mine.de", "mine.en", "--general", "mine.de", "mine.cs"], "mine.cs"),
        (["mine.de", "mine.en", "--set", "training.peak=1"], "training.peak"),
        (["mine.de", "mine.en", "--output", "taken"], "taken"),
        (["mine.de", "mine.en", "--from", "nowhere"], "nowhere"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(
    nmt: Command, base: Path, called: list[list[str]], words: list[str], offending: str
) -> None:
    names = ["mine.cs", "mine.de", "mine.en"]
    Path("taken").mkdir()
    for name in names:
        Path(name).touch()
    run = [] if "--from" in words else ["--from", base]
    done = nmt("adapt", *run, *words)
    assert done.status == 2 and offending in done.err and done.err.count("\n") == 1
    assert called == [] and sorted(map(str, Path().rglob("*"))) == [*names, "taken"]
